"""Runs whose controller was killed: `kedge stop` ends all of their known processes, and names those it cannot end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kedge import processes
from kedge.engines.local import cgroups, process_record
from kedge.runs.folder import Run
from kedge.testing.wait import wait_until

from .conftest import Kedge

NOBODY = 65534
TIMEOUT = 60.0
# May read everything, because the Python of the tests may be in root's home.
AS_NOBODY = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip

# One in the command's session, one in another session, and an orphaned daemon; all without an environment.
SAME, OTHER, DAEMON = "same", "other", "daemon"
FAMILY = """
env -i sleep {nap}1 &
env -i setsid sleep {nap}2 &
env -i setsid sh -c '(sleep {nap}3 </dev/null >/dev/null 2>&1 &)'
echo ready
sleep {nap}4
"""


class Unprivileged(Kedge):
    """kedge run by a user who may not make control groups."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment["HOME"] = str(folder)

    def argv(self, args: tuple[object, ...]) -> list[str]:
        return [*AS_NOBODY, *super().argv(args)]


@pytest.fixture
def nobody() -> Iterator[Kedge]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(prefix="kedge-test-"))
    os.chown(folder, NOBODY, NOBODY)
    command = Unprivileged(folder)
    yield command
    command.close()
    shutil.rmtree(folder)


@pytest.fixture
def nap() -> Iterator[str]:
    """The first digits of the seconds of all sleeps of a test, which distinguish them from others."""
    number = f"{uuid.uuid4().int % 10**6 + 10**6}"
    yield number
    for pid in sleepers(number).values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def sleepers(nap: str) -> dict[str, int]:
    """The pids of the sleeps that still run, by the last digits of their seconds."""
    found = subprocess.run(["pgrep", "-af", f"^sleep {nap}"], capture_output=True, text=True, check=False).stdout
    return {name.rpartition(nap)[2]: int(pid) for pid, _, name in (line.partition(" ") for line in found.splitlines())}


def lost_run(kedge: Kedge, nap: str, commands: str = FAMILY) -> Run:
    """A run whose controller was killed and whose tasks continue."""
    process = kedge.start("run", kedge.job(commands.format(nap=nap)))
    kedge.wait_for_output("ready")
    run = Run(kedge.only_run())
    wait_until(lambda: bool(process_record.supervisors(run)), TIMEOUT)
    os.kill(json.loads(run.lock.read_text())["pid"], signal.SIGKILL)
    process.wait()
    return run


def kill_supervisors(run: Run) -> None:
    found = process_record.supervisors(run)
    assert len(found) == 1
    for process in found:
        os.kill(process.pid, signal.SIGKILL)
    assert processes.wait(found, TIMEOUT) == []


def keeper_of(run: Run) -> processes.Process | None:
    """The keeper of a run, while it lives."""
    lines = map(json.loads, (run.path / process_record.FILE).read_text().splitlines())
    found = next(processes.Process(line["pid"], line["start_time"]) for line in lines if line["event"] == "keeper")
    return found if processes.is_alive(found) else None


@pytest.mark.parametrize("options", [(), ("--kill",)])
def test_processes_without_an_environment_are_found_below_their_supervisor(
    nobody: Kedge, nap: str, options: tuple[str]
) -> None:
    lost_run(nobody, nap, FAMILY.replace("echo ready", "trap 'exit 0' TERM; echo ready"))
    wait_until(lambda: len(sleepers(nap)) == 4, TIMEOUT)
    assert nobody("stop", *options, "job").stdout.endswith(" stopped\n")
    assert sleepers(nap) == {}
    assert nobody.leftovers() == []


def test_without_supervisors_processes_are_found_by_the_control_group(kedge: Kedge, nap: str) -> None:
    with cgroups.joining(f"kedge-test-{nap}") as join:
        join()
        if not cgroups.find(f"kedge-test-{nap}"):
            pytest.skip("no control group can be made here")
    run = lost_run(kedge, nap)
    wait_until(lambda: len(sleepers(nap)) == 4, TIMEOUT)
    kill_supervisors(run)
    assert len(sleepers(nap)) == 4
    assert kedge("stop", "job").stdout.endswith(" stopped\n")
    assert sleepers(nap) == {}
    assert cgroups.find(process_record.group_name(run)) is None


def test_without_supervisors_orphans_are_found_below_the_keeper(nobody: Kedge, nap: str) -> None:
    run = lost_run(nobody, nap)
    wait_until(lambda: len(sleepers(nap)) == 4, TIMEOUT)
    kill_supervisors(run)
    assert len(sleepers(nap)) == 4
    assert nobody("stop", "job").stdout.endswith(" stopped\n")
    assert sleepers(nap) == {}
    assert nobody.leftovers() == []
    wait_until(lambda: keeper_of(run) is None, TIMEOUT)


def test_a_keeper_ends_with_its_last_process(kedge: Kedge, nap: str) -> None:
    run = lost_run(kedge, nap, "echo ready; exec sleep {nap}1")
    kill_supervisors(run)
    assert keeper_of(run)
    os.kill(sleepers(nap)["1"], signal.SIGKILL)
    wait_until(lambda: keeper_of(run) is None, TIMEOUT)


def test_otherwise_processes_are_found_by_environment_and_session(nobody: Kedge, nap: str) -> None:
    run = lost_run(nobody, nap)
    wait_until(lambda: len(sleepers(nap)) == 4, TIMEOUT)
    kill_supervisors(run)
    found = keeper_of(run)
    assert found
    os.kill(found.pid, signal.SIGKILL)
    assert nobody("stop", "job").stdout.endswith(" stopped\n")
    # As documented, a daemon without environment, parents and control group cannot be found.
    assert sleepers(nap).keys() == {"3"}


def test_forged_events_of_a_task_do_not_prevent_stop_and_removal(kedge: Kedge, nap: str) -> None:
    lines = ['{"event": "starting"}', "[1]", '{"event": "starting", "pid": "x", "start_time": null}', "{", "\\377"]
    lines += ['{"event": "finished", "exit_code": {}}', '{"event": "starting", "pid": -1, "start_time": 1}']
    write = "; ".join(f"printf '%b\\n' '{line}'" for line in lines)
    run = lost_run(
        kedge,
        nap,
        "F=$KEDGE_PEERS_FILE; D=$(dirname $F); ({write}) > $D/worker-0/events.jsonl; "
        "({write}) >> $D/../processes.jsonl; ({write}) >> $D/../events.jsonl; "
        "echo ready; exec sleep {nap}".replace("{write}", write.replace("{", "{{").replace("}", "}}")),
    )
    assert kedge("stop", "job").stdout.endswith(" stopped\n")
    assert sleepers(nap) == {}
    kedge("rm", run.id)
    assert kedge.runs() == []


@pytest.fixture
def becoming_root() -> Iterator[Path]:
    """A program that makes any user root, like sudo without a password."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that makes others root")
    folder = Path(tempfile.mkdtemp(prefix="kedge-test-"))
    folder.chmod(0o755)
    setpriv = shutil.which("setpriv")
    assert setpriv
    program = Path(shutil.copy(setpriv, folder / "setpriv"))
    program.chmod(0o4755)
    yield program
    shutil.rmtree(folder)


def test_another_users_process_is_named_and_the_run_is_not_stopped(
    nobody: Kedge, nap: str, becoming_root: Path
) -> None:
    as_root = f"{becoming_root} --reuid=0 --regid=0 --clear-groups"
    run = lost_run(nobody, nap, f"setsid {as_root} sleep {{nap}}5 & echo ready; exec sleep {{nap}}1")
    wait_until(lambda: sleepers(nap).keys() == {"1", "5"}, TIMEOUT)
    pid = sleepers(nap)["5"]
    if os.stat(f"/proc/{pid}").st_uid != 0:
        pytest.skip("programs cannot become another user's here (nosuid)")
    done = nobody("stop", "--kill", "job", code=4)
    assert f"pid {pid} (sleep) belongs to root" in done.stderr
    assert "stopped" not in done.stdout
    assert sleepers(nap).keys() == {"5"}
    assert " lost " in nobody("ps").stdout
    # The parents that identified it are gone; it was recorded.
    assert f"pid {pid} (sleep)" in nobody("rm", run.id, code=4).stderr
    assert run.path.exists()
    os.kill(pid, signal.SIGKILL)
    assert nobody("stop", "job").stdout.endswith(" stopped\n")


def test_a_live_controller_names_what_it_cannot_end(nobody: Kedge, nap: str, becoming_root: Path) -> None:
    as_root = f"{becoming_root} --reuid=0 --regid=0 --clear-groups"
    commands = f"setsid {as_root} sleep {nap}5 & echo ready; exec sleep {nap}1"
    process = nobody.start("run", nobody.job(commands, extras={"kedge": {"stop": {"graceSec": 1}}}))
    nobody.wait_for_output("ready")
    wait_until(lambda: "5" in sleepers(nap), TIMEOUT)
    pid = sleepers(nap)["5"]
    if os.stat(f"/proc/{pid}").st_uid != 0:
        pytest.skip("programs cannot become another user's here (nosuid)")
    assert f"pid {pid} (sleep) belongs to root" in nobody("stop", "--kill", "job", code=4).stderr
    assert f"pid {pid} (sleep) belongs to root" in nobody.finish(process, 1)
