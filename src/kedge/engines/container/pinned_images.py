"""Images that a lock file has pinned: by the digest of their manifest, `sha256:…`, or, if they are in no registry, by
their own ID, `id:sha256:…`. Pure."""

from __future__ import annotations

from kedge.engines.container.client import LocalImage
from kedge.plan.model import RolePlan

_OWN = "id:"
_LOCAL = "localhost/"  # Podman's for images that were made here


def reference(role: RolePlan) -> str:
    """By which name the engine is asked for the image of a role."""
    if role.pin is None:
        return role.image
    return role.pin.removeprefix(_OWN) if is_own(role) else f"{_repository(role.image)}@{role.pin}"


def is_own(role: RolePlan) -> bool:
    """Whether it is pinned to an image that no registry has."""
    return bool(role.pin) and str(role.pin).startswith(_OWN)


def fits(image: LocalImage, pin: str) -> bool:
    """Whether an image is the one that was pinned."""
    return pin.removeprefix(_OWN) == image.id or any(digest.endswith(f"@{pin}") for digest in image.digests)


def pin_of(name: str, image: LocalImage, asked: str | None) -> str:
    """How to pin an image that is here under a name; `asked` is the digest that its registry has now, if that is
    known."""
    repository = _repository(name)
    known = (digest.partition("@")[::2] for digest in image.digests if not digest.startswith(_LOCAL))
    digests = [digest for where, digest in known if where == repository or where.endswith(f"/{repository}")]
    return asked if asked in digests else digests[0] if digests else f"{_OWN}{image.id}"


def changed(role: RolePlan, image: LocalImage) -> str:
    """What to say of an image that is another one than was pinned."""
    here = f"{_OWN}{image.id}" if is_own(role) else pin_of(role.image, image, None)
    return (
        f"the image {role.image} has changed since it was locked: it was {role.pin}, and the one here is {here}; "
        f"--update-lock {role.image} accepts the change"
    )


def missing(role: RolePlan) -> str:
    """What to say where an image is not here that no registry has."""
    return (
        f"the image {role.image} is locked to one that exists only on the machine where 'kedge lock' ran "
        f"({role.pin}), "
        f"and it is not here: bring it by podman (or docker) save and load; --update-lock {role.image} accepts another"
    )


def _repository(image: str) -> str:
    """The name without its tag; a colon before the last slash is a port's."""
    name = image.partition("@")[0]
    path, slash, last = name.rpartition("/")
    return f"{path}{slash}{last.partition(':')[0]}"
