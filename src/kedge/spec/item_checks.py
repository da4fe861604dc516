"""Checks of a single prerequisite that the schema cannot express, wherever it is defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.errors import Problem
from kedge.spec.marks import node_at
from kedge.spec.message_text import bare, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.references import OPEN, TagError, locate, split
from kedge.spec.schema import schema
from kedge.spec.suggest import did_you_mean, sentence
from kedge.spec.templates import CHOICE, describe, variables
from kedge.spec.tolerant import entries, mapping, strings
from kedge.spec.yaml_escapes import LATER

# Keys that describe the prerequisite itself; inside `plugin_params` they are parameters of the plugin.
_ITEM_KEYS = frozenset({"name", "type", "plugin", "protocolVersion", "version", "contributor", "description"})


def check_item(item: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """All problems of the prerequisite at `path` other than schema violations."""
    inner = mapping(item.get("plugin_params"))
    for value, where in ((item, path), (inner, (*path, "plugin_params"))):
        yield from callbacks(value, where, source)
        yield from _events(value, where, f"prerequisite {bare(str(item.get('name')))}", source)
    yield from _plugin_params(item, path, source)
    rendered = {key: value for key, value in item.items() if key not in ("name", "contributor", "description")}
    for where, text in strings(rendered, path):
        yield from broken_tags(text, where, source)
    yield from _variables(item, path, source)


def callbacks(value: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """`callbacks` excludes `preCommands` and `postCommands`, which are a short form of it."""
    short_forms = [key for key in ("preCommands", "postCommands") if key in value]
    if "callbacks" in value and short_forms:
        message = f"{quote(short_forms[0])} cannot be combined with 'callbacks'; move it into the callbacks"
        yield source.problem((*path, short_forms[0]), message, key=True)


def broken_tags(text: str, path: Path, source: JobFileSource) -> Iterator[Problem]:
    """Every `<%` in a string that is rendered later must belong to a complete tag."""
    if OPEN not in text:
        return
    try:
        split(text)
    except TagError as error:
        nth = text.count(OPEN, 0, error.offset)
        yield source.problem(path, error.message, mark=locate(source, path, OPEN, nth))


def _events(value: Mapping[str, Any], path: Path, whose: str, source: JobFileSource) -> Iterator[Problem]:
    known = schema()["$defs"]["callbacks"]["items"]["properties"]["event"]["enum"]
    for index, entry in entries(value.get("callbacks")):
        event = entry.get("event")
        if isinstance(event, str) and event not in known and not LATER.search(event):
            message = f"Event {bare(event)} of {whose} is not supported.{sentence(did_you_mean(event, known))}"
            yield source.problem((*path, "callbacks", index, "event"), message)


def _plugin_params(item: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """A parameter may be inline, in `plugin_params`, or both; the values must then be equal."""
    for key, value in mapping(item.get("plugin_params")).items():
        if key in item and item[key] != value and key not in _ITEM_KEYS:
            message = f"{quote(key)} has a different value outside 'plugin_params'; keep one of the two"
            yield source.problem((*path, "plugin_params", key), message, key=True)


def _variables(item: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """Template variables must have unique names, choices only for type `choice`, and defaults of their own type."""
    if "template_variables" not in item:
        return
    declared = variables(node_at(source, path))
    seen: set[str] = set()
    for index, entry in entries(item["template_variables"]):
        here, name = (*path, "template_variables", index), str(entry.get("name"))
        if name in seen:
            yield source.problem((*here, "name"), f"duplicate template variable {quote(name)}")
            continue
        seen.add(name)
        variable = declared.get(name)
        if (entry.get("type") == CHOICE) != ("choices" in entry):
            yield source.problem(here, "'choices' and the type 'choice' require each other; add or remove one")
        elif variable and variable.default and (wrong := describe(variable, variable.default)):
            yield source.problem((*here, "default"), f"the default of {wrong}")
