"""The first steps of an agent, once modules can be imported. The environment stays as it was found: a supervisor that
is started with it restores what is hidden from the loader."""

from __future__ import annotations

import gc
import os
import sys

from kedge.light.types import NoReturn


def launch() -> NoReturn:
    """Run the agent and exit. The garbage collector is off before, see the callers."""
    from kedge.runtime.agent.main import main

    gc.freeze()
    gc.enable()
    os._exit(main(sys.argv[1:]))
