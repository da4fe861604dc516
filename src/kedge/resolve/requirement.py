"""References to prerequisites, and the values that they give to template variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kedge.contract import Text
from kedge.errors import Problem
from kedge.spec.message_text import bare
from kedge.spec.model import Path, Source
from kedge.spec.nodes import Node
from kedge.spec.suggest import did_you_mean, sentence
from kedge.spec.templates import Value, Variable, describe, value_of

Render = Callable[[str, Path, Source], Text]  # of references to parameters in a text, and where it stands


class Asked(NamedTuple):
    """A reference: its text, the values that it gives, and where the two stand."""

    reference: str
    source: Source
    path: Path
    values: Mapping[str | int, Node] = {}
    values_path: Path = ()

    def place(self, variable: str) -> Path:
        """Where a value stands; of one that is not given, the reference."""
        return (*self.values_path, variable) if variable in self.values else self.path


def required(node: Node, source: Source, path: Path) -> Iterator[Asked]:
    """The references of an item to what it requires. What has another shape is left to the schema."""
    listed = node.items.get("require")
    for index, entry in listed.items.items() if listed is not None and isinstance(listed.value, list) else ():
        here = (*path, "require", index)
        if isinstance(entry.value, str):
            yield Asked(entry.value, source, here)
        elif isinstance(entry.value, dict) and isinstance(entry.value.get("name"), str):
            given = entry.items.get("template_variables")
            values = given.items if given is not None and isinstance(given.value, dict) else {}
            yield Asked(entry.value["name"], source, (*here, "name"), values, (*here, "template_variables"))


def values_of(
    declared: Mapping[str, Variable], asked: Asked, name: str, parameters: Render
) -> tuple[dict[str, Value], list[Problem]]:
    """The values of all variables of the item `name` for a reference to it, and what is wrong with them."""
    wrong = {
        str(key): f"Prerequisite {name} has no template variable {bare(str(key))}.{_hint(str(key), declared)}"
        for key in asked.values
        if key not in declared
    }
    values: dict[str, Value] = {}
    for key, variable in declared.items():
        value = value_of(asked.values[key]) if key in asked.values else variable.default
        if value is None:
            wrong[key] = f"Template variable {bare(key)} of prerequisite {name} is not fulfilled."
        elif message := describe(variable, _known(variable, value, asked, parameters)):
            wrong[key] = f"{message} (prerequisite {name})"
        else:
            values[key] = value
    return values, [asked.source.problem(asked.place(key), message) for key, message in wrong.items()]


def _known(variable: Variable, value: Value, asked: Asked, parameters: Render) -> Value:
    """The value with the job's parameters in place: their types count, too."""
    if not isinstance(value.value, str) or "<%" not in value.text:
        return value
    return variable.read("".join(map(str, parameters(value.text, asked.place(variable.name), asked.source))))


def _hint(key: str, declared: Mapping[str, Variable]) -> str:
    return sentence(did_you_mean(key, declared))
