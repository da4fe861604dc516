"""What a plugin is: a table of parameters, and a function that turns their values into what a task does.

This is the whole interface, for the built-in plugins and for everybody else's; docs/plugins.md shows how to use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kedge.contract import HOOK_EVENTS, Action, Callback, SecretRef, Text, text_to_json
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, read

PREFIX = "com.microsoft.pai.runtimeplugin."
GIT, DOWNLOAD = "git", "download"
ACTIONS = (GIT, DOWNLOAD)  # what the runtime can do without a shell
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOTHING: Mapping[str, str] = MappingProxyType({})


class File(NamedTuple):
    """A text file that exists before the step's first hook runs; relative paths start at the working directory.

    Only the task's user may read it. A missing newline at the end is added.
    """

    path: str
    content: Text
    executable: bool = False


class Storage(NamedTuple):
    """A storage of the place where the job runs, and where tasks see it."""

    name: str
    mount_path: str


class Steps(NamedTuple):
    """What a plugin makes of its parameters.

    `callbacks` run in their order; those of one event share a shell. `files` are written first. `environment` is set
    for the plugin's own scripts, later hooks and the command; it holds no secrets. `storages` are mounted where the
    engine can. `notices` are told to whoever submits. `inert`: the parameters are right, but nothing acts on them yet.
    """

    callbacks: tuple[Callback, ...] = ()
    files: tuple[File, ...] = ()
    environment: Mapping[str, str] = _NOTHING
    storages: tuple[Storage, ...] = ()
    notices: tuple[str, ...] = ()
    inert: bool = False


class Plugin(Protocol):
    """A plugin. The same parameters always give the same steps.

    `parameters` is what it takes; None leaves all checks to `steps`. Values reach `steps` as the readers of the table
    made them, one for each name in it.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...] | None: ...

    def steps(self, values: Mapping[str, Any]) -> Steps:
        """What the task does. ParameterError says what is wrong with the values beyond their types."""
        ...


class PluginFailed(Exception):
    """A plugin cannot be loaded, broke, or returned what no task could run; the message says which and why."""


def short_name(plugin: str) -> str:
    """`com.microsoft.pai.runtimeplugin.cmd` and `cmd` are the same plugin."""
    return plugin.removeprefix(PREFIX)


def lines(written: Iterable[str | Text]) -> Text:
    """The lines as one text, a newline after each."""
    parts: list[str | SecretRef] = []
    for line in written:
        parts += (line, "\n") if isinstance(line, str) else (*line, "\n")
    return tuple(parts)


def action_value(text: Text) -> Any:
    """A text as a parameter of an Action: a plain string unless it holds a secret."""
    if any(isinstance(part, SecretRef) for part in text):
        return {"text": text_to_json(text)}
    return "".join(str(part) for part in text)


def checked(steps: Steps) -> Steps:
    """The same steps. PluginFailed says what in them no task could run."""
    for callback in steps.callbacks:
        _check_callback(callback)
    for file in steps.files:
        _check_text(file.content, f"the file {file.path!r}")
        if not file.path or "\0" in file.path or file.path.endswith("/"):
            raise PluginFailed(f"{file.path!r} is no path of a file")
    for name, value in steps.environment.items():
        if not _VARIABLE.fullmatch(name) or not isinstance(value, str) or "\0" in value:
            raise PluginFailed(f"{name!r} is no name of a variable, or its value is no string")
    if not all(isinstance(storage, Storage) for storage in steps.storages):
        raise PluginFailed("'storages' holds what is no Storage")
    if isinstance(steps.notices, str) or not all(isinstance(notice, str) for notice in steps.notices):
        raise PluginFailed("'notices' is no tuple of texts")
    return steps


def _check_callback(callback: Callback) -> None:
    if callback.event not in HOOK_EVENTS:
        raise PluginFailed(f"{callback.event!r} is no event; the events are {', '.join(HOOK_EVENTS)}")
    if callback.action and callback.action.kind not in ACTIONS:
        raise PluginFailed(f"{callback.action.kind!r} is no action; the actions are {', '.join(ACTIONS)}")
    if callback.action and callback.script:
        raise PluginFailed(f"a callback of {callback.event} has both a script and an action")
    _check_text(callback.script, f"the script of {callback.event}")


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, tuple) or not all(isinstance(part, str | SecretRef) for part in text):
        raise PluginFailed(f"{what} is no text: a tuple of strings and secrets")
    if any("\0" in part for part in text if isinstance(part, str)):
        raise PluginFailed(f"{what} holds a NUL character")


__all__ = [
    "ACTIONS",
    "Action",
    "Callback",
    "File",
    "Parameter",
    "ParameterError",
    "Plugin",
    "PluginFailed",
    "SecretRef",
    "Steps",
    "Storage",
    "Text",
    "Wrong",
    "action_value",
    "checked",
    "lines",
    "read",
    "short_name",
]
