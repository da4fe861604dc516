"""How a bundle's interpreter is started: through the bundle's own loader, by a command or by a shell script.

The scripts need a POSIX shell and nothing else, find the bundle by their own path, and keep from the loader what the
image has set for its own: it comes back under its name when the runtime is up (kedge.runtime.setup.environment).
"""

from __future__ import annotations

from kedge.contract import LOADER_VARIABLES, SHELVED

# Nothing of the image's Python, no site; and UTF-8, whatever the image's locale is.
FLAGS = ("-I", "-S", "-X", "utf8")
_FIND = """\
#!/bin/sh
# Starts {what} with the interpreter and the libraries that lie beside this file.
case $0 in */*) here=${{0%/*}} ;; *) here=. ;; esac
"""


def command(root: str, interpreter: str, loader: str) -> tuple[str, ...]:
    """The beginning of the command that starts the interpreter of a bundle at `root`, without a shell."""
    enter = (f"{root}/lib/{loader}", "--inhibit-cache", "--library-path", f"{root}/lib")
    return (*enter, "--argv0", f"{root}/bin/python3", f"{root}/bin/{interpreter}", *FLAGS)


def python(interpreter: str, loader: str) -> bytes:
    """bin/python3: the interpreter as a program of its own."""
    text = _FIND.format(what="Python") + _shelve() + _enter("$here/..", loader, '"$0"', f'"$here/{interpreter}"')
    return text.encode()


def runtime(interpreter: str, loader: str) -> bytes:
    """runtime: the supervisor. It may also stand beside the bundle's folder, if that is called `kedge`."""
    text = _FIND.format(what="the supervisor of a task")
    text += f'[ -f "$here/lib/{loader}" ] || here=$here/kedge\n'
    program = f'"$here/bin/{interpreter}"'
    text += _shelve() + _enter("$here", loader, '"$here/bin/python3"', program, *FLAGS, '"$here/site/kedge/runtime"')
    return text.encode()


def _shelve() -> str:
    lines = (
        f'[ -z "${{{name}+x}}" ] || {{ {SHELVED}{name}=${name}; export {SHELVED}{name}; unset {name}; }}\n'
        for name in LOADER_VARIABLES
    )
    return "".join(lines)


def _enter(root: str, loader: str, name: str, *program: str) -> str:
    words = [f'exec "{root}/lib/{loader}" --inhibit-cache --library-path "{root}/lib" --argv0 {name}', *program, '"$@"']
    return " ".join(words) + "\n"
