"""Start the agent from a folder: `python -I -S <this folder> [options]`, see `kedge.runtime.__main__`."""

from __future__ import annotations

import gc
import importlib
import os
import sys

gc.disable()  # a collection during imports frees nothing and takes a tenth of the start-up time

_HERE = os.path.dirname(os.path.abspath(__file__))
_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
sys.path[:] = [entry for entry in sys.path if entry != _HERE] + [_FOLDER]

if __name__ == "__main__":
    importlib.import_module("kedge.runtime.agent.launch").launch()
