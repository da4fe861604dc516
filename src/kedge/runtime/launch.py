"""The first steps of the supervisor, of one of the runtime's own actions (`--action`), of a program that joins a task
(`--join`), of the process that forks supervisors (`--warm`), or of the commands `ssh` and `scp` (`--ssh`), once modules
can be imported."""

from __future__ import annotations

import gc
import os
import sys

from kedge.light.types import NoReturn, Sequence


def launch() -> NoReturn:
    """Run what the command line asks for, and exit. The garbage collector is off before, see the callers."""
    from kedge.runtime.setup import environment

    environment.restore(os.environ)
    if sys.argv[1:2] == ["--action"]:
        from kedge.runtime.actions.program import main
    elif sys.argv[1:2] == ["--join"]:
        from kedge.runtime.join import main
    elif sys.argv[1:2] == ["--warm"]:
        from kedge.runtime.warm_parent import main
    elif sys.argv[1:2] == ["--ssh"]:
        main = _ssh
    else:
        from kedge.runtime.main import main
    # Nothing is buffered, so the interpreter's slow shutdown can be skipped.
    gc.freeze()
    gc.enable()
    os._exit(main(sys.argv[1:]))


def _ssh(argv: Sequence[str]) -> int:
    """Run one of the commands of SSH_COMMANDS: `--ssh SITE NAME [arguments]`. SITE is the folder of installed packages,
    empty in a bundle."""
    from kedge.lazy_modules import SSH_COMMANDS, load_place

    site, name, *rest = argv[1:]
    if site:
        sys.path.append(site)
    try:
        main = load_place(SSH_COMMANDS[name])
    except ModuleNotFoundError as error:
        os.write(2, f"{name}: kedge's own {name} needs the package {error.name}, which is not installed\n".encode())
        return 255
    try:
        return int(main(rest))
    except Exception as error:  # shown
        from kedge.runtime import bugs

        os.write(2, f"{name}: {bugs.sentence(error)}\n".encode(errors="backslashreplace"))
        return 255
