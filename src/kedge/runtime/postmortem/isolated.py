"""Doing risky work in a child process, so that neither its time, its memory nor its crash is the supervisor's.

The child sends what it knows as it goes, one JSON object a line; whatever came before a failure counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from kedge.runtime import bugs
from kedge.runtime.files import write_all
from kedge.runtime.logs.pipes import Pipe
from kedge.runtime.process import procfs, signals
from kedge.runtime.process.loop import Loop

MEMORY_BYTES = 1 << 30  # of address space
_KILL_SEC = 2.0  # whoever outlives SIGKILL for longer hangs in the kernel
_RESCAN_SEC = 0.01
_DONE, _BUG = "done", "bug"  # keys of the last object

Work = Callable[[], Iterable[Mapping[str, Any]]]


class Answer(NamedTuple):
    """The objects that the work has yielded, merged. `problem`: why there are no more, if it did not come to its end;
    `traceback`: text for the log, if that was a bug."""

    values: dict[str, Any]
    problem: str | None = None
    traceback: str = ""


def run(loop: Loop, work: Work, limit_sec: float) -> Answer:
    """Run `work` in a copy of this process, at most so long. Signals and pipes are served meanwhile."""
    earlier = {each.identity for each in procfs.descendants(os.getpid())}
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
    _collect(pid, in_time)
    _end_since(earlier, loop)
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


def _limit() -> None:
    """Where memory is short, this process goes and not the supervisor."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"1000")
    except OSError:  # no /proc, or one that cannot be written
        return


def _collect(pid: int, finished: bool) -> None:
    """One that has not finished is killed, and not waited for: it may hang in the kernel."""
    try:
        if finished:
            os.waitpid(pid, 0)
        else:
            os.kill(pid, signal.SIGKILL)
    except (ChildProcessError, ProcessLookupError):
        return  # collected like any child


def _end_since(earlier: set[tuple[int, int]], loop: Loop) -> None:
    """Kill what the worker has started and left, whatever session it is in: orphans come to this process."""
    deadline = time.monotonic() + _KILL_SEC
    while left := [each for each in procfs.descendants(os.getpid()) if each.identity not in earlier]:
        for each in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return
        loop.turn(time.monotonic() + _RESCAN_SEC)
