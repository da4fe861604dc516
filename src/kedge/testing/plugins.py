"""Checks that a plugin keeps the contract of plugins, for the tests of plugin authors."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from kedge.contract import SecretRef, Text
from kedge.plugins.base import Parameter, ParameterError, Plugin, PluginFailed, Steps, checked
from kedge.plugins.parameters import read

_SECRET = SecretRef("a-secret", "<% $secrets.a-secret %>")


def conforms(plugin: Plugin, *examples: Mapping[str, Any]) -> list[Steps]:
    """Check a plugin and return its steps for each of `examples`, which are parameters as written in a job file.

    AssertionError if the plugin breaks the contract: its table is inconsistent, it returns different steps for the same
    parameters, changes them, returns steps that cannot run or be written as JSON, or reads a secret.
    """
    _check_table(plugin.parameters)
    results = []
    for example in examples:
        results.append(_steps_twice(plugin, example))
        _check_secrets(plugin, example)
    return results


def steps_of(plugin: Plugin, written: Mapping[str, Any]) -> Steps:
    """The steps of a plugin for parameters as written in a job file, checked as for a job. ParameterError,
    PluginFailed."""
    return checked(plugin.steps(dict(written) if plugin.parameters is None else read(plugin.parameters, written)))


def _check_table(table: tuple[Parameter, ...] | None) -> None:
    names = [parameter.name for parameter in table or ()]
    assert len(set(names)) == len(names), f"the table names a parameter twice: {names}"
    for parameter in table or ():
        assert all((parameter.name, parameter.description)), f"{parameter} has no name or no description"
        assert not (parameter.required and parameter.default is not None), f"{parameter.name} is required: no default"


def _steps_twice(plugin: Plugin, example: Mapping[str, Any]) -> Steps:
    """The steps for an example, after checking that a second call returns the same ones."""
    before = copy.deepcopy(example)
    try:
        first, second = steps_of(plugin, example), steps_of(plugin, example)
    except PluginFailed as error:
        raise AssertionError(f"{example} gives steps that cannot run: {error}") from error
    assert first == second, f"{example} gives different steps the second time"
    assert example == before, f"{example} was changed"
    for callback in first.callbacks:
        json.dumps(callback.action)
    return first


def _check_secrets(plugin: Plugin, example: Mapping[str, Any]) -> None:
    """Replace each string in turn by a secret: the plugin must reject it or pass it on unread."""
    for name, changed in _with_secrets(dict(example)):
        try:
            steps = steps_of(plugin, changed)
        except ParameterError:
            continue
        where = f"the secret in {name!r} was turned into text"
        assert "SecretRef(" not in "".join(_plain(steps)), where


def _with_secrets(example: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in example.items():
        if isinstance(value, str):
            yield name, {**example, name: ("before", _SECRET)}
        elif isinstance(value, list) and value and isinstance(value[0], str):
            yield name, {**example, name: [("before", _SECRET), *value[1:]]}


def _plain(steps: Steps) -> Iterator[str]:
    """All plain text in the steps."""
    texts: list[Text] = [callback.script for callback in steps.callbacks]
    for file in steps.files:
        texts.append(file.content)
        yield file.path
    for text in texts:
        yield from (part for part in text if isinstance(part, str))
    yield from (f"{name}={value}" for name, value in steps.environment.items())
    yield from (json.dumps(callback.action.parameters) for callback in steps.callbacks if callback.action)
    yield from steps.notes
