"""Starts the supervisor from a folder: `python -I -S <this folder> SPEC_FILE [options]`; with `--action`, one of the
runtime's own actions.

Isolated mode leaves only the standard library and this folder on sys.path. The folder goes, because its modules would
be importable under wrong names; the folder above the package comes last, so that nothing in it hides the standard
library.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

gc.disable()  # collecting while modules are loaded finds nothing and takes a tenth of the start

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _HERE] + [os.path.dirname(os.path.dirname(_HERE))]

if __name__ == "__main__":
    importlib.import_module("kedge.runtime.setup.environment").restore(os.environ)
    program = importlib.import_module(
        "kedge.runtime.actions.program" if sys.argv[1:2] == ["--action"] else "kedge.runtime.main"
    )
    # Nothing is buffered here, so the interpreter's slow farewell can be skipped.
    gc.freeze()
    gc.enable()
    os._exit(program.main(sys.argv[1:]))
