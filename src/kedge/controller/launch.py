"""The first steps of a job's controller inside a cluster, once modules can be imported. A bundle starts here."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn


def launch() -> NoReturn:
    """Run the controller, and exit. The garbage collector is off before."""
    from kedge.controller.in_cluster import main

    gc.freeze()
    gc.enable()
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the interpreter's slow shutdown
