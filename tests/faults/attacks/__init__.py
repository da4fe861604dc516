"""All attacks, by name."""

from __future__ import annotations

from ..rounds import Attack
from . import containers, crowds, disks, hostile, kills, limits, stops

_KINDS = (kills, stops, disks, hostile, limits, crowds, containers)
ATTACKS: dict[str, Attack] = {attack.name: attack for kind in _KINDS for attack in kind.ATTACKS}
