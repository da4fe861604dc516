"""The first steps of the supervisor, or of one of the runtime's own actions (with `--action`), once modules can be
imported."""

from __future__ import annotations

import gc
import os
import sys

from kedge.light.types import NoReturn


def launch() -> NoReturn:
    """Run what the command line asks for, and exit. The garbage collector is off before, see the callers."""
    from kedge.runtime.setup import environment

    environment.restore(os.environ)
    if sys.argv[1:2] == ["--action"]:
        from kedge.runtime.actions.program import main
    else:
        from kedge.runtime.main import main
    # Nothing is buffered, so the interpreter's slow shutdown can be skipped.
    gc.freeze()
    gc.enable()
    os._exit(main(sys.argv[1:]))
