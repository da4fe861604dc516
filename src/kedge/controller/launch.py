"""The first steps of a job's controller inside a cluster, once modules can be imported. A bundle starts here."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn


def launch() -> NoReturn:
    """Run the controller, and exit. The garbage collector is off before."""
    from kedge.controller import driver, in_cluster

    arguments = sys.argv[1:]
    in_own_pod = arguments[:1] == [driver.OPTION]

    gc.freeze()
    gc.enable()
    code = driver.main(arguments[1:]) if in_own_pod else in_cluster.main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the interpreter's slow shutdown
