"""The address of a task for its peers."""

from __future__ import annotations

import pytest

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
