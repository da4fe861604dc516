"""The network of one job: an unused range of addresses, and the address of every task in it."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from pathlib import Path

from kedge.engines.base import Task
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import EngineRefused
from kedge.errors import CannotRun

_POOL = ipaddress.IPv4Network("10.128.0.0/9")
_SMALLEST = 24  # prefix length of the smallest network
_RESERVED = 3  # addresses: the network itself, its gateway, its broadcast address
_TRIES = 20
_MOST = 1000  # a Linux bridge has 1,024 ports
_ROUTES = Path("/proc/net/route")


def check(tasks: int) -> None:
    """CannotRun if a network cannot hold so many tasks."""
    if tasks > _MOST:
        raise CannotRun(f"the job has {tasks} tasks, but a container network holds {_MOST}; try --network host")


def create(client: Client, name: str, tasks: int, labels: dict[str, str]) -> IPv4Network:
    """Make a network for `tasks` tasks and return its range. CannotRun if the engine accepts none."""
    problem = "no free range of addresses"
    taken = list(routes())
    for subnet in candidates(tasks):
        if any(subnet.overlaps(route) for route in taken):
            continue
        try:
            client.create_network(name, str(subnet), str(subnet[1]), labels)
        except EngineRefused as error:  # most likely, another job has just taken the range
            problem = str(error)
            continue
        return subnet
    raise CannotRun(f"the job's network cannot be made: {problem}; use --network host to run without one")


def candidates(tasks: int) -> Iterator[IPv4Network]:
    """Random ranges that are large enough."""
    bits = min(_SMALLEST, 32 - (tasks + _RESERVED - 1).bit_length())
    count = 1 << (bits - _POOL.prefixlen)
    for _ in range(_TRIES):
        start = int(_POOL.network_address) + (random.randrange(count) << (32 - bits))  # noqa: S311  nothing secret
        yield IPv4Network((start, bits))


def routes() -> Iterator[IPv4Network]:
    """The networks that this machine has specific routes to, such as those of a VPN, without the default route."""
    try:
        lines = _ROUTES.read_text().splitlines()[1:]
    except FileNotFoundError:
        return
    for line in lines:
        fields = line.split()
        address, mask = (int.from_bytes(bytes.fromhex(fields[n]), "little") for n in (1, 7))
        if mask:
            yield IPv4Network((address, mask.bit_count()), strict=False)


def addresses(subnet: IPv4Network, tasks: Iterable[Task]) -> dict[Task, str]:
    """An address for every task, the same for all its attempts."""
    return {task: str(subnet[number]) for number, task in enumerate(tasks, 2)}
