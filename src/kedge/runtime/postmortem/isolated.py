"""Running risky work in a child process, so that its duration, memory use and crashes do not affect the supervisor.

The child sends results as it goes, one JSON object a line; results sent before a failure are kept.
"""

from __future__ import annotations

import os
import resource
import time

from kedge.light import contextlib, json, signal
from kedge.light.types import Any, Callable, Iterable, Mapping, NamedTuple, NoReturn
from kedge.own_files import write_all
from kedge.runtime import bugs
from kedge.runtime.logs.pipes import Pipe
from kedge.runtime.process import children, procfs, signals
from kedge.runtime.process.loop import Loop
from kedge.runtime.process.procfs import ProcessStat

MEMORY_BYTES = 1 << 30  # of address space
_KILL_SEC = 2.0  # a process that survives SIGKILL for longer hangs in the kernel
_RESCAN_SEC = 0.01
_DONE, _BUG = "done", "bug"  # keys of the last object

Work = Callable[[], Iterable[Mapping[str, Any]]]


class Answer(NamedTuple):
    """The objects that the work yielded, merged. If it did not finish, `problem` is the reason; if that was a bug,
    `traceback` is a text for the log."""

    values: dict[str, Any]
    problem: str | None = None
    traceback: str = ""


def run(loop: Loop, work: Work, limit_sec: float) -> Answer:
    """Run `work` in a fork of this process for at most `limit_sec`. The loop runs meanwhile."""
    earlier = {each.identity for each in _descendants()}
    reader, writer = os.pipe2(os.O_CLOEXEC)
    signals.block()
    try:
        pid = os.fork()
        if pid == 0:
            _become_worker(writer, work)
    finally:
        signals.unblock()
        os.close(writer)
    received = bytearray()
    pipe = Pipe(loop, reader, lambda data, length: received.extend(memoryview(data)[:length]), lambda: None)
    in_time = loop.until(lambda: not pipe.open, time.monotonic() + limit_sec)
    pipe.close()
    _reap_or_kill(pid, in_time)
    _kill_since(earlier, loop)
    return _answer(bytes(received), None if in_time else f"it took longer than {limit_sec:.0f} seconds")


def _answer(received: bytes, problem: str | None) -> Answer:
    values: dict[str, Any] = {}
    for line in received.split(b"\n")[:-1]:
        values |= json.loads(line)
    traceback, done = values.pop(_BUG, ""), values.pop(_DONE, False)
    if traceback:
        problem = "it met a bug in kedge"
    elif not done:
        problem = problem or "its process died"
    return Answer(values, problem, traceback)


def _become_worker(writer: int, work: Work) -> NoReturn:
    def send(values: Mapping[str, Any]) -> None:
        write_all(writer, json.dumps(values).encode() + b"\n")

    try:
        signals.give_back()
        os.setpgid(0, 0)
        _limit()
        try:
            for values in work():
                send(values)
            send({_DONE: True})
        except Exception as error:  # the supervisor logs it
            send({_BUG: bugs.describe(error)})
    finally:
        os._exit(0)


def _descendants() -> list[ProcessStat]:
    return procfs.descendants(os.getpid()) if children.exist() else []


def _limit() -> None:
    """Limit this process's memory, and make it the OOM killer's first choice, before the supervisor."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"1000")
    except OSError:  # /proc is missing or read-only
        return


def _reap_or_kill(pid: int, finished: bool) -> None:
    """A worker that has not finished is killed but not waited for, because it may hang in the kernel."""
    try:
        if finished:
            os.waitpid(pid, 0)
        else:
            os.kill(pid, signal.SIGKILL)
    except (ChildProcessError, ProcessLookupError):
        return  # reaped already, like any child


def _kill_since(earlier: set[tuple[int, int]], loop: Loop) -> None:
    """Kill all processes that the worker left behind, in any session: orphans become children of this process."""
    deadline = time.monotonic() + _KILL_SEC
    while left := [each for each in _descendants() if each.identity not in earlier]:
        for each in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return
        loop.turn(time.monotonic() + _RESCAN_SEC)
