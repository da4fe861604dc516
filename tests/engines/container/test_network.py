"""Addresses of a job's network."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from kedge.engines.base import Task
from kedge.engines.container.network import addresses, candidates, check, routes
from kedge.errors import CannotRun

POOL = IPv4Network("10.128.0.0/9")


@pytest.mark.parametrize(("tasks", "bits"), [(1, 24), (253, 24), (254, 23), (509, 23), (510, 22), (10_000, 18)])
def test_a_range_has_room_for_every_task(tasks: int, bits: int) -> None:
    found = list(candidates(tasks))
    assert {subnet.prefixlen for subnet in found} == {bits}
    assert all(subnet.subnet_of(POOL) for subnet in found)
    last = addresses(found[0], (Task("w", n) for n in range(tasks)))[Task("w", tasks - 1)]
    assert last != str(found[0].broadcast_address)
    assert IPv4Network(f"{last}/32").subnet_of(found[0])


def test_ranges_are_chosen_at_random() -> None:
    assert len(set(candidates(1))) > 10


def test_addresses_are_distinct_and_exclude_the_gateway() -> None:
    subnet = IPv4Network("10.130.1.0/24")
    found = addresses(subnet, [Task("a", 0), Task("a", 1), Task("b", 0)])
    assert list(found.values()) == ["10.130.1.2", "10.130.1.3", "10.130.1.4"]


def test_the_default_route_is_ignored() -> None:
    assert all(route.prefixlen > 0 for route in routes())


def test_more_tasks_than_a_bridge_has_ports_are_an_error() -> None:
    check(1000)
    with pytest.raises(CannotRun, match=r"has 1001 tasks.*--network host"):
        check(1001)
