"""Starts the supervisor from a folder: `python -I -S <this folder> SPEC_FILE [options]`.

Isolated mode leaves only the standard library and this folder on sys.path. The folder goes, because its modules would
be importable under wrong names; the folder above the package comes last, so that nothing in it hides the standard
library.
"""

from __future__ import annotations

import gc
import os
import sys

gc.disable()  # collecting while modules are loaded finds nothing and takes a tenth of the start

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _HERE] + [os.path.dirname(os.path.dirname(_HERE))]

from kedge.runtime.main import main  # noqa: E402  (found only through the path set above)

if __name__ == "__main__":
    # Nothing is buffered here, so the interpreter's slow farewell can be skipped.
    gc.freeze()
    gc.enable()
    os._exit(main(sys.argv[1:]))
