"""What roles need, and what that needs: a graph of items with all their values, each made once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kedge.contract import Text
from kedge.errors import INVALID, UNKNOWN, Problem
from kedge.resolve.documents import NotRead
from kedge.resolve.inherit import inherit
from kedge.resolve.items import Item
from kedge.resolve.lookup import Lookup, Place, Template
from kedge.resolve.sources.base import NotHad
from kedge.spec.guard import LATER
from kedge.spec.item_checks import check_item as check_meaning
from kedge.spec.model import Path, Prerequisite, Source
from kedge.spec.nodes import Node, with_items, with_node
from kedge.spec.schema import check_item as check_shape
from kedge.spec.suggest import did_you_mean, sentence
from kedge.spec.templates import Value, Variable, describe, fill, value_of, variables
from kedge.spec.text import bare

DEEPEST = 16  # items in a chain of requirements
MOST_ITEMS = 64  # in one role
_IMAGE = "dockerimage"

Render = Callable[[str, Path, Source], Text]
Key = tuple[Any, ...]  # what an item is and with which values


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """An item in its place in the graph: the reference that led to it first, where it is from (empty for the job file)
    and the values of its variables. `height` counts the items in the longest chain from here."""

    item: Item
    reference: str
    origin: str
    version: str | None
    values: Mapping[str, Value]
    needs: tuple[Needed, ...]
    height: int
    node: Node = field(repr=False)


class Asked(NamedTuple):
    """A reference: its text, the values that it gives, and where the two stand."""

    reference: str
    source: Source
    path: Path
    values: Mapping[str | int, Node] = {}
    values_path: Path = ()


class _TooMany(Exception):
    """A role needs more than MOST_ITEMS."""


def ordered(needed: Iterable[Needed]) -> list[Needed]:
    """These items and all that they need, dependencies first, each once, at its first place. No images."""
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
    """Makes the items of one job, and adds to `problems` what is wrong with them. `parameters` renders references to
    the job's parameters in a text, which stands at a path of a file."""

    def __init__(self, lookup: Lookup, parameters: Render, problems: list[Problem]) -> None:
        self._lookup = lookup
        self._parameters = parameters
        self._problems = problems
        self._made: dict[Key, Needed | None] = {}
        self._fresh = 0  # made for the role at hand

    def of_role(self, name: str, references: Iterable[str], source: Source) -> tuple[Needed, ...]:
        """What a role lists. What is wrong is left out, with all that needs it."""
        self._fresh = 0
        path: Path = ("taskRoles", name, "prerequisites")
        asked = [Asked(reference, source, (*path, index)) for index, reference in enumerate(references)]
        try:
            made = [self._visit(one, self._lookup.job_place, ()) for one in asked]
            needed = tuple(one for one in made if one is not None)
            if len(ordered(needed)) <= MOST_ITEMS:
                return needed
        except _TooMany:
            pass
        self._problems.append(source.problem(path, f"a task role may need at most {MOST_ITEMS} prerequisites"))
        return ()

    def alone(self, prerequisite: Prerequisite) -> Item:
        """An item of the job with the defaults of its variables, whatever it requires."""
        template = self._lookup.of_job(prerequisite)
        defaults = {name: one.default for name, one in variables(template.node).items() if one.default is not None}
        return _item(template, _filled(template.node, defaults))

    def _visit(self, asked: Asked, place: Place, above: tuple[tuple[Key, str], ...]) -> Needed | None:
        template = self._find(asked, place)
        values = self._values(template, asked) if template else None
        if template is None or values is None:
            return None
        key = (template.key, *sorted((name, value.text, type(value.value).__name__) for name, value in values.items()))
        if not self._fits(key, template, asked, above):
            return None
        if key not in self._made:
            self._made[key] = self._make(template, values, asked.reference, (*above, (key, template.display)))
        return self._made[key]

    def _find(self, asked: Asked, place: Place) -> Template | None:
        try:
            return self._lookup.find(asked.reference, place)
        except NotHad as error:
            self._problems.append(asked.source.problem(asked.path, error.message)._replace(code=error.code))
        except NotRead as error:
            code = UNKNOWN if "://" in asked.reference or place.marketplace else INVALID
            said = asked.source.problem(asked.path, f"Prerequisite {bare(asked.reference)} cannot be read")
            self._problems += (problem._replace(code=code) for problem in (said, *error.problems))
        return None

    def _values(self, template: Template, asked: Asked) -> dict[str, Value] | None:
        """The values of all variables of an item; None if one is wrong or missing."""
        declared, name = variables(template.node), _name(template)
        given = {key: node for key, node in asked.values.items() if isinstance(key, str)}
        wrong = [
            (key, f"Prerequisite {name} has no template variable {bare(key)}.{sentence(did_you_mean(key, declared))}")
            for key in given
            if key not in declared
        ]
        values: dict[str, Value] = {}
        for key, variable in declared.items():
            value = value_of(given[key]) if key in given else variable.default
            path = (*asked.values_path, key) if key in given else asked.path
            message = self._wrong(variable, value, name, asked.source, path)
            if value is None or message:
                wrong.append((key, message))
            else:
                values[key] = value
        for key, message in wrong:
            path = (*asked.values_path, key) if key in given else asked.path
            self._problems.append(asked.source.problem(path, message))
        return None if wrong else values

    def _wrong(self, variable: Variable, value: Value | None, name: str, source: Source, path: Path) -> str:
        if value is None:
            return f"Template variable {bare(variable.name)} of prerequisite {name} is not fulfilled."
        if isinstance(value.value, str) and "<%" in value.text:
            value = variable.read("".join(map(str, self._parameters(value.text, path, source))))
        wrong = describe(variable, value)
        return f"{wrong} (prerequisite {name})" if wrong else ""

    def _fits(self, key: Key, template: Template, asked: Asked, above: tuple[tuple[Key, str], ...]) -> bool:
        """Whether an item may stand below these: it is none of them, and they are not too many."""
        chain = [known for known, _ in above]
        shown = [bare(display) for _, display in above]
        made = self._made.get(key)
        if key in chain:
            cycle = " -> ".join((*shown[chain.index(key) :], bare(template.display)))
            self._problems.append(asked.source.problem(asked.path, f"Prerequisite cycle: {cycle}"))
        elif len(above) + (made.height if made else 1) > DEEPEST:
            nested = " -> ".join((*shown, bare(template.display)))
            message = f"Prerequisites require each other more than {DEEPEST} deep: {nested}"
            self._problems.append(asked.source.problem(asked.path, message))
        else:
            return True
        return False

    def _make(
        self, template: Template, values: Mapping[str, Value], reference: str, above: tuple[tuple[Key, str], ...]
    ) -> Needed | None:
        self._fresh += 1
        if self._fresh > MOST_ITEMS:
            raise _TooMany
        before = len(self._problems)
        node = self._inherited(_filled(template.node, values), (), template, "require")
        asked = list(_required(node, _item(template, node).source, template.path))
        found = [self._visit(one, template.place, above) for one in asked]
        needs = tuple(one for one in found if one is not None)
        if len(needs) < len(asked) or len(self._problems) > before:
            return None
        node = self._inherited(node, needs, template)
        item = _item(template, node)
        if template.origin or node is not template.node or LATER.search(_text(template)):
            self._problems += (*check_shape(item.data, item.path, item.source), *_meaning(item))
        if len(self._problems) > before:
            return None
        height = 1 + max((one.height for one in needs), default=0)
        return Needed(item, reference, template.origin, template.version, values, needs, height, node)

    def _inherited(self, node: Node, needs: tuple[Needed, ...], template: Template, only: str | None = None) -> Node:
        if "<%" not in _text(template) and "<%" not in repr(node.value):
            return node
        new, problems = inherit(node, needs, template.source, template.path, only)
        self._problems += problems
        return new


def _required(node: Node, source: Source, path: Path) -> Iterator[Asked]:
    """The references of an item to what it requires. What has another shape is left to the schema."""
    listed = node.items.get("require")
    for index, entry in listed.items.items() if listed is not None and isinstance(listed.value, list) else ():
        here = (*path, "require", index)
        if isinstance(entry.value, str):
            yield Asked(entry.value, source, here)
        elif isinstance(entry.value, dict) and isinstance(entry.value.get("name"), str):
            given = entry.items.get("template_variables")
            yield Asked(
                entry.value["name"],
                source,
                (*here, "name"),
                given.items if given is not None else {},
                (*here, "template_variables"),
            )


def _filled(node: Node, values: Mapping[str, Value]) -> Node:
    """The item with its values; the declarations stay as they are."""
    filled = fill(node, values)
    declared = node.items.get("template_variables")
    if filled is node or declared is None:
        return node
    return with_items(filled, {**filled.items, "template_variables": declared})


def _item(template: Template, node: Node) -> Item:
    source = template.source if node is template.node else with_node(template.source, template.path, node)
    return Item(_name(template), node.value, source, template.path)


def _meaning(item: Item) -> Iterator[Problem]:
    return check_meaning(item.data, item.path, item.source)


def _name(template: Template) -> str:
    return bare(str(template.node.value.get("name", template.display)))


def _text(template: Template) -> str:
    return template.source.text[template.node.start : template.node.end]
