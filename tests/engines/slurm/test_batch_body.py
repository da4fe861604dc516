"""The shell part of the batch script, run by real shells with a controller that is a script, too."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import batch_body
from kedge.testing.wait import wait_until

Start = Callable[..., subprocess.Popen[str]]
DEADLINE = 20.0
PLAIN = SlurmOptions()
NOTHING: Mapping[str, str] = {}
IN_JOB = {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"}


@pytest.fixture(params=["sh", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    found = shutil.which(request.param)
    if not found:
        pytest.skip(f"there is no {request.param}")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a name that needs quotes, and with a `sleep` that does not."""
    found = tmp_path / "it's a $HOME"
    (found / "bin").mkdir(parents=True)
    program(found / "bin" / "sleep", f"echo pause >> {_quoted(found / 'pauses')}")
    return found


@pytest.fixture
def start(shell: str, folder: Path) -> Start:
    """Starts a batch script whose controller has these lines."""

    def run(
        controller: str, options: SlurmOptions = PLAIN, bundle: Path = folder, variables: Mapping[str, str] = NOTHING
    ) -> subprocess.Popen[str]:
        program(folder / "controller", f"cd {_quoted(folder)}\n{controller}")
        script = folder / "script"
        script.write_text("\n".join(batch_body.body(f"{folder}/run", str(bundle), options)))
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", **variables}
        return subprocess.Popen(
            [shell, script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return run


def program(path: Path, lines: str) -> None:
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE)
    return process.returncode, out, err


@pytest.mark.parametrize("code", [0, 1, 4, 127, 128])
def test_it_ends_with_the_controllers_code(start: Start, code: int) -> None:
    assert ended(start(f'echo "$1"; exit {code}'))[::2] == (code, "")


def test_the_node_is_swept_when_the_job_has_ended(start: Start, folder: Path) -> None:
    program(folder / "agent", f'echo "$@" >> {_quoted(folder / "swept")}')
    assert ended(start("exit 1"))[0] == 1
    assert (folder / "swept").read_text() == "--sweep\n"


def test_the_controller_gets_the_run_folder(start: Start, folder: Path) -> None:
    assert ended(start('echo "$#:$1"'))[1] == f"1:{folder}/run\n"


def test_a_bundle_that_the_node_does_not_have_is_said(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    process = start("", PLAIN, folder / "nowhere")
    code, _, err = ended(process)
    assert (code, err) == (
        4,
        f"kedge: {folder}/nowhere is not on the node n7; set XDG_CACHE_HOME to a folder that all nodes share\n",
    )


def test_a_controller_that_was_killed_is_started_again(start: Start, folder: Path) -> None:
    code, _, err = ended(start("echo x >> starts\nif [ $(wc -l < starts) -lt 3 ]; then kill -s KILL $$; fi\nexit 7"))
    assert (code, (folder / "starts").read_text()) == (7, "x\n" * 3)
    assert err.count("killed by signal 9; restart") == 2
    assert (folder / "pauses").read_text() == "pause\n" * 2


def test_it_gives_up_on_a_controller_that_is_always_killed(start: Start, folder: Path) -> None:
    code, _, err = ended(start("echo x >> starts\nkill -s SEGV $$"))
    assert (code, (folder / "starts").read_text()) == (128 + signal.SIGSEGV, "x\n" * (batch_body.MOST_RESTARTS + 1))
    assert f"{batch_body.MOST_RESTARTS} restarts did not help" in err


def test_one_that_is_killed_now_and_then_for_weeks_is_always_started_again(start: Start, folder: Path) -> None:
    clock = _quoted(folder / "clock")
    program(
        folder / "bin" / "date", f"echo $(($(cat {clock} || echo 0) + 4000)) | tee {clock}.new; mv {clock}.new {clock}"
    )
    most = 2 * batch_body.MOST_RESTARTS
    code, _, err = ended(
        start(f"echo x >> starts\nif [ $(wc -l < starts) -le {most} ]; then kill -s KILL $$; fi\nexit 7")
    )
    assert (code, (folder / "starts").read_text()) == (7, "x\n" * (most + 1))
    assert err.count("restart 1 of") == most


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1", "USR2"])
def test_signals_are_passed_on(start: Start, folder: Path, name: str) -> None:
    """Each time, not only once; and the code of the end is still that of the controller, which takes its time."""
    lines = (
        f"trap 'echo {name} >> got; if [ $(wc -l < got) -gt 1 ]; then exit 5; fi' {name}\n"
        "touch ready\nwhile :; do /bin/sleep 0.02; done"
    )
    if name == "INT":  # shells cannot trap it if it was ignored when they started, as in every background process
        lines = (
            "exec python3 -c 'import signal, sys, time\n"
            'def got(*_):\n    print("INT", file=open("got", "a"))\n'
            '    if len(open("got").readlines()) > 1: sys.exit(5)\n'
            'signal.signal(signal.SIGINT, got)\nopen("ready", "w").close()\nwhile 1: time.sleep(0.02)\''
        )
    process = start(lines)
    wait_until(lambda: (folder / "ready").exists(), DEADLINE)
    for count in (1, 2):
        process.send_signal(getattr(signal, f"SIG{name}"))
        wait_until(lambda count=count: _lines(folder / "got") == count, DEADLINE)  # type: ignore[misc]
    assert ended(process)[0] == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_controller_that_dies_of_a_forwarded_stop_stays_dead(start: Start, folder: Path, number: int) -> None:
    process = start("echo x >> starts\nexec /bin/sleep 60")
    wait_until(lambda: _lines(folder / "starts") == 1, DEADLINE)
    process.send_signal(number)
    assert ended(process)[0] == 128 + number
    assert _lines(folder / "starts") == 1


@pytest.mark.parametrize("name", ["TERM", "USR1", "USR2"])
def test_a_signal_between_two_controllers_is_for_the_next(start: Start, folder: Path, name: str) -> None:
    """It starts at once, and gets the signal when it can take it."""
    program(folder / "bin" / "sleep", f"touch {_quoted(folder / 'pausing')}; exec /bin/sleep 60 > /dev/null 2>&1")
    process = start('echo "$@" >> starts\n[ -e pausing ] || kill -s KILL $$\nexit 5')
    wait_until(lambda: (folder / "pausing").exists(), DEADLINE)
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert ended(process)[0] == 5
    assert (folder / "starts").read_text() == f"{folder}/run\n{folder}/run {name}\n"


def test_lines_of_the_site_run_around_the_controller(start: Start) -> None:
    options = SlurmOptions(prologue=["x=prologue; echo $x", "export x"], epilogue=["echo epilogue"])
    assert ended(start('echo "controller after $x"; exit 3', options))[:2] == (
        3, "prologue\ncontroller after prologue\nepilogue\n",
    )  # fmt: skip


def test_slurms_commands_and_configuration_are_those_of_the_site(start: Start) -> None:
    options = SlurmOptions(commands="/opt/my slurm", conf="/etc/my slurm.conf")
    _, out, _ = ended(start('echo "$SLURM_CONF $PATH"', options))
    assert out.startswith("/etc/my slurm.conf /opt/my slurm:")


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize(
    ("nodes", "requeue", "ends"),
    [("n2", False, ["scancel 7"]), ("n2", True, ["scontrol requeue 7"]), ("n1 n2", False, [])],
)
def test_the_next_node_ends_a_job_whose_first_node_has_failed(
    start: Start, folder: Path, nodes: str, requeue: bool, ends: list[str]
) -> None:
    calls = _quoted(folder / "calls")
    (folder / "run" / "cluster").mkdir(parents=True)
    (folder / "run" / "cluster" / "heartbeat").write_text("dead")
    end = f"echo ${{0##*/}} $* >> {calls}; kill -KILL $PPID"
    program(folder / "bin" / "srun", 'while [ "$1" != sh ]; do shift; done; exec "$@"')
    program(folder / "bin" / "scancel", end)
    asked = f"*) printf 'x\\n' >> {_quoted(folder / 'asked')}; echo JobId=7 ReqNodeList=n9 NodeList=n BatchHost=n1"
    hosts = f"*hostnames*) for each in {nodes}; do echo $each; done"
    program(folder / "bin" / "scontrol", f'case "$*" in\n{hosts};;\nrequeue*) {end};;\n{asked};;\nesac')
    script = start("until [ -e end ]; do :; done", SlurmOptions(requeue=requeue), variables=IN_JOB)
    done = (folder / "calls").exists if ends else lambda: len(_said(folder / "asked")) > 2
    wait_until(done, DEADLINE, "the end of the job, or some questions")
    (folder / "end").touch()
    program(folder / "bin" / "sleep", "kill -KILL $PPID")  # the watch goes on until its job ends
    script.communicate(timeout=DEADLINE)
    assert _said(folder / "calls") == ends
    assert (folder / "run" / "cluster" / "allocation.json").exists() == bool(ends)
    if ends:
        left = json.loads((folder / "run" / "cluster" / "allocation.json").read_text())
        assert left == {
            "number": 2,
            "cause": "node_failure",
            "text": "the node n1, on which its controller ran, has failed",
        }


def _said(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
