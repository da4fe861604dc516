"""Learning that a pipe has data without poll(2) on it.

Once a pipe has been polled, Linux looks for pollers to wake at every write to it, for as long as the pipe lives. With
short lines that takes a fifth of the writer's time. A reader that waits in tee(2) costs the writer nothing.
"""

from __future__ import annotations

import _thread
import fcntl
import os

from kedge.runtime.process import c_library, threads

_SMALLEST_PIPE = 1 << 12  # bytes


class Arrival:
    """`fd` becomes readable when the pipe with the reading end `pipe` has data or has ended, and stays so until
    `wait_again`. A thread waits in tee(2), which copies a byte of the pipe to `fd` and takes none away.

    OSError or RuntimeError where this cannot be done.
    """

    def __init__(self, pipe: int) -> None:
        source = os.open(f"/proc/self/fd/{pipe}", os.O_RDONLY | os.O_CLOEXEC)  # `pipe` itself may be non-blocking
        self.fd, target = os.pipe2(os.O_CLOEXEC)
        self._may_wait = _thread.allocate_lock()
        try:
            fcntl.fcntl(target, fcntl.F_SETPIPE_SZ, _SMALLEST_PIPE)  # a user's share of pipe memory is limited
            threads.start(_wait, c_library.address("tee"), source, target, self._may_wait)
        except (OSError, RuntimeError):
            for fd in (source, self.fd, target):
                os.close(fd)
            raise

    def wait_again(self) -> bool:
        """When `fd` was readable and the pipe is empty: wait for more. False if tee(2) has failed or found the end."""
        if not os.read(self.fd, 1):
            return False
        self._may_wait.release()
        return True

    def close(self) -> None:
        """Wait no more. The thread ends when next something happens to the pipe."""
        os.close(self.fd)
        if self._may_wait.locked():
            self._may_wait.release()


def _wait(tee: int, source: int, target: int, may_wait: _thread.LockType) -> None:
    while may_wait.acquire() and c_library.call(tee, source, target, 1, 0) > 0:
        pass
    os.close(source)
    os.close(target)
