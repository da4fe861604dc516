"""The first steps of the supervisor, of one of the runtime's own actions (`--action`), or of the process that forks
supervisors (`--warm`), once modules can be imported."""

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
    elif sys.argv[1:2] == ["--warm"]:
        from kedge.runtime.warm_parent import main
    else:
        from kedge.runtime.main import main
    # Nothing is buffered, so the interpreter's slow shutdown can be skipped.
    gc.freeze()
    gc.enable()
    os._exit(main(sys.argv[1:]))
