"""Pins of the images on this machine, for `kedge lock`, which otherwise needs no container engine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from kedge.engines.container.api import connection
from kedge.engines.container.api.connection import Connection
from kedge.engines.container.images import pinned_images
from kedge.errors import CannotRun


def here(registry_digests: Mapping[str, str | None]) -> dict[str, str]:
    """The pins of those images that are on this machine, by name. `registry_digests` are the digests in their
    registries, if known. Empty without an engine."""
    found = {}
    with suppress(CannotRun), Connection(connection.address()) as connected:
        for name, digest in registry_digests.items():
            with suppress(CannotRun):  # not the name of an image
                if image := connected.client.image(name):
                    found[name] = pinned_images.pin_of(name, image, digest)
    return found
