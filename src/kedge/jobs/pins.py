"""The current pins of images: what the lock file holds of them."""

from __future__ import annotations

from collections.abc import Iterable

from kedge.engines.registry import images_here
from kedge.resolve.lock_file import Pin
from kedge.resolve.sources import pinning


def of_images(images: Iterable[str]) -> dict[str, Pin]:
    """The current pin of every image: that of the local image, or else of the registry's."""
    remote = pinning.digests(images)
    local = images_here({image: pin.value for image, pin in remote.items()})
    return {image: Pin(local[image]) if image in local else pin for image, pin in remote.items()}
