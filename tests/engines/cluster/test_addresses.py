"""The address of a task for its peers."""

from __future__ import annotations

import pytest

from kedge.engines.base import Task
from kedge.engines.cluster import barrier, own_addresses
from kedge.engines.cluster.addresses import reachable
from kedge.engines.cluster.member import Member
from kedge.link.messages import Hello


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["10.0.0.7", "192.168.1.7"], "10.0.0.7"),
        (["127.0.0.1", "169.254.3.4", "fe80::1", "10.0.0.7"], "10.0.0.7"),
        (["::1", "2001:db8::7"], "2001:db8::7"),
        (["127.0.1.1"], ""),
        (["no address", "0.0.0.0", "224.0.0.1"], ""),
        ([], ""),
    ],
)
def test_the_first_address_that_others_can_reach(addresses: list[str], expected: str) -> None:
    assert reachable(addresses) == expected


@pytest.mark.parametrize(
    "name", ["127.0.1.1", "192.168.3.4", "203.0.113.9"], ids=["loopback", "own", "of no interface"]
)
def test_the_network_of_containers_is_not_how_others_find_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(own_addresses, "_of_name", lambda: iter([name]))
    monkeypatch.setattr(own_addresses, "_of_way_out", lambda: iter(["192.168.3.4"]))
    monkeypatch.setattr(own_addresses, "_ipv4", lambda: iter(["127.0.0.1", "127.0.1.1", "172.17.0.1", "192.168.3.4"]))
    monkeypatch.setattr(own_addresses, "_ipv6", lambda: iter(["::1"]))
    assert own_addresses.own_addresses()[:2] == ["192.168.3.4", "172.17.0.1"]


def test_the_way_out_is_an_address_of_this_machine() -> None:
    found = own_addresses.own_addresses()
    assert set(own_addresses._of_way_out()) <= set(found)
    assert found[-1].startswith(("127.", "::1", "169.254."))


BRIDGE = "172.17.0.1"  # of Docker, on every node


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("a", [BRIDGE, "192.168.0.1"]), ("b", [BRIDGE, "192.168.0.2"])], ["192.168.0.1", "192.168.0.2"]),
        ([("a", [BRIDGE, "192.168.0.1"]), ("a", [BRIDGE, "192.168.0.1"])], [BRIDGE, BRIDGE]),
        ([("a", ["10.0.0.1", BRIDGE]), ("b", [BRIDGE, "10.0.0.2", "192.168.0.2"])], ["10.0.0.1", "10.0.0.2"]),
        ([("a", [BRIDGE]), ("b", [BRIDGE])], [BRIDGE, BRIDGE]),
        ([("a", [BRIDGE, "127.0.0.1"]), ("b", ["10.0.0.2", "127.0.0.1"])], [BRIDGE, "10.0.0.2"]),
        ([("a", []), ("b", ["10.0.0.2"])], ["", "10.0.0.2"]),
    ],
)
def test_an_address_that_several_machines_have_is_no_address_of_a_peer(
    nodes: list[tuple[str, list[str]]], expected: list[str]
) -> None:
    members = [Member(Task("w", index)) for index in range(len(nodes))]
    for member, (machine, addresses) in zip(members, nodes, strict=True):
        member.met(Hello("", 0, "w", 0, "agent", f"n{machine}", addresses, machine, 1))
    before = [member.address for member in members]
    changed = barrier.choose_addresses(members)
    assert [member.address for member in members] == expected
    assert changed == [one for one, address in zip(members, before, strict=True) if one.address != address]
