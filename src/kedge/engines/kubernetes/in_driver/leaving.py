"""How a driver leaves a run that it may not, or cannot, go on with: at once, and without ending anything."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Protocol

from kedge.errors import EXIT_FAILED

Leave = Callable[[str], NoReturn]  # with the reason
_RELEASE_SEC = 5.0
_RETRY_SEC = 1.0
_COPIED_SEC, _LOOK_SEC = 3.0, 0.1  # for a copy, which looks at the folder more often
_ENDED_SEC = 20.0  # for copies of a job that has ended: they end themselves
_MOST_OPEN = 1 << 20  # descriptors
_RIGHT = re.compile(r'User "([^"]+)" cannot (\w+) resource "(\w+)"')
_RIGHT_SEC, _FORGOTTEN_SEC = 5.0, 60.0  # rights that were given just now are not known everywhere
_TERMINATION = Path("/dev/termination-log")
_refused: list[float] = []  # since when, by time.monotonic(); one at most
_told: list[str] = []  # the last error: each is printed once


class Released(Protocol):
    """The Lease."""

    def release(self) -> None: ...


def leave(why: str) -> NoReturn:
    """End this process, and nothing else: its Job starts it again, and whatever it did until then would be done to the
    job of another driver. May be called in any thread."""
    print(f"kedge: {why}; this driver leaves", file=sys.stderr, flush=True)
    os._exit(EXIT_FAILED)


def give_up(lease: Released, folder: Path) -> NoReturn:
    """The kubelet ends this pod: let the next driver begin at once, and leave. With the pod its run folder may go, so
    whoever copies that gets what has come last. Called in the main thread, which does nothing any more; it may have
    been interrupted anywhere, so another thread asks the API server."""

    def release() -> None:
        lease.release()
        released.set()

    released = threading.Event()
    threading.Thread(target=release, daemon=True).start()
    released.wait(_RELEASE_SEC)
    copying = _copying(folder)
    os.closerange(3, _MOST_OPEN)  # agents go to the next driver
    _wait_for(copying, _COPIED_SEC)
    leave("its pod is being ended")


def wait_for_copies(folder: Path) -> None:
    """Let those who copy the run folder now, besides the one that has all, finish that."""
    _wait_for(_copying(folder), _ENDED_SEC)


def _wait_for(processes: list[int], longest_sec: float) -> None:
    end = time.monotonic() + longest_sec
    while time.monotonic() < end and any(map(_is_there, processes)):
        time.sleep(_LOOK_SEC)


def _copying(folder: Path) -> list[int]:
    """The processes of `serve-run` that send the run folder to somebody."""
    found, last = [], f"\0{folder}\0".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if pid != str(os.getpid()) and Path("/proc", pid, "cmdline").read_bytes().endswith(last):
                found.append(int(pid))
    return found


def _is_there(pid: int) -> bool:
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def wait_for_api(error: Exception) -> None:
    """The API server does not answer, or refuses what this driver cannot do without: before another try. If it refuses
    for some time, this process ends, so that its pod says why."""
    if str(error) not in _told:
        _told[:] = [str(error)]
        print(f"kedge: {error}; it is tried again", file=sys.stderr, flush=True)
    if found := _RIGHT.search(str(error)):
        _lacks_right(found)
    else:
        _refused.clear()
    time.sleep(_RETRY_SEC)


def _lacks_right(found: re.Match[str]) -> None:
    now = time.monotonic()
    _refused[:] = [first for first in _refused if now - first < _FORGOTTEN_SEC] or [now]
    if now - _refused[0] >= _RIGHT_SEC:
        lacks = f"its account {found[1]} may not {found[2]} {found[3]}"
        why = f"{lacks}: `kedge kubernetes setup` prints what the namespace needs"
        with suppress(OSError):  # what is said of its end
            _TERMINATION.write_text(why)
        leave(why)
