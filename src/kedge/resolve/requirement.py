"""References to prerequisites, with the values that they give to template variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kedge.contract import Text
from kedge.errors import Problem
from kedge.spec.message_text import bare
from kedge.spec.model import JobFileSource, Path
from kedge.spec.nodes import Node
from kedge.spec.suggest import did_you_mean, sentence
from kedge.spec.templates import TemplateVariable, Value, describe, value_of

Render = Callable[[str, Path, JobFileSource], Text]  # renders references to parameters in a text at a path of a file


class Requirement(NamedTuple):
    """A reference: its text, the values that it gives, and the paths of both."""

    reference: str
    source: JobFileSource
    path: Path
    values: Mapping[str | int, Node] = {}
    values_path: Path = ()

    def place(self, variable: str) -> Path:
        """The path of a given value; if it is not given, that of the reference."""
        return (*self.values_path, variable) if variable in self.values else self.path


def required(node: Node, source: JobFileSource, path: Path) -> Iterator[Requirement]:
    """The references in an item's `require`. Malformed entries are skipped; the schema check reports them."""
    listed = node.items.get("require")
    for index, entry in listed.items.items() if listed is not None and isinstance(listed.value, list) else ():
        here = (*path, "require", index)
        if isinstance(entry.value, str):
            yield Requirement(entry.value, source, here)
        elif isinstance(entry.value, dict) and isinstance(entry.value.get("name"), str):
            given = entry.items.get("template_variables")
            values = given.items if given is not None and isinstance(given.value, dict) else {}
            yield Requirement(entry.value["name"], source, (*here, "name"), values, (*here, "template_variables"))


def values_of(
    declared: Mapping[str, TemplateVariable], requirement: Requirement, name: str, parameters: Render
) -> tuple[dict[str, Value], list[Problem]]:
    """The values of all template variables of the item `name` for one reference to it, and the problems with them."""
    wrong = {
        str(key): f"Prerequisite {name} has no template variable {bare(str(key))}.{_hint(str(key), declared)}"
        for key in requirement.values
        if key not in declared
    }
    values: dict[str, Value] = {}
    for key, variable in declared.items():
        value = value_of(requirement.values[key]) if key in requirement.values else variable.default
        if value is None:
            wrong[key] = f"Template variable {bare(key)} of prerequisite {name} is not fulfilled."
        elif message := describe(variable, _with_parameters(variable, value, requirement, parameters)):
            wrong[key] = f"{message} (prerequisite {name})"
        else:
            values[key] = value
    return values, [requirement.source.problem(requirement.place(key), message) for key, message in wrong.items()]


def _with_parameters(variable: TemplateVariable, value: Value, requirement: Requirement, parameters: Render) -> Value:
    """The value with the job's parameters filled in, so that their types are checked too."""
    if not isinstance(value.value, str) or "<%" not in value.text:
        return value
    return variable.read(
        "".join(map(str, parameters(value.text, requirement.place(variable.name), requirement.source)))
    )


def _hint(key: str, declared: Mapping[str, TemplateVariable]) -> str:
    return sentence(did_you_mean(key, declared))
