"""The layers of a bundle, each of which needs those before it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from kedge.errors import CannotRun, InputError

CORE = "core"  # the supervisor and the diagnosis
NET = "net"  # TLS and HTTP: the actions `git` and `download`
INIT = "init"  # reading and planning a job beside a cluster's tasks
SSH = "ssh"  # an SSH server of its own
LAYERS = (CORE, NET, INIT, SSH)

# What a user should know of each.
WORDS = {
    CORE: "Python, the supervisor, the diagnosis",
    NET: "TLS and HTTP, for the prerequisites git and download",
    INIT: "reading and planning a job",
    SSH: "an SSH server",
}
# Packages of others that a layer carries, with what they need themselves.
PACKAGES = {CORE: ("re2",), NET: ("certifi",), INIT: ("httpx", "jsonschema", "yaml"), SSH: ("asyncssh",)}
# Of the standard library, what nothing imports by name. Host names go through `idna`, names in zip files through
# `cp437`, and a bug is told with its traceback.
STANDARD = {
    CORE: (
        "encodings.ascii", "encodings.latin_1", "encodings.utf_8_sig", "encodings.unicode_escape", "runpy",
        "traceback",
    ),
    NET: ("encodings.idna", "encodings.cp437", "encodings.utf_16_le"),
    INIT: (),
    SSH: (),
}  # fmt: skip


def available() -> tuple[str, ...]:
    """The layers that can be built here."""
    return tuple(layer for layer in LAYERS if not missing(layer))


def missing(layer: str) -> list[str]:
    """The packages of a layer that are not installed."""
    return [name for name in PACKAGES[layer] if importlib.util.find_spec(name) is None]


def choose(names: Sequence[str]) -> tuple[str, ...]:
    """The layers of these names in their order, with the one that all need. InputError for a name that is none,
    CannotRun for a layer that cannot be built here."""
    if unknown := [name for name in names if name not in LAYERS]:
        raise InputError(f"there is no layer {unknown[0]!r} of a bundle; there are {', '.join(LAYERS)}")
    for name in names:
        if lacks := missing(name):
            raise CannotRun(f"the layer {name} needs {' and '.join(lacks)}: pip install {' '.join(lacks)}")
    return tuple(layer for layer in LAYERS if layer == CORE or layer in names)
