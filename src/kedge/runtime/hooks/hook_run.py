"""Running one part of a hook: a script in the task's shell, or an action in a process of the runtime's own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from kedge import contract, untrusted
from kedge.contract import Action
from kedge.runtime import execute
from kedge.runtime.files import write_all
from kedge.runtime.hooks import script
from kedge.runtime.hooks.schedule import Hook, HookPart
from kedge.runtime.process import side_channel
from kedge.runtime.process.side_channel import SideChannel
from kedge.runtime.process.time_limit import TimeLimit
from kedge.runtime.session import Session
from kedge.runtime.setup import parameters
from kedge.runtime.setup.prepare import CannotStart, PreparedTask

_LONGEST_QUOTE = 1000  # characters
_LAUNCHER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# What an action says; other processes of the task can write there, too. Not in a class: a bundle leaves its types out.
_RETRYING = {"message": str, "next_try": int, "tries": int, "delay_sec": float}
_ANSWER = {"cause": str | None, "message": str, "retry_after_sec": float | None}


class HookEnd(NamedTuple):
    """How a part ended: its wait status, the command that failed, the environment that the shell exported; of an
    action its cause (as diagnose/ names them), its last word, and how long a server wants to be left alone; the last
    line that it printed."""

    status: int
    command: str | None = None
    environment: dict[str, str] | None = None
    cause: str | None = None
    message: str | None = None
    said: str = ""
    retry_after_sec: float | None = None


def run(session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, limit: TimeLimit) -> HookEnd:
    """Run it, its output going to runtime.log. CannotStart says why it never ran."""
    if part.action:
        return _run_action(session, prepared, hook, part.action, limit)
    return _run_script(session, prepared, hook, part, limit)


def _run_script(session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, limit: TimeLimit) -> HookEnd:
    channel = SideChannel(session.loop)
    try:
        bash, exports = os.path.basename(prepared.shell.path) == "bash", hook.side == "start"
        text = script.text(part.script, forgiven=hook.forgiven, bash=bash, environment=exports, fd=channel.fd)
        argv = (prepared.shell.path, prepared.scripts.write(part.file, text))
        status, said = _run(session, prepared, argv, (channel.fd,), limit)
    finally:
        told = script.parse(channel.close())
    command = script.failed_line(text, part.script, prepared.secrets, told) if status else None
    return HookEnd(status, command, told.environment, said=said)


def _run_action(session: Session, prepared: PreparedTask, hook: Hook, action: Action, limit: TimeLimit) -> HookEnd:
    answer: dict[str, Any] = {}

    def take(line: bytes) -> None:
        try:
            told = untrusted.parse(line)
        except ValueError:
            return
        if _says(told, _RETRYING):
            told["message"] = session.log.masked(told["message"])
            session.events.emit(contract.HOOK_RETRYING, step=hook.step.name, **{key: told[key] for key in _RETRYING})
        elif _says(told, _ANSWER):
            answer.update(told)

    channel, wanted = SideChannel(session.loop, take), _in_memory(session, prepared, action)
    try:
        argv = (sys.executable, "-I", "-S", _LAUNCHER, "--action", str(wanted), str(channel.fd))
        status, said = _run(session, prepared, argv, (wanted, channel.fd), limit)
    finally:
        os.close(wanted)
        channel.close()
    return HookEnd(
        status, action.kind if status else None, None, answer.get("cause"), answer.get("message"), said,
        answer.get("retry_after_sec"),
    )  # fmt: skip


def _says(told: Any, facts: Mapping[str, Any]) -> bool:
    return isinstance(told, dict) and all(
        name in told and untrusted.fits(told[name], kind) for name, kind in facts.items()
    )


def _in_memory(session: Session, prepared: PreparedTask, action: Action) -> int:
    """The action's task as a file in memory: it may hold secrets, which neither argv nor environment may show."""
    data = parameters.rendered(action, prepared.secrets, session.spec.pai, prepared.tasks)
    fd = side_channel.high(os.memfd_create("kedge-action", os.MFD_CLOEXEC))
    write_all(fd, json.dumps(data).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _run(
    session: Session, prepared: PreparedTask, argv: tuple[str, ...], inherited: tuple[int, ...], limit: TimeLimit
) -> tuple[int, str]:
    """The wait status, and the last line that was printed."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    feed = session.read_lines(reader)
    pipe = session.line_pipes[-1]
    program = execute.program(session, prepared, argv, writer, writer)._replace(inherited=inherited)
    try:
        status = execute.supervise(session, program, lambda _pid: os.close(writer), limit)
    except CannotStart:
        os.close(writer)
        raise
    pipe.drain()
    if pipe.open:
        feed.finish()  # background processes may go on, but the part's own last line is complete
    return status, feed.last.decode(errors="replace")[:_LONGEST_QUOTE]
