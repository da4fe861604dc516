"""Free TCP ports for tasks, reserved as bound sockets that nobody can connect to.

Ports come from below the kernel's ephemeral range, so that no outgoing connection takes one between the moment a task's
socket is closed and the moment its program binds the port: from 15000 upwards, as in OpenPAI, then lower ones, then
those above the ephemeral range.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from kedge.engines.machine.claims import FOLDER, Claims, of_others
from kedge.errors import CannotRun

FIRST = 15000
_LOWEST = 1024
_END = 65536
_SETTINGS = Path("/proc/sys/net/ipv4")


def reserve(count: int, claims: Claims, folder: Path = FOLDER) -> list[socket.socket]:
    """`count` different ports that are free on all addresses, each as a bound socket that does not listen.

    The port is `getsockname()[1]`. Closing the socket frees the port for programs; `claims` keep it from other jobs.
    Ports that other users claim come last, and only if unbound: claims cost nothing, so users could claim all of them.
    CannotRun names how many are needed and how many are free.
    """
    held: list[socket.socket] = []
    try:
        for port in _candidates(pools(), _claimed(folder)):
            if len(held) == count:
                break
            if not claims.take(port):
                continue
            if (found := hold(port)) is not None:
                held.append(found)
            else:
                claims.give_back(port)
        if len(held) < count:
            raise CannotRun(f"the job needs {count} TCP ports, and only {len(held)} are free on this machine")
    except BaseException as error:
        for found in held:
            found.close()
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise CannotRun(f"{count} TCP ports need {count} open files: {error.strerror} after {len(held)}") from error
        raise
    return held


def hold(port: int) -> socket.socket | None:
    """A socket bound to the port on all addresses, or None if another socket has the port on any of them."""
    dual_stack = socket.has_dualstack_ipv6()
    found = socket.socket(socket.AF_INET6 if dual_stack else socket.AF_INET)
    try:
        if dual_stack:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind(("", port))
    except OSError as error:
        found.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return found


def available() -> int:
    """The number of ports to choose from, including those in use."""
    return sum(len(pool) for pool in pools())


def pools() -> list[range]:
    """The ranges of ports to use on this machine, the best first."""
    first, last = map(int, (_SETTINGS / "ip_local_port_range").read_text().split())
    return around(first, last)


def around(first: int, last: int) -> list[range]:
    """The ranges outside the ephemeral range `first` to `last` (both included), the best first."""
    chosen = [range(FIRST, first), range(_LOWEST, min(FIRST, first)), range(last + 1, _END)]
    return [pool for pool in chosen if pool]


def _candidates(ranges: Sequence[range], claimed: Sequence[int]) -> Iterator[int]:
    """Every port once, those that other users claim last. Each range starts at a random port, so that jobs that start
    at the same time do not collide."""
    reserved, last = _reserved_by_administrator(), []
    for pool in ranges:
        start = random.randrange(len(pool))  # noqa: S311  nothing secret
        for port in chain(pool[start:], pool[:start]):
            if port in reserved:
                continue
            if claimed[port]:
                last.append(port)
            else:
                yield port
    yield from last


def _claimed(folder: Path) -> bytearray:
    """Whether another user claims a port, by port number. Users may claim any number of ranges of any length."""
    claimed = bytearray(_END)
    for _, numbers in of_others(folder):
        first, end = min(numbers.start, _END), min(numbers.stop, _END)
        claimed[first:end] = b"\1" * (end - first)
    return claimed


def _reserved_by_administrator() -> set[int]:
    """The ports that the administrator reserves for particular services, in the format `8080,9000-9010`."""
    ports: set[int] = set()
    for item in (_SETTINGS / "ip_local_reserved_ports").read_text().strip().split(","):
        if item:
            first, _, last = item.partition("-")
            ports.update(range(int(first), int(last or first) + 1))
    return ports
