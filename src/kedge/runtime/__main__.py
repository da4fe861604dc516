"""Start the supervisor from a folder: `python -I -S <this folder> SPEC_FILE [options]`. With `--action`, run one of the
runtime's own actions instead; with `--warm`, fork supervisors on request.

Isolated mode leaves only the standard library and this folder on sys.path. This folder is removed, because its modules
would be importable under the wrong names. The folder that holds the package is appended last, so that nothing in it
shadows the standard library.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

gc.disable()  # a collection during imports frees nothing and takes a tenth of the start-up time

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _HERE] + [os.path.dirname(os.path.dirname(_HERE))]

if __name__ == "__main__":
    importlib.import_module("kedge.runtime.launch").launch()
