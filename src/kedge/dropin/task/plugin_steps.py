"""Turns the uses of plugins into the steps of a task. A plugin that breaks is that plugin's failure: its failurePolicy
decides whether the task starts."""

from __future__ import annotations

import importlib

from kedge.contract import Callback, Step
from kedge.dropin.program import InitContext
from kedge.dropin.task import folder_plugins, ssh_access
from kedge.dropin.task.folder_plugins import FailedPlugin
from kedge.dropin.task.rendering import TaskReferences, UnknownReference
from kedge.dropin.task.secret_values import JobSecrets
from kedge.dropin.task.task_source import PluginUse
from kedge.lazy_modules import PLUGINS, load_place
from kedge.light.types import Any, Mapping, Sequence
from kedge.spec.suggest import did_you_mean

_OLD_STORAGE = "teamwise_storage"
_HOOKS = frozenset({"callbacks", "preCommands", "postCommands"})


class BrokenPlugin(Exception):
    """A plugin failed whose failurePolicy is `fail`. The reason is in the log."""


def steps(
    uses: Sequence[PluginUse], references: TaskReferences, secrets: JobSecrets, context: InitContext
) -> tuple[Step, ...]:
    """One step for each use, in their order; one without callbacks if there is nothing to do, so that the numbers in
    the names of scripts are those of OpenPAI. BrokenPlugin."""
    return tuple(_step(number, use, references, secrets, context) for number, use in enumerate(uses))


def _step(number: int, use: PluginUse, references: TaskReferences, secrets: JobSecrets, context: InitContext) -> Step:
    context.log.info(f"Starting to prepare plugin {use.plugin}")
    try:
        return _prepared(number, use, references, secrets, context)
    except (FailedPlugin, UnknownReference) as error:
        reason = str(error)
    except Exception as error:  # whatever is wrong with a plugin, or with what it imports
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    if use.policy != "ignore":
        context.log.error(f"the plugin {use.plugin} fails: {reason}")
        raise BrokenPlugin(reason)
    context.log.warning(f"the plugin {use.plugin} fails: {reason}; ignored because of its failurePolicy")
    return Step(use.name or use.plugin, (), use.policy)


def _prepared(
    number: int, use: PluginUse, references: TaskReferences, secrets: JobSecrets, context: InitContext
) -> Step:
    name = use.name or use.plugin
    if folder := folder_plugins.find(use.plugin, context.paths.work):
        parameters = references.value(dict(use.parameters))
        return Step(name, folder_plugins.run(folder, use, number, parameters, secrets, context), use.policy)
    if use.plugin == ssh_access.PLUGIN:
        use = ssh_access.with_access(use, secrets, context)
    if use.plugin not in PLUGINS:
        raise FailedPlugin(
            f"Plugin {use.plugin!r} is not supported: it is not built in, and {context.paths.work}/plugins has no such "
            f"folder{did_you_mean(use.plugin, PLUGINS)}"
        )
    return _built_in(name, use, references, context)


def _built_in(name: str, use: PluginUse, references: TaskReferences, context: InitContext) -> Step:
    from kedge.plugins.base import ParameterError, PluginFailed, checked, read

    plugin = load_place(PLUGINS[use.plugin])()
    written = references.value(dict(_for_plugin(use, {parameter.name for parameter in plugin.parameters})))
    try:
        result = checked(plugin.steps(read(plugin.parameters, written)))
    except ParameterError as error:
        first = error.wrong[0]
        where = ".".join(map(str, first.path))
        raise FailedPlugin(f"{where}: {first.message}" if where else first.message) from None
    except PluginFailed as error:
        raise FailedPlugin(str(error)) from None
    for note in result.notes:
        context.log.info(f"{use.plugin}: {note}")
    if use.plugin == _OLD_STORAGE:
        context.log.info("This plugin is deprecated, will ignore this plugin")
    elif result.inert:
        context.log.warning(f"the plugin {use.plugin} has no effect in this version")
    written_first: tuple[Callback, ...] = ()
    if result.files:
        written_first = importlib.import_module("kedge.resolve.plugin_files").written_by(result.files)
    return Step(name, (*written_first, *result.callbacks), use.policy, environment=dict(result.environment))


def _for_plugin(use: PluginUse, known: set[str]) -> Mapping[str, Any]:
    """The parameters that the plugin shall check. Other keys of a prerequisite describe it, or are for references."""
    if not use.of_item:
        return use.parameters
    return {key: value for key, value in use.parameters.items() if key in known or key in _HOOKS}
