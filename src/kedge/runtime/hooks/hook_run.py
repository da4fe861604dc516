"""Running one part of a hook: a script in the task's shell, or an action in a separate process of the runtime."""

from __future__ import annotations

import os
import sys

from kedge import contract, untrusted
from kedge.contract import Action
from kedge.light import json
from kedge.light.types import Any, Mapping, NamedTuple
from kedge.own_files import write_all
from kedge.runtime import execute
from kedge.runtime.hooks import script, side_channel
from kedge.runtime.hooks.schedule import Hook, HookPart
from kedge.runtime.hooks.side_channel import SideChannel
from kedge.runtime.process.time_limit import TimeLimit
from kedge.runtime.session import Session
from kedge.runtime.setup import parameters
from kedge.runtime.setup.prepare import CannotStart, PreparedTask

LONGEST_QUOTE = 1000  # characters
_LAUNCHER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# The types of an action's messages, checked because other processes of the task can write to the pipe too. They are not
# annotations of a class, because a bundle strips annotations.
_RETRYING = {"message": str, "next_try": int, "tries": int, "delay_sec": float}
FAILURE = {"cause": str | None, "message": str, "retry_after_sec": float | None}


class HookEnd(NamedTuple):
    """How a part ended: its wait status, the command that failed, the environment that the shell exported, and the last
    line printed. For a failed action also the cause (a name from diagnose/), its message, and the pause that a server
    asked for."""

    status: int
    command: str | None = None
    environment: dict[str, str] | None = None
    cause: str | None = None
    message: str | None = None
    last_line: str = ""
    retry_after_sec: float | None = None


def run(session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, limit: TimeLimit) -> HookEnd:
    """Run the part, with its output in runtime.log. CannotStart explains why it never ran."""
    if part.action:
        return _run_action(session, prepared, hook, part.action, limit)
    return _run_script(session, prepared, hook, part, limit)


def _run_script(session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, limit: TimeLimit) -> HookEnd:
    channel = SideChannel(session.loop)
    try:
        bash, exports = os.path.basename(prepared.shell.path) == "bash", hook.side == "start"
        text = script.text(
            part.script, failure_ignored=hook.failure_ignored, bash=bash, environment=exports, fd=channel.fd
        )
        argv = (prepared.shell.path, prepared.scripts.write(part.file, text))
        status, last_line = _run(session, prepared, argv, (channel.fd,), limit)
    finally:
        reported = script.parse(channel.close())
    command = script.failed_line(text, part.script, prepared.secrets, reported) if status else None
    return HookEnd(status, command, reported.environment, last_line=last_line)


def _run_action(session: Session, prepared: PreparedTask, hook: Hook, action: Action, limit: TimeLimit) -> HookEnd:
    failure: dict[str, Any] = {}

    def receive(line: bytes) -> None:
        try:
            message = untrusted.parse(line)
        except ValueError:
            return
        if has_types(message, _RETRYING):
            message["message"] = session.log.masked(message["message"])
            session.events.emit(contract.HOOK_RETRYING, step=hook.step.name, **{key: message[key] for key in _RETRYING})
        elif has_types(message, FAILURE):
            failure.update(message)

    channel, request = SideChannel(session.loop, receive), request_file(session, prepared, action)
    try:
        argv = action_argv(request, channel)
        status, last_line = _run(session, prepared, argv, (request, channel.fd), limit)
    finally:
        os.close(request)
        channel.close()
    return HookEnd(
        status, action.kind if status else None, None, failure.get("cause"), failure.get("message"), last_line,
        failure.get("retry_after_sec"),
    )  # fmt: skip


def has_types(message: Any, types: Mapping[str, Any]) -> bool:
    """Whether a message of an action has all these facts, of these types."""
    from kedge.untrusted_values import fits  # takes long to load, and few tasks have actions

    return isinstance(message, dict) and all(name in message and fits(message[name], types[name]) for name in types)


def action_argv(request: int, channel: SideChannel) -> tuple[str, ...]:
    """The command line of an action's process, which inherits both descriptors."""
    return sys.executable, "-I", "-S", _LAUNCHER, "--action", str(request), str(channel.fd)


def request_file(session: Session, prepared: PreparedTask, action: Action) -> int:
    """What the action's process is to do, as a file in memory: secrets in it do not show in argv or environment."""
    data = parameters.rendered(action, prepared.secrets, session.spec.pai, prepared.tasks, session.options.site)
    fd = side_channel.high(os.memfd_create("kedge-action", os.MFD_CLOEXEC))
    write_all(fd, json.dumps(data).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _run(
    session: Session, prepared: PreparedTask, argv: tuple[str, ...], inherited: tuple[int, ...], limit: TimeLimit
) -> tuple[int, str]:
    """Run a program of the hook. Return its wait status and the last line it printed."""
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
        feed.finish()  # background processes may still print, but the part's own last line is complete
    return status, feed.last.decode(errors="replace")[:LONGEST_QUOTE]
