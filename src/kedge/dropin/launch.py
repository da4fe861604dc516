"""The first steps of the init phase, once modules can be imported. A bundle starts here."""

from __future__ import annotations

import gc
import os
import sys

from kedge.light.types import NoReturn


def launch() -> NoReturn:
    """Run the init phase, and exit. The garbage collector stays off: a phase takes less than a second of its own."""
    gc.disable()
    from kedge.dropin.main import main

    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the interpreter's slow shutdown
