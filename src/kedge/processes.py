"""The processes of a job: identifying them, signalling them, and killing them without leaving any behind.

A pid alone does not identify a process, because the kernel reuses pids; together with the start time it does. Signals
are sent through a descriptor of the process, so they cannot reach another one.
"""

from __future__ import annotations

import os
import pwd
import select
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from kedge.contract import JOB_ID_VARIABLE

DEADLINE_SEC = 5.0

_STOP_SEC = 0.5  # enough for any process that does not hang in the kernel
_ENDED = frozenset({b"Z", b"X"})
_STOPPED = frozenset({b"T", b"t"})
_STILL = _STOPPED | _ENDED

_START_TIME = 22  # numbers of fields in /proc/PID/stat, see proc_pid_stat(5)
_THREADS = 20
_PARENT = 4
_RESERVED_PIDS = 300  # linux/kernel/pid.c
_SESSION = 6
_STATE = 3
_HUNG = b"D"


class Process(NamedTuple):
    """One process. `start_time` is in clock ticks since boot."""

    pid: int
    start_time: int


class _Stat(NamedTuple):
    process: Process
    parent: int
    session: int
    ended: bool  # a zombie without other threads that still run


def boot_id() -> str:
    """The id of the machine's current boot, see random(4). OSError if it cannot be read."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def identify(pid: int) -> Process | None:
    """The process that has this pid now. None if there is none or only a zombie."""
    stat = _stat(pid)
    return None if stat is None or stat.ended else stat.process


def is_alive(process: Process) -> bool:
    """Whether the process still runs. A zombie does not."""
    return identify(process.pid) == process


def is_suspended(pid: int) -> bool:
    """Whether a signal or a debugger has stopped this process (that is, its first thread, which handles signals)."""
    text = _read(f"/proc/{pid}/stat")
    return text[text.rfind(b")") + 2 :][:1] in _STOPPED


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process. False if it has ended. PermissionError if it belongs to another user."""
    fd = _open(process)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def wait(processes: Iterable[Process], deadline_sec: float = DEADLINE_SEC) -> list[Process]:
    """Wait until all have ended, at most `deadline_sec`. Return those that have not."""
    end = time.monotonic() + deadline_sec
    return [process for process in processes if not _ends_before(process, end)]


def of_job(job_id: str) -> list[Process]:
    """Every process of this user (for root: of all users) whose environment names the job, and the descendants of these
    processes. The caller is not included.

    Descendants are included because programs that set their title (setproctitle) overwrite their environment.
    """
    entry = f"{JOB_ID_VARIABLE}={job_id}".encode()
    itself = os.getpid()
    roots = [pid for pid in _pids() if pid != itself and entry in _read(f"/proc/{pid}/environ").split(b"\0")]
    return [process for pid in roots if (process := identify(pid))] + _below(roots, {itself, *roots})


def descendants(pid: int, besides: Collection[int] = ()) -> list[Process]:
    """The children of a process, their children, and so on, without those in `besides` and their descendants."""
    return _below([pid], besides)


def related(roots: Collection[int], sessions: Collection[int]) -> list[Process]:
    """The processes with the pids `roots`, their descendants, and all processes in the same session as one of these, if
    that session is one of `sessions` or its leader is one of these. The caller is not included.

    A session with a known member cannot belong to somebody else: its number is not reused while the member lives.
    """
    stats = {stat.process.pid: stat for stat in filter(None, map(_stat, _pids()))}
    stats.pop(os.getpid(), None)
    found: set[int] = set()
    more = stats.keys() & set(roots)
    while more:
        found |= more
        common = {s for pid in found if not stats[pid].ended and ((s := stats[pid].session) in sessions or s in found)}
        more = {pid for pid, stat in stats.items() if stat.parent in found or stat.session in common} - found
    return [stats[pid].process for pid in sorted(found) if not stats[pid].ended]


def in_sessions(numbers: Collection[int]) -> list[int]:
    """The pids of the processes in these sessions."""
    return [stat.process.pid for stat in filter(None, map(_stat, _pids())) if stat.session in numbers]


def starts() -> int:
    """How many processes and threads this machine has started since boot. The kernel assigns pids in turn, so none is
    reused within `most_pids` starts."""
    (found,) = (line for line in _read("/proc/stat").splitlines() if line.startswith(b"processes "))
    return int(found.split()[1])


def most_pids() -> int:
    """The smallest number of starts after which a pid can be reused."""
    return int(_read("/proc/sys/kernel/pid_max")) - _RESERVED_PIDS


def why_alive(process: Process) -> str:
    """A text for the user about a process that is still alive after it was killed: which one it is, and why."""
    fields = dict(line.split(b":", 1) for line in _read(f"/proc/{process.pid}/status").splitlines() if b":" in line)
    name = "".join(filter(str.isprintable, fields.get(b"Name", b"").decode(errors="replace"))).strip()
    owner = int(fields.get(b"Uid", b"-1").split()[0])
    label = f"pid {process.pid} ({name})" if name else f"pid {process.pid}"
    if owner not in (-1, os.geteuid()):
        return f"{label} belongs to {_user(owner)}; only that user or root can end it"
    if fields.get(b"State", b"").strip().startswith(_HUNG):
        return f"{label} hangs in the kernel, for example in a file system that does not respond"
    return f"{label} does not end"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _below(roots: Iterable[int], besides: Collection[int]) -> list[Process]:
    children = defaultdict(list)
    for stat in filter(None, map(_stat, _pids())):
        children[stat.parent].append(stat)
    found: list[Process] = []
    parents = list(roots)
    for parent in parents:  # grows
        below = [stat for stat in children[parent] if stat.process.pid not in besides]
        parents += [stat.process.pid for stat in below]
        found += [stat.process for stat in below if not stat.ended]
    return found


def kill(find: Callable[[], Sequence[Process]], deadline_sec: float = DEADLINE_SEC) -> list[Process]:
    """Kill the processes that `find` returns until it returns none. Return those that are left at the deadline (hung in
    the kernel, or another user's).

    All processes are suspended before any is killed, so that none forks meanwhile and none loses the parent through
    which it is found.
    """
    end = time.monotonic() + deadline_sec
    while (left := find()) and time.monotonic() < end:
        stopped: set[Process] = set()
        while more := set(left) - stopped:
            _send_all(more, signal.SIGSTOP)
            _wait_stopped(more, min(end, time.monotonic() + _STOP_SEC))
            stopped |= more
            left = find()
        _send_all(stopped, signal.SIGKILL)
        wait(stopped, end - time.monotonic())
    return list(left)


def _send_all(processes: Iterable[Process], number: int) -> None:
    for process in processes:
        try:
            send(process, number)
        except PermissionError:  # it runs as another user now; if it stays, it is reported
            continue


def _wait_stopped(processes: Iterable[Process], end: float) -> None:
    """Wait until all are suspended, at most until `end`. A process that is forking finishes that first."""
    for process in processes:
        while not _states(process.pid) <= _STILL and time.monotonic() < end:
            time.sleep(0.0005)


def kill_tree(pid: int, deadline_sec: float = DEADLINE_SEC) -> list[Process]:
    """Kill a process with all its descendants, see `kill`. If it is a child, the caller must reap it."""
    root = identify(pid)
    return kill(lambda: [root, *descendants(pid)] if root and is_alive(root) else [], deadline_sec)


def kill_orphans(known: Collection[int], deadline_sec: float = DEADLINE_SEC) -> list[Process]:
    """Kill the orphans that this process adopted as subreaper: its children except the `known` ones, and their
    descendants."""
    if not _has_children():
        return []  # without a look at every process of the machine
    return kill(lambda: descendants(os.getpid(), known), deadline_sec)


def _has_children() -> bool:
    """Whether this process has any children; they stay to be waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _ends_before(process: Process, end: float) -> bool:
    """Wait for one process until the time `end`. Return whether it has ended."""
    fd = _open(process)
    if fd is None:
        return True
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(max(0.0, end - time.monotonic()) * 1000))
    finally:
        os.close(fd)


def _open(process: Process) -> int | None:
    """A descriptor of exactly this process, None if it has ended."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if is_alive(process):  # checked after opening, so the descriptor refers to this process
        return fd
    os.close(fd)
    return None


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _stat(pid: int) -> _Stat | None:
    # The second field is the program's name in parentheses; it may contain any character.
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(b")") + 2 :].split()
    if not fields:
        return None
    wanted = (_STATE, _PARENT, _SESSION, _THREADS, _START_TIME)
    state, parent, session, threads, start = (fields[number - 3] for number in wanted)
    return _Stat(Process(pid, int(start)), int(parent), int(session), state in _ENDED and int(threads) <= 1)


def _states(pid: int) -> set[bytes]:
    """The states of a process's threads, empty if it has ended."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return set()
    texts = (_read(f"/proc/{pid}/task/{thread}/stat") for thread in threads)
    return {text[text.rindex(b")") + 2 :][:1] for text in texts if text}


def _read(path: str) -> bytes:
    """A file of a process, empty if the process has ended or belongs to another user."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
