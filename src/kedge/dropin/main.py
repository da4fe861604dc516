"""The command line of the init phase: everything that OpenPAI's init container does, in one process.

    init [--tree DIR]

DIR holds the runtime's tree; it defaults to the folder above the bundle that this program is from.
"""

from __future__ import annotations

import os
import sys

from kedge.dropin.child import STOPPING
from kedge.dropin.exit_codes import BROKE
from kedge.dropin.paths import init_paths
from kedge.dropin.phase import InitPhase, Signalled
from kedge.light import signal
from kedge.light.types import NoReturn, Sequence

_USAGE = "usage: init [--tree DIR]\n"


def main(arguments: Sequence[str]) -> int:
    """Run the init phase and return the exit code of the container."""
    match list(arguments):
        case []:
            tree = default_tree()
        case ["--tree", tree]:
            pass
        case _:
            sys.stderr.write(_USAGE)
            return BROKE
    os.umask(0o022)
    environment = dict(os.environ)
    phase = InitPhase(init_paths(environment), environment)

    def stop(number: int, frame: object) -> NoReturn:
        raise Signalled(number)

    for number in STOPPING:  # a process with the id 1 would ignore them
        signal.signal(number, stop)
    return phase.run(tree)


def default_tree() -> str | None:
    """The folder that holds the bundle of this program; None for an installed kedge, which has no tree."""
    bundle = sys.executable.rpartition("/bin/")[0]
    return os.path.dirname(bundle) if os.path.isfile(f"{bundle}/MANIFEST.json") else None
