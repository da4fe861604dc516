"""The layers of a bundle. Each one needs the core; the driver also needs `net`.

What two layers need is in the earlier one: those that tasks need come before those that only the job's side has, which
pods leave out."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from kedge.bundle import busybox
from kedge.errors import CannotRun, InputError

CORE = "core"  # the supervisor and the diagnosis
NET = "net"  # TLS and HTTP: the actions `git` and `download`
SSH = "ssh"  # ssh between tasks
INIT = "init"  # reading and planning a job beside a cluster's tasks
DRIVER = "driver"  # the controller of a job, inside a cluster
SHELL = "shell"  # a shell for the image of the runtime
LAYERS = (CORE, NET, SSH, INIT, DRIVER, SHELL)

# Descriptions for the user.
WORDS = {
    CORE: "Python, the supervisor, the diagnosis",
    NET: "TLS and HTTP, for the prerequisites git and download, and the agents of cluster tasks",
    SSH: "ssh between tasks",
    INIT: "the init phase: reading and planning a job",
    DRIVER: "the controller of a job, inside a cluster",
    SHELL: "sh and the usual small programs, for the image",
}
# Third-party packages of a layer; their own dependencies are included.
PACKAGES = {
    CORE: ("re2",), NET: ("certifi",), SSH: ("asyncssh",), INIT: ("httpx", "jsonschema", "yaml"), DRIVER: (), SHELL: (),
}  # fmt: skip
# Modules of the standard library that no code imports by name. Host names are encoded with `idna`, names in zip files
# with `cp437`, and bugs are reported with `traceback`.
STANDARD = {
    CORE: (
        "encodings.ascii", "encodings.latin_1", "encodings.utf_8_sig", "encodings.unicode_escape", "runpy",
        "traceback",
    ),
    NET: ("encodings.idna", "encodings.cp437", "encodings.utf_16_le"),
    SSH: ("encodings.idna",),
    INIT: (),
    DRIVER: (),
    SHELL: (),
}  # fmt: skip


def available() -> tuple[str, ...]:
    """The layers that can be built on this machine."""
    return tuple(layer for layer in LAYERS if not missing(layer))


def missing(layer: str) -> list[str]:
    """The packages of a layer that are not installed: Python's, and for the shell Debian's."""
    if layer == SHELL:
        return [] if busybox.find() else [busybox.PACKAGE]
    return [name for name in PACKAGES[layer] if importlib.util.find_spec(name) is None]


def choose(names: Sequence[str]) -> tuple[str, ...]:
    """The layers with these names in order, including the core. InputError for an unknown name, CannotRun for a layer
    that cannot be built on this machine."""
    if unknown := [name for name in names if name not in LAYERS]:
        raise InputError(f"there is no layer {unknown[0]!r} of a bundle; there are {', '.join(LAYERS)}")
    for name in names:
        if packages := missing(name):
            install = "apt-get" if name == SHELL else "pip"
            raise CannotRun(f"the layer {name} needs {' and '.join(packages)}: {install} install {' '.join(packages)}")
    needed = {CORE, *names, *((NET,) if DRIVER in names else ())}
    return tuple(layer for layer in LAYERS if layer in needed)
