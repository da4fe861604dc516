"""The graph of the prerequisites that roles require, directly or indirectly, with all their values filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any

from kedge.errors import INVALID, UNKNOWN, Problem
from kedge.quick_dataclasses import dataclass
from kedge.resolve.documents import UnreadableDocument
from kedge.resolve.inherit import inherit
from kedge.resolve.items import Item
from kedge.resolve.lookup import ItemPlace, Lookup, Template
from kedge.resolve.requirement import Render, Requirement, required, values_of
from kedge.resolve.sources.base import Unavailable
from kedge.spec.item_checks import check_item as check_meaning
from kedge.spec.marks import with_node
from kedge.spec.message_text import bare
from kedge.spec.model import JobFileSource, Path, Prerequisite
from kedge.spec.nodes import Node, with_items
from kedge.spec.schema import check_item as check_shape
from kedge.spec.templates import Value, fill, variables
from kedge.spec.yaml_escapes import LATER

MAX_DEPTH = 16  # items in a chain of requirements
MAX_ITEMS = 64  # of one role
_IMAGE = "dockerimage"

Key = tuple[Any, ...]  # identifies an item together with its values


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """A node of the graph: an item, the first reference to it, its origin (empty for the job file), and the values of
    its template variables. `height` is the number of items in the longest chain of requirements from here."""

    item: Item
    reference: str
    origin: str
    version: str | None
    values: Mapping[str, Value]
    needs: tuple[Needed, ...]
    height: int
    node: Node = field(repr=False)


class _TooMany(Exception):
    """A role requires more than MAX_ITEMS."""


def ordered(needed: Iterable[Needed]) -> list[Needed]:
    """These items and everything that they require, each once, dependencies first, without images."""
    found: dict[int, Needed] = {}
    seen: set[int] = set()

    def visit(one: Needed) -> None:
        if id(one) in seen:
            return
        seen.add(id(one))
        for below in one.needs:
            visit(below)
        if one.item.data.get("type") != _IMAGE:
            found[id(one)] = one

    for one in needed:
        visit(one)
    return list(found.values())


class Graph:
    """Builds the items of one job and adds their errors to `problems`. `parameters` renders references to the job's
    parameters in a text at a path of a file."""

    def __init__(self, lookup: Lookup, parameters: Render, problems: list[Problem]) -> None:
        self._lookup = lookup
        self._parameters = parameters
        self._problems = problems
        self._built: dict[Key, Needed | None] = {}
        self.used: set[Path] = set()  # paths of the items in the job file that are required
        self._built_for_role = 0  # number of new items for the current role

    def of_role(self, name: str, references: Iterable[str], source: JobFileSource) -> tuple[Needed, ...]:
        """The items that a role lists. Items with errors, and items that require them, are left out."""
        self._built_for_role = 0
        path: Path = ("taskRoles", name, "prerequisites")
        requirements = [Requirement(reference, source, (*path, index)) for index, reference in enumerate(references)]
        try:
            built = [self._visit(one, self._lookup.job_place, ()) for one in requirements]
            needed = tuple(one for one in built if one is not None)
            if len(ordered(needed)) <= MAX_ITEMS:
                return needed
        except _TooMany:
            pass
        self._problems.append(source.problem(path, f"a task role may require at most {MAX_ITEMS} prerequisites"))
        return ()

    def alone(self, prerequisite: Prerequisite) -> Item:
        """An item of the job with the defaults of its template variables; its requirements are ignored."""
        template = self._lookup.of_job(prerequisite)
        defaults = {name: one.default for name, one in variables(template.node).items() if one.default is not None}
        return _item(template, _filled(template.node, defaults))

    def _visit(self, requirement: Requirement, place: ItemPlace, above: tuple[tuple[Key, str], ...]) -> Needed | None:
        template = self._find(requirement, place)
        if template is None:
            return None
        if not template.origin:
            self.used.add(template.path)
        values, wrong = values_of(variables(template.node), requirement, _name(template), self._parameters)
        if wrong:
            self._problems += wrong
            return None
        key = (template.key, *sorted((name, value.text, type(value.value).__name__) for name, value in values.items()))
        if not self._fits(key, template, requirement, above):
            return None
        if key not in self._built:
            self._built[key] = self._build(template, values, requirement.reference, (*above, (key, template.display)))
        return self._built[key]

    def _find(self, requirement: Requirement, place: ItemPlace) -> Template | None:
        try:
            return self._lookup.find(requirement.reference, place)
        except Unavailable as error:
            self._problems.append(requirement.source.problem(requirement.path, error.message)._replace(code=error.code))
        except UnreadableDocument as error:
            code = UNKNOWN if "://" in requirement.reference or place.marketplace else INVALID
            summary = requirement.source.problem(
                requirement.path, f"Prerequisite {bare(requirement.reference)} cannot be read"
            )
            self._problems += (problem._replace(code=code) for problem in (summary, *error.problems))
        return None

    def _fits(self, key: Key, template: Template, requirement: Requirement, above: tuple[tuple[Key, str], ...]) -> bool:
        """Whether the items `above` may require this one: there is no cycle, and the chain is not too long."""
        chain = [known for known, _ in above]
        built = self._built.get(key)
        if key not in chain and len(above) + (built.height if built else 1) <= MAX_DEPTH:
            return True
        shown = [bare(display) for _, display in (*above, (key, template.display))]
        if key in chain:
            message = f"Prerequisite cycle: {' -> '.join(shown[chain.index(key) :])}"
        else:
            message = f"Prerequisites require each other more than {MAX_DEPTH} levels deep: {' -> '.join(shown)}"
        self._problems.append(requirement.source.problem(requirement.path, message))
        return False

    def _build(
        self, template: Template, values: Mapping[str, Value], reference: str, above: tuple[tuple[Key, str], ...]
    ) -> Needed | None:
        self._built_for_role += 1
        if self._built_for_role > MAX_ITEMS:
            raise _TooMany
        before = len(self._problems)
        node = self._inherited(_filled(template.node, values), (), template, "require")
        requirements = list(required(node, _item(template, node).source, template.path))
        found = [self._visit(one, template.place, above) for one in requirements]
        needs = tuple(one for one in found if one is not None)
        if len(needs) < len(requirements) or len(self._problems) > before:
            return None
        node = self._inherited(node, needs, template)
        item = _item(template, node)
        if template.origin or node is not template.node or _has_placeholders(template.source.text):
            self._problems += check_shape(item.data, item.path, item.source)
            self._problems += check_meaning(item.data, item.path, item.source)
        if len(self._problems) > before:
            return None
        height = 1 + max((one.height for one in needs), default=0)
        return Needed(item, reference, template.origin, template.version, values, needs, height, node)

    def _inherited(self, node: Node, needs: tuple[Needed, ...], template: Template, only: str | None = None) -> Node:
        if not _has_placeholders(template.source.text):
            return node
        new, problems = inherit(node, needs, template.source, template.path, only)
        self._problems += problems
        return new


def _filled(node: Node, values: Mapping[str, Value]) -> Node:
    """The item with its values filled in, except in the declarations of its variables."""
    filled = fill(node, values)
    declared = node.items.get("template_variables")
    if filled is node or declared is None:
        return node
    return with_items(filled, {**filled.items, "template_variables": declared})


def _item(template: Template, node: Node) -> Item:
    source = template.source if node is template.node else with_node(template.source, template.path, node)
    return Item(_name(template), node.value, source, template.path)


def _name(template: Template) -> str:
    return bare(str(template.node.value.get("name", template.display)))


@lru_cache(maxsize=128)
def _has_placeholders(text: str) -> bool:
    """Whether a file has placeholders that are filled in here. Aliases make it necessary to search the whole file."""
    return bool(LATER.search(text))
