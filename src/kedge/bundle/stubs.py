"""Starting a bundle's interpreter through the bundle's own loader, by a command or by a shell script.

The scripts need only a POSIX shell, and find the bundle by their own path. They hide from the loader the variables that
the image sets for its own; the runtime restores them (kedge.runtime.setup.environment).
"""

from __future__ import annotations

from kedge.contract import LOADER_VARIABLES, SHELVED

INIT_FILE = "site/kedge/init.pyc"
TASK_SPEC = (
    "${PAI_RUNTIME_DIR:-$here/runtime.d}/kedge-task.json"  # what the init phase has written; $here holds the bundle
)
# See kedge.packed_runtime. Imports find the folders `runtime` and `controller` first.
START_FILE = "site/kedge/runtime.pyc"
AGENT_FILE = "site/kedge/agent.pyc"
PREPARE_FILE = "site/kedge/prepare.pyc"
SERVE_FILE = "site/kedge/serve.pyc"
CONTROLLER_FILE = "site/kedge/controller.pyc"
DRIVER_ARGUMENT = "--driver"  # of the controller, in a pod of its own
# Use nothing of the image's Python and no site module; use UTF-8, whatever the image's locale is.
FLAGS = ("-I", "-S", "-X", "utf8")
# The supervisor's own line about these two names only the call that fails.
_CHECK_POD = """\
    if [ ! -f "$1" ]; then
        echo "kedge runtime: the init phase has written no $1: see the init container's log for a failed step;" \\
            "or no command is set (FC_FRAMEWORK_NAME, RUNTIME_CONFIG or runtime_plugin.yaml)" >&2
    elif [ ! -w "${1%/*}" ]; then
        echo "kedge runtime: this user cannot write to ${1%/*}: mount the volume writable, and let the" \\
            "init container and the user's container run as the same user (runAsUser of the pod)" >&2
    fi
"""
_FIND = """\
#!/bin/sh
# Starts {what} with the interpreter and the libraries beside this file.
case $0 in */*) here=${{0%/*}} ;; *) here=. ;; esac
"""


def command(root: str, interpreter: str, loader: str) -> tuple[str, ...]:
    """The first part of the command that starts the interpreter of a bundle at `root`, without a shell."""
    enter = (f"{root}/lib/{loader}", "--inhibit-cache", "--library-path", f"{root}/lib")
    return (*enter, "--argv0", f"{root}/bin/python3", f"{root}/bin/{interpreter}", *FLAGS)


def python(interpreter: str, loader: str) -> bytes:
    """The script bin/python3, which starts the interpreter."""
    text = _FIND.format(what="Python") + _shelve() + _enter("$here/..", loader, '"$0"', f'"$here/{interpreter}"')
    return text.encode()


def runtime(interpreter: str, loader: str) -> bytes:
    """The script `runtime`, which starts the supervisor. It also works beside the bundle's folder, if that is called
    `kedge`; without arguments it then runs the TaskSpec that the init phase has written."""
    text = _FIND.format(what="the supervisor of a task")
    text += f'if [ $# -eq 0 ] && [ -d "$here/kedge" ]; then\n    set -- "{TASK_SPEC}"\n{_CHECK_POD}fi\n'
    return (text + _start(interpreter, loader, START_FILE)).encode()


def program(what: str, file: str, interpreter: str, loader: str, *arguments: str) -> bytes:
    """A script that starts a file of the bundle with these arguments before its own. It also works beside the bundle's
    folder. `what` describes it."""
    return (_FIND.format(what=what) + _start(interpreter, loader, file, *arguments)).encode()


def _start(interpreter: str, loader: str, file: str, *arguments: str) -> str:
    """Start a file of the bundle, which is this script's folder or `kedge` in there."""
    find = f'[ -f "$here/lib/{loader}" ] || here=$here/kedge\n'
    program = f'"$here/bin/{interpreter}"'
    words = (program, *FLAGS, f'"$here/{file}"', *arguments)
    return find + _shelve() + _enter("$here", loader, '"$here/bin/python3"', *words)


def _shelve() -> str:
    lines = (
        f'[ -z "${{{name}+x}}" ] || {{ {SHELVED}{name}=${name}; export {SHELVED}{name}; unset {name}; }}\n'
        for name in LOADER_VARIABLES
    )
    return "".join(lines)


def _enter(root: str, loader: str, name: str, *program: str) -> str:
    words = [f'exec "{root}/lib/{loader}" --inhibit-cache --library-path "{root}/lib" --argv0 {name}', *program, '"$@"']
    return " ".join(words) + "\n"
