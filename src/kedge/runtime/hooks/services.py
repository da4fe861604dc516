"""Services: programs that a start hook starts and that run beside the command until the task ends.

A script is ready at once. An action reports {"ready": true, "address": "host:port" or null} when the next hooks may
start, and once more if its address becomes known later; one that exits with 0 before has nothing to do in this task.
What a service prints goes to runtime.log.
"""

from __future__ import annotations

import os
import time

from kedge import contract, untrusted
from kedge.light.types import Any, Callable
from kedge.runtime import execute, outcome
from kedge.runtime.hooks.hook_run import (
    FAILURE,
    LONGEST_QUOTE,
    HookEnd,
    action_argv,
    has_types,
    request_file,
)
from kedge.runtime.hooks.schedule import Hook, HookPart
from kedge.runtime.hooks.side_channel import SideChannel
from kedge.runtime.logs.runtime_log import LineFeed
from kedge.runtime.process.time_limit import TimeLimit
from kedge.runtime.session import Session, StartedService
from kedge.runtime.setup.prepare import CannotStart, PreparedTask

READY_SEC = 60.0  # how long a service may take to become ready, unless its step has a time limit
MOST_BYTES = 8 << 20  # of a service's output in runtime.log; it may run for weeks
_LONGEST_ADDRESS = 300  # characters
_MOST_ADDRESSES = 10  # that one service can report
_READY = {"ready": bool, "address": str | None}
_KILLED, _FAILED, _TIMED_OUT = 15, 1 << 8, contract.SHELL_TIMED_OUT << 8  # wait statuses


class ServiceFeed(LineFeed):
    """Logs the lines of a service behind its name, up to MOST_BYTES."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session.log)
        self._runtime_log, self._name, self._left = session.log, name, MOST_BYTES

    def feed(self, data: bytearray, length: int) -> None:
        """Take the first `length` bytes of `data`."""
        if self._left <= 0:
            return
        super().feed(data, length)
        self._left -= length
        if self._left <= 0:
            self._runtime_log.warning(
                f"The service {self._name} has printed {MOST_BYTES >> 20} MiB; the rest is not kept"
            )

    def finish(self) -> None:
        """End of the stream."""
        if self._left > 0:
            super().finish()

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        return self.last.decode(errors="replace")[:LONGEST_QUOTE]

    def _log_lines(self, lines: bytes) -> None:
        head = f"[{self._name}] ".encode()
        named = (line if line.startswith(head) else head + line for line in lines[:-1].split(b"\n"))
        super()._log_lines(b"\n".join(named) + b"\n")
        self.last = self.last.removeprefix(head)


class RunningService:
    """One service: what it has reported, and how it ended."""

    def __init__(self, session: Session, name: str, pid: Callable[[], int]) -> None:
        self._session, self.name, self._pid = session, name, pid
        self.ready = False
        self.status: int | None = None  # the wait status, once it has ended
        self.failure: dict[str, Any] = {}
        self._addresses: list[str | None] = []

    @property
    def settled(self) -> bool:
        """Whether it is ready or has ended."""
        return self.ready or self.status is not None

    def receive(self, line: bytes) -> None:
        """A line of the action's report channel."""
        if len(self._addresses) >= _MOST_ADDRESSES:
            return
        try:
            message = untrusted.parse(line)
        except ValueError:
            return
        if has_types(message, _READY) and message["ready"]:
            self.is_ready(message["address"])
        elif not self.ready and has_types(message, FAILURE):
            self.failure = message

    def is_ready(self, address: str | None) -> None:
        """The service works; `address` is where, if that is known."""
        if address is not None:
            address = self._session.log.masked(address)[:_LONGEST_ADDRESS]
        if self.status is not None or (self.ready and self._addresses[-1] == address):
            return
        self.ready = True
        self._addresses.append(address)
        where = f" at {address}" if address else ""
        self._session.log.info(f"The service {self.name} has started{where}")
        self._session.events.emit(contract.SERVICE_STARTED, name=self.name, address=address, pid=self._pid())

    def ended(self, status: int) -> None:
        """It ended with this wait status. Before it was ready, its hook reports that."""
        self.status = status
        if not self.ready:
            return
        over = self._session.supervisor.over
        if not over:
            self._session.log.warning(f"The service {self.name} {outcome.ending(status)}; the task goes on without it")
        code, name = outcome.shell_code(status), outcome.death(status)
        self._session.events.emit(contract.SERVICE_ENDED, name=self.name, code=code, signal=name, task_over=over)


def start(session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, limit: TimeLimit) -> HookEnd:
    """Start the part's service and wait until it is ready. CannotStart explains why it never ran."""
    assert part.service
    started: list[int] = []
    service = RunningService(session, part.service, lambda: started[0])
    feed = ServiceFeed(session, service.name)
    session.release_ports()  # it may listen on one
    begin = _start_action if part.action else _start_script
    started.append(begin(session, prepared, hook, part, service, feed))
    session.services.append(StartedService(hook.step, started[0]))
    if not part.action:
        service.is_ready(None)
    waits_sec = hook.step.timeout_sec or READY_SEC
    deadline = limit.next if hook.step.timeout_sec else time.monotonic() + READY_SEC
    supervisor = session.supervisor
    session.loop.until(lambda: service.settled or supervisor.stopping or session.broken(), deadline)
    if service.ready:
        return HookEnd(0)
    del session.services[-1]
    stopped = not service.settled and (supervisor.stopping or session.broken())
    if service.status == 0 and part.action and not service.failure:
        return HookEnd(0)  # there is nothing to do in this task
    in_time, status = service.settled, service.status
    supervisor.end_service(started[0])
    if stopped:
        return HookEnd(_KILLED)
    return _not_ready(service, part, status if in_time else None, waits_sec, feed)


def _not_ready(
    service: RunningService, part: HookPart, status: int | None, waits_sec: float, feed: ServiceFeed
) -> HookEnd:
    """The end of a hook whose service has failed: it ended with `status`, or is not ready after `waits_sec`."""
    failure, command = service.failure, part.action.kind if part.action else None
    if status is None:
        message = f"the service {service.name} was not ready within {waits_sec:g} seconds"
        return HookEnd(_TIMED_OUT, command, message=message, last_line=feed.last_line)
    message = failure.get("message") or f"the service {service.name} {outcome.ending(status)} before it was ready"
    return HookEnd(
        status or _FAILED, command, None, failure.get("cause"), message, feed.last_line, failure.get("retry_after_sec")
    )


def _start_script(
    session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, service: RunningService, feed: ServiceFeed
) -> int:
    text = ("" if hook.failure_ignored else "set -o errexit\n", *part.script)
    argv = (prepared.shell.path, prepared.scripts.write(part.file, text))
    return _spawn(session, prepared, argv, (), service, feed)


def _start_action(
    session: Session, prepared: PreparedTask, _hook: Hook, part: HookPart, service: RunningService, feed: ServiceFeed
) -> int:
    assert part.action
    channel = SideChannel(session.loop, service.receive)
    request = request_file(session, prepared, part.action)
    inherited = (request, channel.fd)
    try:
        return _spawn(session, prepared, action_argv(request, channel), inherited, service, feed)
    finally:
        os.close(request)
        channel.release()


def _spawn(
    session: Session,
    prepared: PreparedTask,
    argv: tuple[str, ...],
    inherited: tuple[int, ...],
    service: RunningService,
    feed: ServiceFeed,
) -> int:
    """Start the program, with its output in runtime.log, and return its pid."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    session.read_lines(reader, feed)
    pipe = session.line_pipes[-1]

    def on_end(status: int) -> None:
        pipe.drain()  # its last lines come before the line about its end
        service.ended(status)

    program = execute.program(session, prepared, argv, writer, writer)._replace(inherited=inherited)
    try:
        return execute.start_service(session, program, on_end)
    except CannotStart:
        pipe.close()
        raise
    finally:
        os.close(writer)
