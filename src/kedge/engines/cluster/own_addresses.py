"""The addresses of this machine, for agents on other nodes that look for the controller."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROUTES = Path("/proc/net/fib_trie")
_IPV6 = Path("/proc/net/if_inet6")
_LOCAL = ("127.", "169.254.", "::1")
_GLOBAL = "00"  # scope, in the second file


def own_addresses() -> list[str]:
    """All addresses: first those that its name stands for, those of its own interfaces last (127.0.0.1, for tasks on
    this node)."""
    known = dict.fromkeys([*_ipv4(), *_ipv6()])
    named = [address for address in _of_name() if address in known]
    return sorted(dict.fromkeys([*named, *known]), key=lambda address: address.startswith(_LOCAL))  # stable


def _of_name() -> Iterator[str]:
    with suppress(OSError):
        for _, _, _, _, address in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            yield str(address[0])


def _ipv4() -> Iterator[str]:
    """The table of local routes: a line with the address, and the next says what kind it is."""
    address = ""
    with suppress(OSError):
        for line in _ROUTES.read_text().splitlines():
            words = line.split()
            if "/32 host LOCAL" in line:
                yield address
            elif words[0] == "|--":
                address = words[1]


def _ipv6() -> Iterator[str]:
    """Without link-local ones, which mean something only together with an interface."""
    with suppress(OSError):
        for fields in map(str.split, _IPV6.read_text().splitlines()):
            if len(fields) == 6 and fields[3] == _GLOBAL:
                yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))
