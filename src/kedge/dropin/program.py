"""What an init program is: a function `run(arguments, context) -> exit code` in a module of its own. It raises nothing
for failures that can be expected; it logs the reason and returns the code that the container's exit code is made from.
"""

from __future__ import annotations

from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import InitPaths
from kedge.light.types import NamedTuple

SUCCEEDED = 0
FAILED = 1


class InitContext(NamedTuple):
    """What a program gets besides its arguments. Relative paths in arguments are relative to the current folder, which
    is the work folder in the built-in list, and init.d in a specification."""

    paths: InitPaths
    environment: dict[str, str]
    log: InitLog
