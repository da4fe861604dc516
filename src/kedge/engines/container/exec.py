"""Runs a program of `kedge exec` in the container of a task."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from kedge.contract import SHELL_KILLED, SPEC_FILE
from kedge.engines.base import ExecRequest, TaskAttempt
from kedge.engines.container import leftovers
from kedge.engines.container.api.client import Client, ContainerProgram
from kedge.engines.container.api.connection import Connection
from kedge.engines.container.api.engine_answers import EngineRefused
from kedge.engines.container.rendering import render
from kedge.engines.machine import exec_terminal
from kedge.errors import CannotRun
from kedge.own_files import write_all
from kedge.runs.folder import Run

_BLOCK = 1 << 16
_SUPERVISOR = "1"  # its pid in the container


def run(run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
    """Run the program to its end and return its exit code. It is ended when the task ends."""
    name = render.container_name(run.id, *attempt)
    with Connection(leftovers.engine_of(run)) as connected:
        program = _start(connected.client, name, attempt, request)
        local = request.terminal
        with exec_terminal.signals_for(request, same_terminal=False) as signals, exec_terminal.raw(local):
            signals.call(program.signal)
            with exec_terminal.window(local, program.resize):
                if request.stdin:
                    threading.Thread(target=_send_input, args=(program,), daemon=True).start()
                _copy_output(program)
        code = program.exit_code()
    return SHELL_KILLED if code is None else code


def _start(client: Client, name: str, attempt: TaskAttempt, request: ExecRequest) -> ContainerProgram:
    try:
        argv = [*_launcher(client.entrypoint(name)), "--join", _SUPERVISOR, *request.argv]
        return client.exec(name, argv, stdin=request.stdin, terminal=request.terminal)
    except EngineRefused as error:
        raise CannotRun(f"{attempt.task} is not running: {error}") from error


def _launcher(entrypoint: list[str]) -> list[str]:
    """The part of a container's command that starts the runtime."""
    spec = next(number for number, word in enumerate(entrypoint) if word.endswith(f"/{SPEC_FILE}"))
    return entrypoint[:spec]


def _send_input(program: ContainerProgram) -> None:
    with suppress(OSError):  # the program has ended
        while data := os.read(0, _BLOCK):
            program.write(data)
        program.close_input()


def _copy_output(program: ContainerProgram) -> None:
    """Copy the program's output until it ends. In a thread, so that this one handles signals."""
    copy = threading.Thread(target=_copy, args=(program,), daemon=True)
    copy.start()
    copy.join()


def _copy(program: ContainerProgram) -> None:
    with suppress(OSError):  # nobody reads any more
        for stream, data in program.output():
            write_all(stream, data)
