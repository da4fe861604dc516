"""What a task shall run: the commands, and the plugins with their parameters. It comes from a runtime specification or
from the job's configuration."""

from __future__ import annotations

import os

from kedge.contract import Text, converted_role
from kedge.dropin.paths import (
    COMMAND_FILE_VARIABLE,
    COMMAND_VARIABLE,
    JOB_CONFIG,
    SPEC_FILE,
    SPEC_VARIABLE,
    InitPaths,
    mounted_file,
)
from kedge.dropin.task import documents
from kedge.dropin.task.documents import InitDocument, InvalidDocument
from kedge.dropin.task.rendering import SECRETS, TaskReferences
from kedge.light.types import Any, Iterator, Mapping, NamedTuple
from kedge.spec.message_text import quote
from kedge.spec.plugins import RUNTIME_PLUGINS, handler, short_name
from kedge.spec.reference_syntax import SPACE
from kedge.spec.suggest import did_you_mean

_SPEC_KEYS = ("commands", "runtimePlugin", "image")  # the image is for the image checker
_NOT_PARAMETERS = frozenset({"plugin", "failurePolicy", "type", "plugin_params"})
_ITEMS = ("script", "output", "data")
_MAX_DEPTH = 16


class PluginUse(NamedTuple):
    """One use of a plugin. `of_item`: `parameters` are the keys of a prerequisite, of which some only describe it."""

    plugin: str
    parameters: Mapping[str, Any]
    policy: str = "fail"
    name: str = ""
    of_item: bool = False


class TaskSource(NamedTuple):
    """All that a task shall run. `references` are for the parameters of plugins."""

    command: Text
    uses: tuple[PluginUse, ...]
    references: TaskReferences


def find(
    paths: InitPaths, environment: Mapping[str, str], role: str | None, secrets: InitDocument
) -> TaskSource | None:
    """The first of RUNTIME_CONFIG, its file, and the job's configuration with the command of the pod. None if there is
    none of them. OSError; InvalidDocument or UnknownReference for what is wrong with it."""
    file = mounted_file(f"{paths.config}/{SPEC_FILE}")
    if environment.get(SPEC_VARIABLE, "").strip():
        return of_spec(documents.parse(environment[SPEC_VARIABLE], SPEC_VARIABLE), secrets)
    if os.path.exists(file):
        return of_spec(documents.read(file), secrets)
    command = _assembled(environment)
    job = f"{paths.runtime_d}/{JOB_CONFIG}"
    if role is not None and os.path.exists(job):
        return of_job(documents.read(job), role, secrets, command)
    if command is None:
        return None
    references = TaskReferences(None, secrets)
    return TaskSource(references.text(command, SECRETS), (), references)


def of_spec(spec: InitDocument, secrets: InitDocument) -> TaskSource:
    """What a runtime specification names: `commands`, `runtimePlugin`. InvalidDocument, UnknownReference."""
    value = spec.value
    if not isinstance(value, dict):
        raise InvalidDocument(f"{spec.file} must be a mapping with {', '.join(_SPEC_KEYS)}")
    for key in value:
        if key not in _SPEC_KEYS:
            hint = did_you_mean(str(key), _SPEC_KEYS) or f"; the keys are {', '.join(_SPEC_KEYS)}"
            raise InvalidDocument(f"{spec.file}: there is no key {quote(str(key))} here{hint}")
    references = TaskReferences(None, secrets)
    commands = _strings(value.get("commands"), f"{spec.file}: commands")
    entries = _list(value.get("runtimePlugin"), f"{spec.file}: runtimePlugin")
    uses = tuple(_use(entry, f"{spec.file}: runtimePlugin[{number}]") for number, entry in enumerate(entries))
    return TaskSource(references.text(_joined(commands), SECRETS), uses, references)


def of_job(job: InitDocument, role_name: str, secrets: InitDocument, command: str | None) -> TaskSource:
    """What the job's configuration names for a role, which may be under its name in Kubernetes. `command` is the
    command that the REST server has assembled. InvalidDocument, UnknownReference."""
    name, role = role_of(job, role_name)
    items = _list(job.value.get("prerequisites"), f"{job.file}: prerequisites")
    references = TaskReferences(job, secrets, _named(role, items))
    where = f"{job.file}: extras.{RUNTIME_PLUGINS}"
    entries = _list(_mapping(job.value.get("extras")).get(RUNTIME_PLUGINS), where)
    of_extras = (
        _use(entry, f"{where}[{number}]")
        for number, entry in enumerate(entries)
        if _applies(_mapping(entry).get("taskroles"), name)
    )
    if command is not None:
        text = references.text(command, SECRETS)
    else:
        text = references.text(_joined(_commands(job, name, role)))
    return TaskSource(text, (*_of_items(job, role, items), *of_extras), references)


def role_names(job: InitDocument) -> list[str]:
    """The task roles of a job's configuration, in its order. InvalidDocument."""
    roles = _mapping(job.value).get("taskRoles")
    if not isinstance(roles, dict) or not roles:
        raise InvalidDocument(f"{job.file} is not a job's configuration: taskRoles is missing")
    return list(roles)


def _assembled(environment: Mapping[str, str]) -> str | None:
    """The command that the REST server has assembled. Large ones are in a file, because a variable has a limit."""
    if file := environment.get(COMMAND_FILE_VARIABLE):
        return documents.read_text(file)
    return environment.get(COMMAND_VARIABLE)


def role_of(job: InitDocument, wanted: str) -> tuple[str, Mapping[str, Any]]:
    """The name and the keys of a task role, which may be wanted by its name in Kubernetes. InvalidDocument."""
    names = role_names(job)
    same = [name for name in names if name == wanted] or [name for name in names if converted_role(name) == wanted]
    if len(same) != 1:
        what = f"no task role {wanted}" if not same else f"several task roles that are {wanted} in Kubernetes"
        raise InvalidDocument(f"{job.file} has {what}; its task roles are {', '.join(names)}")
    return same[0], _mapping(job.value["taskRoles"][same[0]])


def _named(role: Mapping[str, Any], items: list[Any]) -> dict[str, tuple[str | int, ...]]:
    found: dict[str, tuple[str | int, ...]] = {}
    for kind in _ITEMS:
        for number, item in enumerate(items):
            if role.get(kind) and _mapping(item).get("type") == kind and item.get("name") == role[kind]:
                found[kind] = ("prerequisites", number)
    return found


def _of_items(job: InitDocument, role: Mapping[str, Any], items: list[Any]) -> Iterator[PluginUse]:
    """The uses by the role's prerequisites, each after those that it requires."""
    done: dict[str, Any] = {}

    def visit(name: Any, depth: int) -> None:
        if isinstance(name, dict):
            name = name.get("name")
        if name in done or depth > _MAX_DEPTH:
            return
        item = _item(job, str(name), items)
        done[str(name)] = None
        for required in _list(item.get("require"), f"{job.file}: require of {name}"):
            visit(required, depth + 1)
        del done[str(name)]
        done[str(name)] = item  # after what it requires

    for name in _list(role.get("prerequisites"), f"{job.file}: prerequisites of the task role"):
        visit(name, 0)
    for item in done.values():
        if plugin := handler(item):
            inline = {key: value for key, value in item.items() if key not in _NOT_PARAMETERS}
            parameters = inline | dict(_mapping(item.get("plugin_params")))
            policy = str(item.get("failurePolicy", "fail")).lower()
            yield PluginUse(plugin, parameters, policy, str(item["name"]), of_item=True)


def _item(job: InitDocument, name: str, items: list[Any]) -> Mapping[str, Any]:
    """The prerequisite with a name. Several types may use the same name: one that a plugin handles comes first."""
    same = [item for item in items if _mapping(item).get("name") == name]
    handled = [item for item in same if handler(item)]
    if not same:
        raise InvalidDocument(f"{job.file}: Prerequisite {name} does not exist.")
    if len(handled) > 1:
        raise InvalidDocument(f"{job.file}: several prerequisites with a plugin are named {name}; rename one of them")
    found: Mapping[str, Any] = (handled or same)[0]
    return found


def _use(entry: Any, where: str) -> PluginUse:
    plugin = _mapping(entry).get("plugin")
    if not isinstance(plugin, str) or not plugin:
        raise InvalidDocument(f"{where} has no plugin")
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InvalidDocument(f"{where}: the parameters of {plugin} are not a mapping")
    name = short_name(plugin)
    return PluginUse(name, parameters, str(entry.get("failurePolicy") or "fail").lower(), name)


def _applies(roles: Any, name: str) -> bool:
    return roles is None or (isinstance(roles, list) and any(each in (name, converted_role(name)) for each in roles))


def _commands(job: InitDocument, name: str, role: Mapping[str, Any]) -> list[str]:
    """The commands of a role, between those of the active deployment."""
    active = _mapping(job.value.get("defaults")).get("deployment")
    deployments = _list(job.value.get("deployments"), f"{job.file}: deployments")
    chosen = next((each for each in deployments if active and _mapping(each).get("name") == active), None)
    around = _mapping(_mapping(_mapping(chosen).get("taskRoles")).get(name))
    lists = (around.get("preCommands"), role.get("commands"), around.get("postCommands"))
    return [command for each in lists for command in _strings(each, f"{job.file}: commands of {name}")]


def _joined(commands: list[str]) -> str:
    return "\n".join(text for command in commands if (text := command.strip(SPACE)))


def _strings(value: Any, where: str) -> list[str]:
    found = _list(value, where)
    if not all(isinstance(each, str) for each in found):
        raise InvalidDocument(f"{where} must be a list of texts")
    return found


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) and value is not None:
        raise InvalidDocument(f"{where} must be a list")
    return value or []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
