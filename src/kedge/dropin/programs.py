"""The built-in init programs by their names, and running one as a process of its own."""

from __future__ import annotations

import os
import sys

from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import init_paths
from kedge.dropin.program import FAILED, InitContext
from kedge.lazy_modules import INIT_PROGRAMS, load_place
from kedge.light.types import Sequence


def run(name: str, arguments: Sequence[str], context: InitContext) -> int:
    """The exit code of a built-in program. KeyError if there is none with this name."""
    code: int = load_place(INIT_PROGRAMS[name])(arguments, context)
    return code


def run_safely(name: str, arguments: Sequence[str], context: InitContext) -> int:
    """Like `run`; a defect of the program is logged and makes it fail."""
    try:
        return run(name, arguments, context)
    except Exception:  # logged
        import traceback

        context.log.error(f"{name} has a defect\n{traceback.format_exc().rstrip()}")
        return FAILED


def main(name: str) -> int:
    """Run a program with this process's arguments and environment; its files in init.d call this."""
    environment = dict(os.environ)
    return run_safely(name, sys.argv[1:], InitContext(init_paths(environment), environment, InitLog()))
