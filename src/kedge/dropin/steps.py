"""The steps of an init phase: what runs, in which order."""

from __future__ import annotations

import os

from kedge.dropin import exit_codes, program_files
from kedge.dropin.exit_codes import ErrorMapping
from kedge.dropin.paths import PORT_LIST
from kedge.light.types import Iterator, Mapping, NamedTuple, Sequence

FRAMEWORK_FILE = "framework.json"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,@% \t")
_PYTHONS = ("python", "python3")


class InitPlugin(NamedTuple):
    """A row of a specification. `command` is for a shell; `args` are further words, passed on as they are."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    errors: tuple[ErrorMapping, ...] = ()


class InitStep(NamedTuple):
    """One step. `program` is the built-in program that runs in this process with `words` as its arguments; without one,
    `words` are a command. `label` is the step's name in the log, and decides what its exit codes mean."""

    label: str
    words: tuple[str, ...]
    program: str | None = None
    errors: tuple[ErrorMapping, ...] = ()


def built_in(environment: Mapping[str, str], init_d: str, *, of_framework: bool) -> list[InitStep]:
    """The steps without a specification. Without a framework only those that need none."""
    if not of_framework:
        return [_built_in("command_render.py", (), init_d)]
    first = "frameworkRetriever" if environment.get("GANG_ALLOCATION") == "false" else "frameworkBarrier"
    files = {
        first: (FRAMEWORK_FILE,),
        "envGenerator.py": (FRAMEWORK_FILE,),
        "frameworkParser.py": (FRAMEWORK_FILE,),
        "portChecker.py": (PORT_LIST,),
        "imageChecker.py": (),
        "command_render.py": (),
    }
    return [_built_in(file, words, init_d) for file, words in files.items()]


def _built_in(file: str, words: tuple[str, ...], init_d: str) -> InitStep:
    """A program of kedge, or the one that a site has put in its place."""
    name = program_files.FILES[file]
    if program_files.program_in(file, init_d) or not os.path.exists(f"{init_d}/{file}"):
        return InitStep(exit_codes.STEPS[name], words, name)
    return InitStep(exit_codes.STEPS[name], (f"{init_d}/{file}", *words))


def specified(plugins: Sequence[InitPlugin], init_d: str) -> list[InitStep]:
    """The steps of a specification."""
    return [_specified(plugin, init_d) for plugin in plugins]


def _specified(plugin: InitPlugin, init_d: str) -> InitStep:
    words = plugin.command.split() if _PLAIN.issuperset(plugin.command) else []
    words = words[1:] if words[:1] and words[0] in _PYTHONS else words
    file = words[0].removeprefix(f"{init_d}/").removeprefix("./") if words else ""
    label = exit_codes.STEPS.get(program_files.FILES.get(file, plugin.name), plugin.name)
    if program := program_files.program_in(file, init_d):
        return InitStep(label, (*words[1:], *plugin.args), program, plugin.errors)
    return InitStep(label, _shell_command(plugin), None, plugin.errors)


def _shell_command(plugin: InitPlugin) -> tuple[str, ...]:
    if not plugin.args:
        return ("sh", "-c", plugin.command)
    return ("sh", "-c", f'{plugin.command} "$@"', "sh", *plugin.args)


def task_spec_step() -> InitStep:
    """Writes the TaskSpec, after a specification whose programs have left that to the runtime."""
    return InitStep(exit_codes.COMMAND, (), "userCommandRender")


def of_site(init_d: str) -> Iterator[InitStep]:
    """The programs that a site's image has added to init.d: executable files, in the order of their names. Files of
    kedge, hidden files and folders do not count."""
    for name in sorted(os.listdir(init_d)):
        path = f"{init_d}/{name}"
        if not name.startswith(".") and name not in program_files.FILES and _is_program(path):
            yield InitStep(name, (path,))


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
