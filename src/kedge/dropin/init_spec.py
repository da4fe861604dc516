"""Reads a specification of the init phase: `INIT_CONFIG`, or `init_plugins.yaml` in the configuration's folder.

initPlugins:
- name: frameworkBarrier
  command: frameworkBarrier framework.json
  args: [more, arguments]
  errors:
  - {name: JobGangAllocationTimeout, originErrorCode: 201, mappedErrorCode: 251}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kedge.dropin.exit_codes import ErrorMapping
from kedge.dropin.steps import InitPlugin
from kedge.errors import InputError, Problem, in_order
from kedge.spec import yaml
from kedge.spec.message_text import quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.suggest import did_you_mean

_TOP = "initPlugins"
_PLUGIN_KEYS = ("name", "command", "args", "errors")
_ERROR_KEYS = ("name", "originErrorCode", "mappedErrorCode")


class InitSpec:
    """The plugins of a specification, and warnings about it."""

    def __init__(self, plugins: tuple[InitPlugin, ...], warnings: tuple[Problem, ...]) -> None:
        self.plugins, self.warnings = plugins, warnings


def read(text: str, file: str) -> InitSpec:
    """The specification in `text`. InputError names every mistake, with its position in `file`."""
    document = yaml.read_any(text, file)
    source, value = document.source, document.value
    problems = [*document.problems, *_top_problems(source, value)]
    plugins = value.get(_TOP) if isinstance(value, dict) else None
    rows = plugins if isinstance(plugins, list) else []
    for number, row in enumerate(rows):
        problems += _plugin_problems(source, (_TOP, number), row)
    if problems:
        raise InputError(*in_order(problems))
    return InitSpec(tuple(map(_plugin, rows)), tuple(_repeated(source, rows)))


def _top_problems(source: JobFileSource, value: Any) -> Iterator[Problem]:
    example = f"start with '{_TOP}:' and a list of plugins, each with 'name' and 'command'"
    if not isinstance(value, dict):
        yield source.problem((), f"this is not a specification of the init phase; {example}")
        return
    yield from _unknown(source, (), value, (_TOP,))
    if _TOP not in value and not any(did_you_mean(str(key), (_TOP,)) for key in value):
        yield source.problem((), f"{quote(_TOP)} is missing; {example}")
    elif not isinstance(value.get(_TOP, []), list):
        yield source.problem((_TOP,), "this must be a list of plugins, each with 'name' and 'command'")


def _plugin_problems(source: JobFileSource, path: Path, row: Any) -> Iterator[Problem]:
    if not isinstance(row, dict):
        yield source.problem(path, "a plugin must be a mapping with 'name' and 'command'")
        return
    yield from _unknown(source, path, row, _PLUGIN_KEYS)
    for key in ("name", "command"):
        if key not in row:
            yield source.problem(path, f"this plugin has no {quote(key)}")
        elif not isinstance(row[key], str) or not row[key].strip():
            yield source.problem((*path, key), "this must be a text")
    yield from _args_problems(source, (*path, "args"), row.get("args", []))
    errors = row.get("errors", [])
    if not isinstance(errors, list):
        yield source.problem((*path, "errors"), "this must be a list of mappings of exit codes")
        return
    for number, each in enumerate(errors):
        yield from _error_problems(source, (*path, "errors", number), each)


def _args_problems(source: JobFileSource, path: Path, args: Any) -> Iterator[Problem]:
    if not isinstance(args, list):
        yield source.problem(path, "this must be a list of texts")
        return
    for number, word in enumerate(args):
        if not _is_word(word):
            yield source.problem((*path, number), "an argument must be a text or a number")


def _error_problems(source: JobFileSource, path: Path, row: Any) -> Iterator[Problem]:
    if not isinstance(row, dict):
        yield source.problem(path, "this must be a mapping with 'originErrorCode' and 'mappedErrorCode'")
        return
    yield from _unknown(source, path, row, _ERROR_KEYS)
    for key in _ERROR_KEYS[1:]:
        if key not in row:
            yield source.problem(path, f"this mapping has no {quote(key)}")
        elif type(row[key]) is not int or not 1 <= row[key] <= 255:
            yield source.problem((*path, key), "an exit code must be a whole number from 1 to 255")


def _unknown(source: JobFileSource, path: Path, row: dict[Any, Any], known: tuple[str, ...]) -> Iterator[Problem]:
    for key in row:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"; the keys are {', '.join(map(quote, known))}"
            yield source.problem((*path, key), f"there is no key {quote(str(key))} here{hint}", key=True)


def _repeated(source: JobFileSource, rows: list[Any]) -> Iterator[Problem]:
    names = [row["name"] for row in rows]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield source.warning(
                (_TOP, number, "name"), f"plugin {names.index(name) + 1} has the name {quote(name)}, too; both run"
            )


def _is_word(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _plugin(row: dict[str, Any]) -> InitPlugin:
    errors = (
        ErrorMapping(str(each.get("name", "")), each["originErrorCode"], each["mappedErrorCode"])
        for each in row.get("errors", [])
    )
    return InitPlugin(row["name"], row["command"], tuple(map(str, row.get("args", []))), tuple(errors))
