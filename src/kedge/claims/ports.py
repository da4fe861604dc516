"""Free TCP ports for tasks, reserved as bound sockets that nobody can connect to.

Ports come from below the kernel's ephemeral range, so that no outgoing connection takes one between the moment a task's
socket is closed and the moment its program binds the port: from 15000 upwards, as in OpenPAI, then lower ones, then
those above the ephemeral range.
"""

from __future__ import annotations

import _socket as sockets  # without the part in Python, which an agent does not need
import errno
import os
from itertools import chain

from kedge.claims.locks import FOLDER, Claims, Folder, of_others
from kedge.errors import CannotRun
from kedge.light.contextlib import suppress
from kedge.light.types import Iterator, Sequence

FIRST = 15000
_LOWEST = 1024
_END = 65536
_SETTINGS = "/proc/sys/net/ipv4"


class HeldPort(sockets.socket):
    """A socket that is bound to a port and does not listen. Closing it frees the port for programs."""

    @property
    def number(self) -> int:
        """The port."""
        port: int = self.getsockname()[1]
        return port

    def __enter__(self) -> HeldPort:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def reserve(count: int, claims: Claims, folder: Folder = FOLDER) -> list[HeldPort]:
    """`count` different ports that are free on all addresses, each as a bound socket that does not listen.

    Closing the socket frees the port for programs; `claims` keep it from other jobs.
    Ports that other users claim come last, and only if unbound: claims cost nothing, so users could claim all of them.
    CannotRun names how many are needed and how many are free.
    """
    held: list[HeldPort] = []
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


def hold(port: int) -> HeldPort | None:
    """A socket bound to the port on all addresses, or None if another socket has the port on any of them."""
    found = _for_all_addresses()
    try:
        found.bind(("", port))
    except OSError as error:
        found.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return found


def _for_all_addresses() -> HeldPort:
    """A new socket for IPv6 and IPv4, where there are both."""
    with suppress(OSError):  # the kernel, or the settings of this machine, have no IPv6
        found = HeldPort(sockets.AF_INET6)
        try:
            found.setsockopt(sockets.IPPROTO_IPV6, sockets.IPV6_V6ONLY, 0)
        except BaseException:
            found.close()
            raise
        return found
    return HeldPort(sockets.AF_INET)


def available() -> int:
    """The number of ports to choose from, including those in use."""
    return sum(len(pool) for pool in pools())


def pools() -> list[range]:
    """The ranges of ports to use on this machine, the best first."""
    first, last = map(int, _setting("ip_local_port_range").split())
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
        start = int.from_bytes(os.urandom(4)) % len(pool)
        for port in chain(pool[start:], pool[:start]):
            if port in reserved:
                continue
            if claimed[port]:
                last.append(port)
            else:
                yield port
    yield from last


def _claimed(folder: Folder) -> bytearray:
    """Whether another user claims a port, by port number. Users may claim any number of ranges of any length."""
    claimed = bytearray(_END)
    for _, numbers in of_others(folder):
        first, end = min(numbers.start, _END), min(numbers.stop, _END)
        claimed[first:end] = b"\1" * (end - first)
    return claimed


def _reserved_by_administrator() -> set[int]:
    """The ports that the administrator reserves for particular services, in the format `8080,9000-9010`."""
    ports: set[int] = set()
    for item in _setting("ip_local_reserved_ports").split(","):
        if item:
            first, _, last = item.partition("-")
            ports.update(range(int(first), int(last or first) + 1))
    return ports


def _setting(name: str) -> str:
    with open(f"{_SETTINGS}/{name}", encoding="utf-8") as file:
        return file.read().strip()
