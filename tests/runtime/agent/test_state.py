"""What an agent tells each controller first."""

from __future__ import annotations

import json

from kedge.link.frames import FIRST_HEADER_LIMIT, encoded
from kedge.link.messages import Hello
from kedge.runtime.agent.state import LONGEST_PORTS, AgentState


def test_whatever_it_knows_fits_into_the_first_message() -> None:
    """Else it would be refused, again and again, whenever it has lost its connection."""
    addresses = [f"2001:db8:1234:5678:9abc:def0:{n:x}:1" for n in range(64)]
    ports = {"x": [65_535] * (LONGEST_PORTS // len("65535, "))}
    for size in (0, 9_000, 40_000, 1 << 20):
        ended = {"task_attempt": 0, "report": {"message": "x" * size}, "code": 1, "text": ""}
        told = AgentState(ports, 0, ended=ended).told()
        hello = Hello("0" * 64, 0, "w" * 100, 0, "0" * 16, "n" * 100, addresses, "0" * 36, 1, state=told)
        assert len(encoded(hello.header())) < FIRST_HEADER_LIMIT
        assert told["ports"] == ports
        assert (told["ended"]["report"] is None) == (len(json.dumps(ports)) + size > 48 << 10)
