"""The address of a task for its peers, from those that its agent found on its node."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"


def reachable(addresses: Sequence[str]) -> str:
    """The first address that other machines can reach; the agent lists the one on its way to the controller first.
    Empty if there is none."""
    return next((address for address in addresses if _is_reachable(address)), "")


def _is_reachable(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast)
