"""The images of the tests, by the names that the nodes of their cluster know."""

from __future__ import annotations

import os

from tests import runtime_image

# For a cluster that KUBECONFIG names: images that its nodes have, or can pull.
BUSYBOX_VARIABLE, RUNTIME_VARIABLE = "KEDGE_TEST_BUSYBOX", "KEDGE_TEST_RUNTIME"


def busybox() -> str:
    """An image with busybox, in which the tasks of tests run."""
    return os.environ.get(BUSYBOX_VARIABLE) or "localhost/kedge/busybox:1"


def runtime() -> str:
    """The image of the runtime that is made of these sources."""
    return os.environ.get(RUNTIME_VARIABLE) or runtime_image.NAME


def missing() -> str:
    """Which of them a cluster that is there already is not said to have; empty if it has both."""
    variables = [name for name in (BUSYBOX_VARIABLE, RUNTIME_VARIABLE) if not os.environ.get(name)]
    what = "images that its nodes have or can pull"
    return f"KUBECONFIG names a cluster: set {' and '.join(variables)} to {what}" if variables else ""
