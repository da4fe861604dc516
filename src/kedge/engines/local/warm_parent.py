"""The controller's side of the process that forks supervisors, `kedge.runtime.warm_parent`."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain

WORTHWHILE = 8  # tasks; it takes as long to start as one supervisor
MOST_FDS = 250  # for one supervisor
_PATIENCE_SEC = 10.0  # for one answer: by then, a new interpreter is the better way
_ROOM = 1000  # bytes of a command line besides the path of its TaskSpec


class WarmParentLost(Exception):
    """The process has ended or does not answer. No supervisor will result from the request."""


class WarmParent:
    """Starts the process with the command line `launcher`, this environment and these signals `blocked`. If the path of
    a TaskSpec has more than `longest_path` bytes, `ps` does not show all of its supervisor's command line."""

    def __init__(
        self,
        launcher: Sequence[str],
        environment: Mapping[str, str],
        blocked: Sequence[int],
        longest_path: int,
        patience_sec: float = _PATIENCE_SEC,
    ) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(patience_sec)
        self._launcher = list(launcher)
        with theirs:
            theirs.set_inheritable(True)
            argv = [*launcher, "--warm", str(theirs.fileno()), " " * (_ROOM + longest_path)]
            null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
            self.pid = os.posix_spawn(
                argv[0], argv, environment, setsid=True, setsigmask=blocked,
                file_actions=[null, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)],
            )  # fmt: skip

    def spawn(
        self, arguments: Sequence[str], log: int, passed: Mapping[str, list[int]], release: Callable[[], None]
    ) -> int:
        """Start a supervisor with these arguments, and return its pid. Its stdout and stderr is `log`. It gets the
        descriptors that are `passed`, by option, and these options with its own numbers of them. It begins after
        `release` was called, and then no other process has the descriptors unless the caller keeps them.

        WarmParentLost; OSError if no process can be forked."""
        gate, opener = os.pipe2(os.O_CLOEXEC)
        try:
            request = json.dumps([self._launcher, arguments, {option: len(fds) for option, fds in passed.items()}])
            answer = self._answer(request.encode(), [gate, log, *chain(*passed.values())])
            if answer < 0:
                raise OSError(-answer, os.strerror(-answer))
            release()
            os.write(opener, b"\1")
            return answer
        finally:
            os.close(gate)
            os.close(opener)

    def _answer(self, message: bytes, fds: Sequence[int]) -> int:
        try:
            socket.send_fds(self._control, [message], fds)
            if answer := self._control.recv(64):
                return int(answer)
        except OSError as error:
            raise WarmParentLost from error
        raise WarmParentLost

    def close(self) -> None:
        """Let the process end."""
        self._control.close()

    def kill(self) -> None:
        """End the process, which must not have been reaped."""
        self.close()
        os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
