"""Runs a program of `kedge exec` in the container of a task."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from kedge.contract import SHELL_KILLED
from kedge.engines.base import ExecRequest, TaskAttempt
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.api import ApiError, ExecStream
from kedge.engines.kubernetes.objects import pod_paths
from kedge.engines.kubernetes.objects.task_pod import APP
from kedge.engines.machine import exec_terminal
from kedge.errors import CannotRun
from kedge.link import input_messages
from kedge.own_files import write_all
from kedge.runs.folder import Run

_BLOCK = 1 << 14
_MESSAGES = "--messages"  # of runtime.join: on many servers a connection cannot end the program's input itself


def run(run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
    """Run the program to its end and return its exit code. It is ended when the task ends. CannotRun: the task is not
    running, or cannot be reached."""
    found = SubmittedRun(run)
    program = _PodProgram(found, attempt, request)
    local = request.terminal
    with program.stream, exec_terminal.signals_for(request, same_terminal=False) as signals, exec_terminal.raw(local):
        signals.call(program.signal)
        with exec_terminal.window(local, program.resize):
            threading.Thread(target=program.send_input, daemon=True).start()
            return program.until_end()


def pod_of(found: SubmittedRun, attempt: TaskAttempt) -> str:
    """The name of the pod of a task attempt."""
    return found.names.pod(attempt.job_attempt, attempt.task.role, attempt.task.task_index, attempt.task_attempt)


class _PodProgram:
    """The program and its streams."""

    def __init__(self, found: SubmittedRun, attempt: TaskAttempt, request: ExecRequest) -> None:
        self._request, self._task = request, attempt.task
        argv = (*pod_paths.JOIN_COMMAND, *(() if request.terminal else (_MESSAGES,)), *request.argv)
        try:  # always with an input: without one, containerd loses what comes from a terminal
            self.stream: ExecStream = found.api.exec(
                pod_of(found, attempt), APP, argv, stdin=True, terminal=request.terminal
            )
        except ApiError as error:
            if error.unreachable and error.status != 500:
                raise
            raise CannotRun(f"{attempt.task} is not running: {error}") from error
        self._failure: CannotRun | None = None

    def signal(self, number: int) -> None:
        """Pass a signal of this process on. A program on a terminal gets those of its keys by itself; others end it."""
        with suppress(CannotRun):
            if self._request.terminal:
                self.stream.close()
            else:
                self.stream.write(input_messages.encoded(input_messages.SIGNAL, str(number).encode()))

    def resize(self, rows: int, columns: int) -> None:
        with suppress(CannotRun):
            self.stream.resize(columns, rows)

    def send_input(self) -> None:
        """Send what this process reads, and then the end."""
        with suppress(OSError, CannotRun):  # the program has ended
            while self._request.stdin and (data := os.read(0, _BLOCK)):
                self.stream.write(data if self._request.terminal else input_messages.encoded(b"d", data))
            if not self._request.terminal:
                self.stream.write(input_messages.encoded(input_messages.END))

    def until_end(self) -> int:
        """Copy the program's output until it ends, in a thread, so that this one handles signals. Its exit code."""
        copy = threading.Thread(target=self._copy, daemon=True)
        copy.start()
        copy.join()
        if self.stream.exit_code is not None:
            return self.stream.exit_code
        if self._failure and not self._request.terminal:
            raise CannotRun(f"{self._task}: {self._failure}")
        return SHELL_KILLED

    def _copy(self) -> None:
        try:
            while frame := self.stream.read():
                with suppress(OSError):  # nobody reads any more
                    write_all(frame.channel, frame.data)
        except CannotRun as error:
            self._failure = error
