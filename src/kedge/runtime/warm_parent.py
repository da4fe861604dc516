"""A process that has loaded the supervisor's modules once, and forks a supervisor for each request: this takes a fifth
of the CPU time of a new interpreter.

    python -I -S <runtime> --warm SOCKET ROOM

SOCKET is the descriptor of a socket for packets, see `kedge.engines.local.warm_parent`, which makes the requests. ROOM
has no meaning; its length is what the supervisors' own command lines may take. A supervisor that was forked is an
orphan, so that it becomes a child of the controller, the next subreaper. In every other way it is as if it had been
started by its command line: it has a session of its own, and the descriptors that the request passes on.
"""

from __future__ import annotations

import os
from _socket import CMSG_SPACE, socket  # without the part in Python, which loads much that supervisors do not need

from kedge import command_line
from kedge.contract import RUNTIME_BROKE
from kedge.light import json
from kedge.light.types import Sequence
from kedge.runtime import main as supervisor
from kedge.runtime.process.orphan import fork_orphan

_LARGEST = 1 << 16  # bytes of a request
_MOST_FDS = 253  # the kernel's limit for one message
_INT = 4  # bytes of a descriptor in a message


def main(argv: Sequence[str]) -> int:
    """Serve requests until the other end of the socket is closed."""
    control = socket(fileno=int(argv[1]))
    os.set_inheritable(control.fileno(), False)
    while True:
        message, passed, _, _ = control.recvmsg(_LARGEST, CMSG_SPACE(_MOST_FDS * _INT))
        fds = [fd for _, _, data in passed for fd in memoryview(data).cast("i")]
        if not message:
            return 0
        answer = _fork(control, message, fds)
        for fd in fds:
            os.close(fd)
        if not answer:
            return RUNTIME_BROKE
        control.send(answer)


def _fork(control: socket, message: bytes, fds: list[int]) -> bytes:
    """Fork a supervisor. Returns its pid or, negative, the number of the error; nothing if a part of it was killed."""

    def run() -> int:
        os.close(control.detach())  # requests are not for it
        return _supervise(message, fds)

    try:
        pid = fork_orphan(run)
    except OSError as error:
        return b"%d" % -(error.errno or 1)
    return b"%d" % pid if pid else b""


def _supervise(message: bytes, fds: list[int]) -> int:
    """Be a supervisor, once the controller has released what it passes on. Without its permission, just end."""
    launcher, arguments, passed = json.loads(message)
    gate, log, *rest = fds
    if not os.read(gate, 1):
        return 1
    os.close(gate)
    os.setsid()
    _open_standard_streams(log)
    for option, count in passed.items():
        arguments += [option, ",".join(str(rest.pop(0)) for _ in range(count))]
    command_line.show([*launcher, *arguments])
    return supervisor.main(arguments)


def _open_standard_streams(log: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, number in ((null, 0), (log, 1), (log, 2)):
        os.dup2(fd, number)
    os.close(null)
    os.close(log)
