"""The addresses that an agent tells."""

from __future__ import annotations

import pytest

from kedge.link.frames import FIRST_HEADER_LIMIT
from kedge.link.messages import Hello
from kedge.runtime.agent import addresses


def test_a_node_with_thousands_of_addresses_can_say_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    services = [f"2001:db8:1234:5678:9abc:def0:{n:x}:1" for n in range(4096)]
    monkeypatch.setattr(addresses, "_interfaces", lambda: ["127.0.0.1", *services])
    found = addresses.of_node(["127.0.0.1"])
    assert found == services[:64]
    hello = Hello("0" * 64, 0, "w", 0, "0" * 16, "n", found, "0" * 36, 1)
    assert len(str(hello.header())) < FIRST_HEADER_LIMIT / 8
