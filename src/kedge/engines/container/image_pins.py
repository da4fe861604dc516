"""How images that are on this machine are pinned: for `kedge lock`, which needs no container engine otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from kedge.engines.container import connection, pinned_images
from kedge.engines.container.connection import Connection
from kedge.errors import CannotRun


def here(asked: Mapping[str, str | None]) -> dict[str, str]:
    """The pins of those images that are here, by name; `asked` has the digests that their registries have said.
    Without an engine there are none."""
    found = {}
    with suppress(CannotRun), Connection(connection.address()) as connected:
        for name, digest in asked.items():
            with suppress(CannotRun):  # no name of an image
                if image := connected.client.image(name):
                    found[name] = pinned_images.pin_of(name, image, digest)
    return found
