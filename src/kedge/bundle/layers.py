"""The layers of a bundle, each of which needs those before it."""

from __future__ import annotations

CORE = "core"  # the supervisor and the diagnosis
NET = "net"  # TLS and HTTP: the actions `git` and `download`
INIT = "init"  # reading and planning a job beside a cluster's tasks
SSH = "ssh"  # an SSH server of its own
LAYERS = (CORE, NET, INIT, SSH)

# Packages of others that a layer carries besides what its modules import.
PACKAGES = {CORE: ("re2",), NET: ("certifi",), INIT: (), SSH: ("asyncssh",)}
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
