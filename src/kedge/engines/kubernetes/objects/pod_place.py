"""What a driver knows about its run that is the same for all task pods."""

from __future__ import annotations

from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.light.types import NamedTuple


class PodPlace(NamedTuple):
    """`image` is the runtime's. `addresses`, `port` and `certificate` (PEM) are those of the driver, for the orders of
    agents; `mirrored` as in AgentOrders. `code_pieces` is the number of ConfigMaps that hold the code;
    `code_on_volume`: it is on the site's `code_volume` instead. With neither, agents fetch it from the driver."""

    owner: ObjectOwner
    image: str
    addresses: tuple[str, ...]
    port: int
    certificate: str
    mirrored: int = 0
    code_pieces: int = 0
    code_on_volume: bool = False
