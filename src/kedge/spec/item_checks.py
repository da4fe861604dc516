"""What must hold in one prerequisite beyond its shape, wherever it is defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.errors import Problem
from kedge.spec.message_text import bare, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.nodes import node_at
from kedge.spec.references import OPEN, TagError, locate, split
from kedge.spec.schema import schema
from kedge.spec.suggest import did_you_mean, sentence
from kedge.spec.templates import CHOICE, describe, variables
from kedge.spec.tolerant import entries, mapping, strings
from kedge.spec.yaml_escapes import LATER

# Keys that describe a prerequisite itself; in `plugin_params` they are something else.
_OF_THE_ITEM = frozenset({"name", "type", "plugin", "protocolVersion", "version", "contributor", "description"})


def check_item(item: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """Everything that is wrong with the prerequisite at `path` beyond its shape."""
    inner = mapping(item.get("plugin_params"))
    for value, where in ((item, path), (inner, (*path, "plugin_params"))):
        yield from callbacks(value, where, source)
        yield from _events(value, where, f"prerequisite {bare(str(item.get('name')))}", source)
    yield from _plugin_params(item, path, source)
    told = {key: value for key, value in item.items() if key not in ("name", "contributor", "description")}
    for where, text in strings(told, path):
        yield from broken_tags(text, where, source)
    yield from _variables(item, path, source)


def callbacks(value: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """`callbacks` is another way to say what `preCommands` and `postCommands` say."""
    both = [key for key in ("preCommands", "postCommands") if key in value]
    if "callbacks" in value and both:
        message = f"{quote(both[0])} does not go together with 'callbacks'; make it an event of the callbacks"
        yield source.problem((*path, both[0]), message, key=True)


def broken_tags(text: str, path: Path, source: JobFileSource) -> Iterator[Problem]:
    """Every `<%` in a text that is rendered later must belong to a whole tag."""
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
    """A parameter may stand inline or in `plugin_params`; in both places only with one value."""
    for key, value in mapping(item.get("plugin_params")).items():
        if key in item and item[key] != value and key not in _OF_THE_ITEM:
            message = f"{quote(key)} has another value beside 'plugin_params'; keep one of the two"
            yield source.problem((*path, "plugin_params", key), message, key=True)


def _variables(item: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """Template variables have names of their own, and defaults that they allow."""
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
            yield source.problem(here, "a template variable has 'choices' exactly when its type is 'choice'")
        elif variable and variable.default and (wrong := describe(variable, variable.default)):
            yield source.problem((*here, "default"), f"the default of {wrong}")
