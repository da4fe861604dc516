"""Programs that `kedge exec` runs beside a running task."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kedge import contract
from kedge.errors import EXIT_FAILED, EXIT_INPUT
from kedge.testing.command import TIMEOUT, Kedge
from kedge.testing.conformance.case import same
from kedge.testing.wait import wait_until

_EXPORTS = {"plugin": "cmd", "parameters": {"preCommands": ["export FROM_HOOK=1"]}}
_EXTRAS = {"com.microsoft.pai.runtimeplugin": [_EXPORTS]}


@contextmanager
def _running(kedge: Kedge) -> Iterator[subprocess.Popen[str]]:
    process = kedge.start("run", kedge.job(["echo ready; sleep 1000"], extras=_EXTRAS))
    kedge.wait_for_output("ready")
    yield process
    kedge("stop", "job")
    kedge.finish(process, EXIT_FAILED)
    assert kedge.leftovers() == []


def _fed(kedge: Kedge, text: str, *args: str) -> str:
    """What a program prints that reads this text."""
    argv = kedge.argv(("exec", "-i", "job", "worker:0", "--", *args))
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, timeout=TIMEOUT, env=kedge.environment, check=True
    )
    return done.stdout


def programs(kedge: Kedge) -> None:
    with _running(kedge):
        script = 'echo $FROM_HOOK $PAI_TASK_INDEX; test "$PWD" = "$PAI_WORK_DIR"; echo $?; echo err >&2; exit 7'
        done = kedge("exec", "job", "worker:0", "--", "sh", "-c", script, code=7)
        same("stdout", done.stdout, "1 0\n0\n")
        same("stderr", done.stderr, "err\n")
        same("input", kedge("exec", "job", "worker", "cat").stdout, "")
        same("input with -i", _fed(kedge, "line\n" * 50_000, "cat"), "line\n" * 50_000)
        missing = kedge("exec", "job", "worker-0", "nothing-like-this", code=contract.SHELL_NOT_FOUND)
        assert "nothing-like-this: No such file or directory" in missing.stderr, missing.stderr
        assert "not a terminal" in kedge("exec", "-t", "job", "worker:0", "sh", code=EXIT_INPUT).stderr
    same("the log of the task", kedge.task_log(), "ready\n")
    ended = kedge("exec", "job", "worker:0", "true", code=EXIT_INPUT)
    assert "is not running: its state is stopped" in ended.stderr, ended.stderr


def shell_on_a_terminal(kedge: Kedge) -> None:
    with _running(kedge):
        pid, fd = pty.fork()
        if pid == 0:
            argv = kedge.argv(("exec", "job", "worker:0"))
            os.execve(argv[0], argv, kedge.environment)  # noqa: S606  (in the child of a fork)
        seen = _Typed(fd)
        seen.type("PS1='p''rompt '")  # the text that asks for a line is not in what is typed
        seen.shows("prompt ")
        seen.type("echo $((6 * 7)); test -t 0 && test -t 1 && echo a-$FROM_HOOK-terminal")
        seen.shows("a-1-terminal")
        assert "42" in seen.text, seen.text
        seen.type("echo reads-$((1 + 1)); cat")
        seen.shows("reads-2")
        seen.type("typed")
        seen.shows("typed\r\ntyped")
        os.write(fd, b"\x03")  # Ctrl-C ends the program in the shell, not the shell
        seen.shows("prompt ", from_now=True)
        seen.type("echo still-$((40 + 2))")
        seen.shows("still-42")
        seen.type("exit 5")
        same("the exit code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)
        os.close(fd)


class _Typed:
    """A terminal and what it has shown."""

    def __init__(self, fd: int) -> None:
        self._fd, self.text = fd, ""
        os.set_blocking(fd, False)

    def type(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())

    def shows(self, text: str, *, from_now: bool = False) -> None:
        start = len(self.text) if from_now else 0

        def read() -> bool:
            with suppress(BlockingIOError):
                self.text += os.read(self._fd, 1 << 16).decode(errors="replace")
            return text in self.text[start:]

        wait_until(read, TIMEOUT, f"{text!r} on the terminal")


def ends_with_the_task(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("echo ready; sleep 1000"))
    kedge.wait_for_output("ready")
    program = kedge.start("exec", "job", "worker:0", "--", "sh", "-c", "echo started; sleep 1000")
    assert program.stdout
    same("its first line", program.stdout.readline(), "started\n")
    kedge("stop", "job")
    kedge.finish(process, EXIT_FAILED)
    same("its exit code", program.wait(TIMEOUT), contract.SHELL_KILLED)
    assert kedge.leftovers() == []


def signals(kedge: Kedge) -> None:
    with _running(kedge):
        # On some engines sleep gets the signal as well, which a shell would tell.
        script = 'exec 2> /dev/null; trap "echo caught; exit 9" TERM; echo started; while :; do sleep 0.1; done'
        program = kedge.start("exec", "job", "worker:0", "--", "sh", "-c", script)
        assert program.stdout
        same("its first line", program.stdout.readline(), "started\n")
        program.send_signal(signal.SIGTERM)
        same("what the signal did", kedge.finish(program, 9), "caught\n")


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "a program runs beside a task with its environment, folder and exit code": programs,
    "a shell on a terminal beside a task": shell_on_a_terminal,
    "a program beside a task ends with it": ends_with_the_task,
    "a program beside a task gets the signals of kedge exec": signals,
}
