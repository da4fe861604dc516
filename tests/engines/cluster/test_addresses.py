"""The address of a task for its peers."""

from __future__ import annotations

import pytest

from kedge.engines.cluster import own_addresses
from kedge.engines.cluster.addresses import reachable


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
