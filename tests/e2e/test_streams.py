"""kedge with streams that are closed, full or unread."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios

import pytest

from .conftest import TIMEOUT, Kedge


def shell(kedge: Kedge, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command; `kedge` in it is the one under test."""
    script = f'kedge() {{ {shlex.quote(sys.executable)} -m kedge "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", script],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_job_runs_without_standard_streams(kedge: Kedge, closed: str) -> None:
    kedge.job(["echo out; echo err >&2", "ls -l /proc/self/fd | grep -c -- '->'"])
    done = shell(kedge, f"kedge run job.yaml {closed}")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert kedge("ps").stdout.split()[-6:-4] != ["lost"]
    assert sorted(kedge.task_log().splitlines()) == ["4", "err", "out"]


@pytest.mark.parametrize("command", ["ps", "validate job.yaml", "plan --json job.yaml", "--version", "schema"])
def test_without_stdout_nothing_is_printed(kedge: Kedge, command: str) -> None:
    kedge.job("true")
    done = shell(kedge, f"kedge {command} >&-")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("command", ["ps", "validate job.yaml", "plan --json job.yaml", "--version", "run job.yaml"])
def test_a_full_disk_behind_stdout_is_an_error_not_a_bug(kedge: Kedge, command: str) -> None:
    kedge.job("echo out")
    done = shell(kedge, f"kedge {command} > /dev/full")
    assert done.returncode == 4
    assert "error: stdout: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_continues_when_its_lines_cannot_be_shown(kedge: Kedge) -> None:
    kedge.job("echo out")
    assert "the job continues" in shell(kedge, "kedge run job.yaml > /dev/full").stderr
    assert kedge.task_log() == "out\n"
    assert " succeeded " in kedge("ps").stdout


def on_a_terminal(kedge: Kedge, *args: object, **environment: str) -> str:
    """What a command shows on a terminal of 40 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "kedge", *map(str, args)],
        cwd=kedge.folder, env={**kedge.environment, "TERM": "xterm", **environment},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while more := os.read(ours, 65536):
            shown += more
    except OSError:  # this is how a terminal reports its end
        pass
    os.close(ours)
    assert process.wait(TIMEOUT) in (0, 1)
    return shown.decode()


def test_a_narrow_terminal_wraps_and_cuts_nothing(kedge: Kedge) -> None:
    kedge("run", kedge.job("true", name="a-name-that-is-as-long-as-names-may-be"))
    assert kedge.only_run().name in on_a_terminal(kedge, "ps")


@pytest.mark.parametrize(
    ("environment", "colours"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_follow_the_terminal_and_the_environment(
    kedge: Kedge, environment: dict[str, str], colours: bool
) -> None:
    shown = on_a_terminal(kedge, "run", kedge.job("echo said; no-such-program"), **environment)
    assert "said" in shown
    assert "Root cause" in shown
    assert ("\033[3" in shown) is colours
    assert ("\033[1;3" in shown) is colours


def test_only_the_label_of_a_verdict_is_coloured(kedge: Kedge) -> None:
    shown = on_a_terminal(kedge, "run", kedge.job("python3 -c 'import no_such_module'"), COLUMNS="60")
    assert "\033[0mInstall no_such_module in the" in shown


def test_a_verdict_is_wrapped_at_words_on_a_terminal(kedge: Kedge) -> None:
    shown = on_a_terminal(kedge, "run", "-q", kedge.job("echo 'MemoryError'; exit 1"), COLUMNS="", NO_COLOR="1")
    answer = re.sub(r"\033\[[0-9;]*m", "", shown).replace("\r", "").partition("Root cause")[2]
    rest = [line[12:] for line in answer.splitlines()[1:]]
    assert len(rest) > 5
    assert all(len(line) <= 28 or " " not in line for line in rest)


@pytest.mark.parametrize(("hang_up", "code"), [(signal.SIG_DFL, 1), (signal.SIG_IGN, 0)])
def test_when_the_terminal_is_closed_the_exit_code_still_reports_how_the_job_ended(
    kedge: Kedge, hang_up: signal.Handlers, code: int
) -> None:
    kedge.job([f"echo started; until test -e {kedge.folder}/go; do sleep 0.05; done; echo done"])
    process, ours = pty.fork()
    if not process:
        signal.signal(signal.SIGHUP, hang_up)
        os.chdir(kedge.folder)
        os.execve(sys.executable, [sys.executable, "-m", "kedge", "run", "job.yaml"], kedge.environment)
    shown = b""
    while b"started" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    if hang_up == signal.SIG_IGN:
        (kedge.folder / "go").touch()
    _, ended = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(ended) == code
