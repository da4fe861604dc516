"""The addresses of this node, for the other tasks of the job."""

from __future__ import annotations

import _socket
import fcntl
import os
import struct
from array import array

from kedge.light.contextlib import suppress
from kedge.light.types import Sequence

_SIOCGIFCONF = 0x8912  # netdevice(7): the IPv4 addresses of all interfaces
_ENTRY = 40  # bytes of struct ifreq on 64-bit machines
_MOST = 256  # interfaces
_IPV6 = "/proc/net/if_inet6"
_GLOBAL = "00"  # scope, in that file
_LOCAL = ("127.", "169.254.", "::1")


def of_node(controller: Sequence[str]) -> list[str]:
    """The addresses of this node, the best first: the one that it has in the controller's network, then those of its
    other networks, those of its own interfaces last (127.0.0.1)."""
    towards = [found for address in controller if (found := _towards(address))]
    known = dict.fromkeys([*towards, *_ipv4(), *_ipv6()])
    return sorted(known, key=lambda address: address.startswith(_LOCAL))  # stable


def boot_id() -> str:
    """The id of the node's current boot; empty if it has none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb", buffering=0) as file:
        return file.readall().decode().strip()
    return ""


def _towards(address: str) -> str | None:
    """The node's own address in packets to another one. Nothing is sent."""
    family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
    with suppress(OSError):
        probe = _socket.socket(family, _socket.SOCK_DGRAM)
        try:
            probe.connect((address, 9))
            own: str = probe.getsockname()[0]
            return own
        finally:
            probe.close()
    return None


def _ipv4() -> list[str]:
    entries = array("B", bytes(_ENTRY * _MOST))
    at, size = entries.buffer_info()
    with suppress(OSError):
        probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFCONF, struct.pack("iP", size, at))
        finally:
            probe.close()
        used = struct.unpack("iP", answer)[0]
        data = entries.tobytes()[:used]
        return [_socket.inet_ntoa(data[start + 20 : start + 24]) for start in range(0, used, _ENTRY)]
    return []


def _ipv6() -> list[str]:
    """Those that can be reached from other networks: link-local ones need the name of an interface besides."""
    found = []
    with suppress(OSError):
        fd = os.open(_IPV6, os.O_RDONLY | os.O_CLOEXEC)
        try:
            lines = os.read(fd, 1 << 16).decode().splitlines()
        finally:
            os.close(fd)
        for fields in map(str.split, lines):
            if len(fields) == 6 and fields[3] == _GLOBAL:
                found.append(_socket.inet_ntop(_socket.AF_INET6, bytes.fromhex(fields[0])))
    return found
