"""What a plugin is: a table of parameters, and a function that turns their values into what a task does.

This is the whole interface, for the built-in plugins and for everybody else's; docs/plugins.md shows how to use it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kedge.contract import HOOK_EVENTS, Action, Callback, SecretRef, Text, text_to_json
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, read

PREFIX = "com.microsoft.pai.runtimeplugin."
GIT, DOWNLOAD = "git", "download"
ACTIONS = (GIT, DOWNLOAD)  # what the runtime can do without a shell
_DEEPEST = 32  # levels in the parameters of an action
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
    engine can. `notes` are for the submitter. `inert`: the parameters are right, but nothing acts on them yet.
    """

    callbacks: tuple[Callback, ...] = ()
    files: tuple[File, ...] = ()
    environment: Mapping[str, str] = _NOTHING
    storages: tuple[Storage, ...] = ()
    notes: tuple[str, ...] = ()
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
    for callback in _listed(steps.callbacks, Callback, "callbacks"):
        _check_callback(callback)
    for file in _listed(steps.files, File, "files"):
        _check_file(file)
    if not isinstance(steps.environment, Mapping):
        raise PluginFailed("'environment' is no mapping")
    for name, value in steps.environment.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or not isinstance(value, str) or "\0" in value:
            raise PluginFailed(f"{name!r:.60} is no name of a variable, or its value is no string")
        _check_characters(value, f"the variable {name}")
    _listed(steps.storages, Storage, "storages")
    _listed(steps.notes, str, "notes")
    return steps


def _listed(values: Any, kind: type[Any], name: str) -> Any:
    # A generator would be empty the second time.
    if not isinstance(values, tuple | list) or not all(isinstance(value, kind) for value in values):
        raise PluginFailed(f"{name!r} is no tuple of {'texts' if kind is str else kind.__name__}")
    return values


def _check_callback(callback: Callback) -> None:
    if callback.event not in HOOK_EVENTS:
        raise PluginFailed(f"{callback.event!r:.60} is no event; the events are {', '.join(HOOK_EVENTS)}")
    _check_text(callback.script, f"the script of {callback.event}")
    if callback.action is None:
        return
    if not isinstance(callback.action, Action) or callback.action.kind not in ACTIONS:
        kind = getattr(callback.action, "kind", callback.action)
        raise PluginFailed(f"{kind!r:.60} is no action; the actions are {', '.join(ACTIONS)}")
    if callback.script:
        raise PluginFailed(f"a callback of {callback.event} has both a script and an action")
    if not isinstance(callback.action.parameters, dict):
        raise PluginFailed(f"the parameters of the action {callback.action.kind} are no mapping")
    _check_json(callback.action.parameters, f"the parameters of the action {callback.action.kind}")


def _check_file(file: File) -> None:
    if not isinstance(file.path, str) or not file.path or "\0" in file.path or file.path.endswith("/"):
        raise PluginFailed(f"{file.path!r:.60} is no path of a file")
    _check_characters(file.path, "the path of a file")
    _check_text(file.content, f"the file {file.path!r:.60}")


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, tuple) or not all(isinstance(part, str) or _is_secret(part) for part in text):
        raise PluginFailed(f"{what} is no text: a tuple of strings and secrets")
    for part in text:
        if isinstance(part, str):
            _check_characters(part, what)
            if "\0" in part:
                raise PluginFailed(f"{what} holds a NUL character")


def _is_secret(part: object) -> bool:
    return isinstance(part, SecretRef) and isinstance(part.key, str) and isinstance(part.source, str)


def _check_characters(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PluginFailed(f"{what} holds U+{ord(text[error.start]):04X}, which is no character") from None


def _check_json(value: object, what: str, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise PluginFailed(f"{what} are nested more than {_DEEPEST} deep")
    if isinstance(value, str):
        _check_characters(value, what)
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for below in (*value, *value.values()):
            _check_json(below, what, depth + 1)
    elif isinstance(value, list | tuple):
        for below in value:
            _check_json(below, what, depth + 1)
    elif not (value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))):
        raise PluginFailed(f"{what} hold {value!r:.60}, which JSON does not have")


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
