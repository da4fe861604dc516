"""The addresses of this machine, for agents on other nodes that look for the controller."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROUTES = Path("/proc/net/fib_trie")
_IPV6 = Path("/proc/net/if_inet6")
_LOCAL = ("127.", "169.254.", "::1")
_BEYOND = ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1"))  # of documents: nobody's own networks
_GLOBAL = "00"  # scope, in the second file
_MOST = 32  # agents try one after the other; a node may have thousands: those of all services of a Kubernetes cluster


def own_addresses() -> list[str]:
    """All addresses: first those that its name stands for, then those of its way out, 127.0.0.1 last (for tasks on this
    node). Each task tells its peers the address that it has in the network of the first one, so this must not be a
    network inside the node, such as that of its containers (172.17.0.1 is the same on every node). Of very many, the
    first ones and the last."""
    known = dict.fromkeys([*_ipv4(), *_ipv6()])
    best = [address for address in (*_of_name(), *_of_way_out()) if address in known or not known]  # in some sandboxes
    found = sorted(dict.fromkeys([*best, *known]), key=lambda address: address.startswith(_LOCAL))  # stable
    return [*found[: _MOST - 1], *found[_MOST - 1 :][-1:]]


def _of_name() -> Iterator[str]:
    with suppress(OSError, UnicodeError):  # nobody resolves it, or it has a part of more than 63 characters
        for _, _, _, _, address in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            yield str(address[0])


def _of_way_out() -> Iterator[str]:
    """What this machine is called in networks beyond its own ones. Nothing is sent."""
    for family, beyond in _BEYOND:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((beyond, 9))
            yield str(probe.getsockname()[0])


def _ipv4() -> Iterator[str]:
    """The table of local routes: a line with the address, and the next says what kind it is."""
    address = ""
    with suppress(OSError):
        for line in _ROUTES.read_text().splitlines():
            words = line.split()
            if "/32 host LOCAL" in line:
                yield address
            elif words[:1] == ["|--"]:
                address = words[1]


def _ipv6() -> Iterator[str]:
    """Without link-local ones, which mean something only together with an interface."""
    with suppress(OSError):
        for fields in map(str.split, _IPV6.read_text().splitlines()):
            if len(fields) == 6 and fields[3] == _GLOBAL:
                yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))
