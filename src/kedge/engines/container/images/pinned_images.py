"""Images that a lock file pins: by the digest of their manifest, `sha256:…`, or, if they are in no registry, by their
own ID, `id:sha256:…`. Pure."""

from __future__ import annotations

from kedge.engines.container.api.engine_answers import LocalImage
from kedge.image_names import without_tag
from kedge.plan.model import RolePlan

_OWN = "id:"
_LOCAL = "localhost/"  # Podman's prefix for images that were built on this machine


def reference(role: RolePlan) -> str:
    """The name by which the engine is asked for the image of a role."""
    if role.pin is None:
        return role.image
    return role.pin.removeprefix(_OWN) if is_own(role) else f"{without_tag(role.image)}@{role.pin}"


def is_own(role: RolePlan) -> bool:
    """Whether the role is pinned to an image that is in no registry."""
    return bool(role.pin) and str(role.pin).startswith(_OWN)


def fits(image: LocalImage, pin: str) -> bool:
    """Whether an image is the pinned one."""
    return pin.removeprefix(_OWN) == image.id or any(digest.endswith(f"@{pin}") for digest in image.digests)


def pin_of(name: str, image: LocalImage, registry_digest: str | None) -> str:
    """The pin of a local image; `registry_digest` is the digest that its registry has now, if known."""
    repository = without_tag(name)
    known = (digest.partition("@")[::2] for digest in image.digests if not digest.startswith(_LOCAL))
    digests = [digest for where, digest in known if where == repository or where.endswith(f"/{repository}")]
    return registry_digest if registry_digest in digests else digests[0] if digests else f"{_OWN}{image.id}"


def changed(role: RolePlan, image: LocalImage) -> str:
    """The error for an image that is not the pinned one."""
    here = f"{_OWN}{image.id}" if is_own(role) else pin_of(role.image, image, None)
    return (
        f"the image {role.image} has changed since it was locked: it was {role.pin}, and the one here is {here}; "
        f"accept the change with --update-lock {role.image}"
    )


def missing(role: RolePlan) -> str:
    """The error for a missing image that is in no registry."""
    return (
        f"the image {role.image} is locked to one that exists only on the machine where 'kedge lock' ran "
        f"({role.pin}): copy it here with podman (or docker) save and load, or accept another image with "
        f"--update-lock {role.image}"
    )
