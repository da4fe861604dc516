"""Runs the plugins of a role on their parameters, which gives the steps of its tasks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from kedge.contract import Callback, Step, Text
from kedge.errors import Problem
from kedge.plugins.base import File, ParameterError, PluginFailed, Steps, Storage, Wrong, checked, read, short_name
from kedge.quick_dataclasses import dataclass
from kedge.resolve import job_ssh, plugins
from kedge.resolve.items import Item
from kedge.resolve.plugin_uses import Use, uses
from kedge.spec.message_text import printable
from kedge.spec.model import Job, JobFileSource, Path, TaskRole

_TEAMWISE = "teamwise_storage"  # extras.storages in the same job takes its place

Render = Callable[[str, Path, JobFileSource], Text]  # renders a text at a path of a file


@dataclass(slots=True)
class Findings:
    """What the plugins report besides steps: problems, notes for the submitter, the plugins without effect, the labels
    of ports by role, and the storages that they request, each with the place of the request. `older_storages` are the
    names of those that entries of teamwise_storage in the job's extras list, by the path of the entry."""

    problems: list[Problem]
    notes: list[str] = field(default_factory=list)
    inert: list[str] = field(default_factory=list)
    ports: dict[str, list[str]] = field(default_factory=dict)
    storages: list[tuple[Storage, JobFileSource, Path]] = field(default_factory=list)
    older_storages: dict[Path, tuple[str, ...]] = field(default_factory=dict)


def steps(job: Job, role: TaskRole, items: Iterable[Item], render: Render, findings: Findings) -> tuple[Step, ...]:
    """The steps of a role, in start order: its resolved prerequisites in order, then the job's runtime plugins."""
    found = (_step(role, use, render, findings) for use in uses(job, role, items))
    made, notes = job_ssh.adapted([step for step in found if step is not None], job.gang_allocation)
    findings.notes += notes
    return made


def _step(role: TaskRole, use: Use, render: Render, findings: Findings) -> Step | None:
    result = _run_plugin(use, render, findings)
    if result is None:
        return None
    findings.notes += (f"{use.name}: {printable(note)}" for note in result.notes)
    findings.inert += [use.plugin] if result.inert else []
    if short_name(use.plugin) == _TEAMWISE and use.path[:1] == ("extras",):
        findings.older_storages[use.path] = tuple(storage.name for storage in result.storages)
    else:
        findings.storages += ((storage, use.source, use.path) for storage in result.storages)
    callbacks = (*_files_written(result.files), *result.callbacks)
    if not callbacks and not result.environment:
        return None
    findings.ports.setdefault(role.name, []).extend(result.ports)
    policy = "ignore" if result.optional else use.policy
    return Step(use.name, callbacks, policy, use.retry, use.timeout_sec, dict(result.environment))


def _run_plugin(use: Use, render: Render, findings: Findings) -> Steps | None:
    """The plugin's result for its parameters; None if there was a problem, which is then in `findings`."""
    before = len(findings.problems)
    try:
        plugin = plugins.find(use.plugin)
        written = use.parameters_for(plugin.parameters)
        values = {key: _rendered(value, use.place(key), use.source, render) for key, value in written.items()}
        if len(findings.problems) > before:
            return None
        result = checked(plugin.steps(values if plugin.parameters is None else read(plugin.parameters, values)))
        plugins.check_actions(result)
        return result
    except plugins.UnknownPlugin as error:
        message = f"Plugin {use.plugin!r} is not supported{error}"
        findings.problems.append(use.source.problem((*use.path, "plugin"), message))
    except PluginFailed as error:
        _report(use, [use.source.problem((*use.path, "plugin"), printable(str(error)))], findings)
    except ParameterError as error:
        _report(use, [_problem(use, wrong) for wrong in error.wrong], findings)
    return None


def _report(use: Use, problems: list[Problem], findings: Findings) -> None:
    """A failure of the plugin follows the failurePolicy of its use, like a failure in the task."""
    if use.policy != "ignore":
        findings.problems += problems
        return
    for problem in problems:
        what = problem._replace(excerpt="")
        findings.notes.append(f"{what}; ignored because of its failurePolicy, and nothing runs for it")


def _problem(use: Use, wrong: Wrong) -> Problem:
    # A plugin may give values of any type.
    written = wrong.path if isinstance(wrong.path, tuple | list) else ()
    steps = [step if isinstance(step, int) else str(step) for step in written]
    path = (*use.place(str(steps[0])), *steps[1:]) if steps else use.path
    return use.source.problem(path, printable(str(wrong.message)), key=bool(wrong.is_key))


def _rendered(value: Any, path: Path, source: JobFileSource, render: Render) -> Any:
    """The value with the references in all its strings rendered. A string with a secret becomes a Text."""
    if isinstance(value, Mapping):
        return {key: _rendered(below, (*path, key), source, render) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_rendered(below, (*path, index), source, render) for index, below in enumerate(value)]
    if not isinstance(value, str):
        return value
    text = render(value, path, source)
    return "".join(text) if all(isinstance(part, str) for part in text) else text  # type: ignore[arg-type]


def _files_written(files: Sequence[File]) -> tuple[Callback, ...]:
    if not files:
        return ()
    written: tuple[Callback, ...] = importlib.import_module("kedge.resolve.plugin_files").written_by(files)
    return written
