"""The plugin interface: a table of parameters, and a function that turns their values into the steps of a task.

Built-in plugins and all others use the same interface; docs/plugins.md shows how.
"""

from __future__ import annotations

import math

from kedge.contract import (
    HOOK_EVENTS,
    SSH_BARRIER,
    SSH_SERVER,
    TASK_STARTS,
    Action,
    Callback,
    SecretRef,
    Text,
    text_to_json,
)
from kedge.late_patterns import late_pattern
from kedge.light.types import Any, Iterable, Mapping, MappingProxyType, NamedTuple, Protocol
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, read

PREFIX = "com.microsoft.pai.runtimeplugin."
GIT, DOWNLOAD, TENSORBOARD = "git", "download", "tensorboard"
ACTIONS = (GIT, DOWNLOAD, TENSORBOARD, SSH_SERVER, SSH_BARRIER)  # carried out by the runtime without a shell
_SERVICE = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MAX_DEPTH = 32  # levels in the parameters of an action
_VARIABLE = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class File(NamedTuple):
    """A text file that is written before the step's first hook runs; relative paths start in the working directory.

    Only the task's user can read it. A missing newline at the end is added.
    """

    path: str
    content: Text
    executable: bool = False


class Storage(NamedTuple):
    """A storage of the site where the job runs, and its path in the tasks."""

    name: str
    mount_path: str


class Steps(NamedTuple):
    """A plugin's result for its parameters.

    `callbacks` run in order; those of one event share a shell. `files` are written first. `environment` is set for the
    plugin's own scripts, later hooks and the command, and must not contain secrets. `storages` are mounted if the
    engine supports it. `notes` are for the submitter. `inert`: the parameters are valid but have no effect yet.
    `optional`: a failure of the steps is never that of the task, whatever the use's failurePolicy. `ports` are labels
    of ports that each task of the role gets, one port each.
    """

    callbacks: tuple[Callback, ...] = ()
    files: tuple[File, ...] = ()
    environment: Mapping[str, str] = _NO_VARIABLES
    storages: tuple[Storage, ...] = ()
    notes: tuple[str, ...] = ()
    inert: bool = False
    optional: bool = False
    ports: tuple[str, ...] = ()


class Plugin(Protocol):
    """A plugin. The same parameters must always give the same steps.

    `parameters` is its table of parameters; None leaves all checks to `steps`. `steps` gets one value for each name in
    the table, converted by the table's reader.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...] | None: ...

    def steps(self, values: Mapping[str, Any]) -> Steps:
        """The steps of the task. ParameterError: values are wrong in ways that the readers cannot check."""


class PluginFailed(Exception):
    """A plugin cannot be loaded, failed, or returned steps that no task could run; the message gives the reason."""


def short_name(plugin: str) -> str:
    """The plugin's name without its prefix: `com.microsoft.pai.runtimeplugin.cmd` is `cmd`."""
    return plugin.removeprefix(PREFIX)


def lines(written: Iterable[str | Text]) -> Text:
    """The lines as one Text, each followed by a newline."""
    parts: list[str | SecretRef] = []
    for line in written:
        parts += (line, "\n") if isinstance(line, str) else (*line, "\n")
    return tuple(parts)


def action_value(text: Text) -> Any:
    """A Text as a parameter of an Action: a plain string unless it contains a secret."""
    if any(isinstance(part, SecretRef) for part in text):
        return {"text": text_to_json(text)}
    return "".join(str(part) for part in text)


def checked(steps: Steps) -> Steps:
    """The steps unchanged. PluginFailed: no task could run them."""
    for callback in _listed(steps.callbacks, Callback, "callbacks"):
        _check_callback(callback)
    for file in _listed(steps.files, File, "files"):
        _check_file(file)
    if not isinstance(steps.environment, Mapping):
        raise PluginFailed("'environment' is not a mapping")
    for name, value in steps.environment.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or not isinstance(value, str) or "\0" in value:
            raise PluginFailed(f"{name!r:.60} is not a variable name, or its value is not a string")
        _check_characters(value, f"the variable {name}")
    _listed(steps.storages, Storage, "storages")
    _listed(steps.notes, str, "notes")
    for label in _listed(steps.ports, str, "ports"):
        if not _VARIABLE.fullmatch(label):
            raise PluginFailed(f"{label!r:.60} is not a label of ports: letters, digits and '_', no digit first")
    return steps


def _listed(values: Any, kind: type[Any], name: str) -> Any:
    # Generators are refused, because they would be empty the second time.
    if not isinstance(values, tuple | list) or not all(isinstance(value, kind) for value in values):
        raise PluginFailed(f"{name!r} is not a tuple of {'strings' if kind is str else kind.__name__}")
    return values


def _check_callback(callback: Callback) -> None:
    if callback.event not in HOOK_EVENTS:
        raise PluginFailed(f"{callback.event!r:.60} is not an event; the events are {', '.join(HOOK_EVENTS)}")
    _check_text(callback.script, f"the script of {callback.event}")
    if callback.service is not None:
        _check_service(callback)
    if callback.action is None:
        return
    if not isinstance(callback.action, Action) or callback.action.kind not in ACTIONS:
        kind = getattr(callback.action, "kind", callback.action)
        raise PluginFailed(f"{kind!r:.60} is not an action; the actions are {', '.join(ACTIONS)}")
    if callback.script:
        raise PluginFailed(f"a callback of {callback.event} has both a script and an action")
    if not isinstance(callback.action.parameters, dict):
        raise PluginFailed(f"the parameters of the action {callback.action.kind} are not a mapping")
    _check_json(callback.action.parameters, f"the parameters of the action {callback.action.kind}")


def _check_service(callback: Callback) -> None:
    name = callback.service
    if not isinstance(name, str) or not _SERVICE.fullmatch(name):
        raise PluginFailed(
            f"{name!r:.80} is not the name of a service: up to 63 letters, digits, '.', '_' and '-', a letter or digit "
            "first"
        )
    if callback.event != TASK_STARTS:
        raise PluginFailed(f"the service {name} is at {callback.event}; services start at {TASK_STARTS}")
    if not callback.script and callback.action is None:
        raise PluginFailed(f"the service {name} has neither a script nor an action")


def _check_file(file: File) -> None:
    if not isinstance(file.path, str) or not file.path or "\0" in file.path or file.path.endswith("/"):
        raise PluginFailed(f"{file.path!r:.60} is not the path of a file")
    _check_characters(file.path, "the path of a file")
    _check_text(file.content, f"the file {file.path!r:.60}")


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, tuple) or not all(isinstance(part, str) or _is_secret(part) for part in text):
        raise PluginFailed(f"{what} is not a Text: a tuple of strings and secrets")
    for part in text:
        if isinstance(part, str):
            _check_characters(part, what)
            if "\0" in part:
                raise PluginFailed(f"{what} contains a NUL character")


def _is_secret(part: object) -> bool:
    return isinstance(part, SecretRef) and isinstance(part.key, str) and isinstance(part.source, str)


def _check_characters(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PluginFailed(f"U+{ord(text[error.start]):04X} in {what} is not a character") from None


def _check_json(value: object, what: str, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise PluginFailed(f"{what} are nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, str):
        _check_characters(value, what)
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for below in (*value, *value.values()):
            _check_json(below, what, depth + 1)
    elif isinstance(value, list | tuple):
        for below in value:
            _check_json(below, what, depth + 1)
    elif not (value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))):
        raise PluginFailed(f"{what} contain {value!r:.60}, which JSON cannot represent")


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
