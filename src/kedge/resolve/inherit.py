"""`<% this.key %>` in a prerequisite: its own value, or else that of the nearest prerequisite that it requires."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from kedge.errors import Problem
from kedge.late_patterns import late_pattern
from kedge.spec.message_text import bare
from kedge.spec.model import JobFileSource, Path
from kedge.spec.nodes import Node, with_items
from kedge.spec.references import locate
from kedge.spec.templates import Value, rewritten

NOT_INHERITED = frozenset({
    "name", "type", "plugin", "require", "callbacks", "failurePolicy", "uri", "version", "contributor", "description",
    "protocolVersion", "auth", "template_variables", "requireStorages", "retry",
    "plugin_params", "preCommands", "postCommands", "timeoutSec",
})  # fmt: skip
_NOT_RENDERED = frozenset({"name", "contributor", "description", "require"})
_TAG = late_pattern(r"<%\s*this\b((?:(?!%>).)*)%>", re.DOTALL)
_STEP = late_pattern(r"\s*\.\s*([^\s.\[\]]+)\s*|\s*\[\s*([0-9]{1,9})\s*\]\s*")


class Provider(Protocol):
    """A required prerequisite, with its values filled in, and what it requires in turn."""

    @property
    def node(self) -> Node: ...

    @property
    def needs(self) -> Sequence[Provider]: ...


class _Missing(Exception):
    """A tag has no value; the message gives the reason."""


def inherit(
    node: Node, needs: Sequence[Provider], source: JobFileSource, path: Path, only: str | None = None
) -> tuple[Node, list[Problem]]:
    """The item at `path` with its `this` tags replaced, and the problems with them. A scalar that is nothing but a tag
    takes the value's type. `only` restricts this to one key; by default it covers all keys except `require` and
    descriptive ones."""
    keys = [key for key in node.items if key == only or (only is None and key not in _NOT_RENDERED)]
    tagged = [found for key in keys for found in _tagged(node.items[key], (key,))]
    inheritance = _Inheritance(node, needs, bare(str(node.value.get("name"))))
    problems = [
        source.problem((*path, *below), message, mark=locate(source, (*path, *below), tag, nth))
        for below, tag, nth, message in inheritance.missing(tagged)
    ]
    if problems or not tagged:
        return node, problems
    new: dict[str | int, Node] = {below[0]: rewritten(node.items[below[0]], inheritance.filled) for below, _ in tagged}
    return with_items(node, {**node.items, **new}), []


class _Inheritance:
    """Looks up and caches the values of the `this` tags in one item."""

    def __init__(self, node: Node, needs: Sequence[Provider], name: str) -> None:
        self._node = node
        self._needs = needs
        self._name = name
        self._open: list[Path] = []
        self._known: dict[str, Value] = {}  # by the text after `this`

    def missing(self, tagged: Iterable[tuple[Path, Node]]) -> Iterator[tuple[Path, str, int, str]]:
        """For each tag without a value: the path of its scalar, its text, its number in the scalar, and a message."""
        for path, scalar in tagged:
            seen: Counter[str] = Counter()
            for tag in _TAG.finditer(scalar.text or ""):
                try:
                    self._value(tag[1])
                except _Missing as error:
                    yield path, tag[0], seen[tag[0]], str(error)
                seen[tag[0]] += 1

    def filled(self, scalar: Node) -> Value | None:
        """The value that replaces a scalar; None if it has no tag. _Missing: a tag has no value."""
        text = scalar.text or ""
        if not isinstance(scalar.value, str) or not _TAG.search(text):
            return None
        if whole := _TAG.fullmatch(text):
            return self._value(whole[1])
        rendered = _TAG.sub(lambda tag: self._value(tag[1]).text, text)
        return Value(rendered, rendered)

    def _value(self, written: str) -> Value:
        if written not in self._known:
            self._known[written] = self._read(written)
        return self._known[written]

    def _read(self, written: str) -> Value:
        path = _path(written)
        shown = "this" + "".join(f"[{step}]" if isinstance(step, int) else f".{bare(step)}" for step in path)
        if path in self._open:
            raise _Missing(f"Reference {shown} of prerequisite {self._name} refers to itself.")
        found = self._find(path)
        if found is None:
            raise _Missing(f"Reference {shown} of prerequisite {self._name} is undefined.")
        if found.text is None:
            kind = "list" if isinstance(found.value, list) else "mapping"
            raise _Missing(f"Reference {shown} of prerequisite {self._name} is a {kind}, not a scalar.")
        self._open.append(path)
        try:
            return self.filled(found) or Value(found.value, found.text)
        finally:
            self._open.pop()

    def _find(self, path: Path) -> Node | None:
        own = _own(self._node, path)
        if own is not None or path[0] in NOT_INHERITED or _has(self._node, path[0]):
            return own
        level: list[Provider] = list(self._needs)
        seen = {id(provider) for provider in level}
        while level:
            for provider in level:
                if _has(provider.node, path[0]):
                    return _own(provider.node, path)
            below = [need for provider in level for need in provider.needs]
            level = [need for need in dict.fromkeys(below) if id(need) not in seen]
            seen.update(id(need) for need in level)
        return None


def _path(written: str) -> Path:
    steps: list[str | int] = []
    at = 0
    while at < len(written) and (step := _STEP.match(written, at)):
        steps.append(step[1] if step[1] is not None else int(step[2]))
        at = step.end()
    if written[at:].strip() or not steps:
        raise _Missing(f"'<% this{bare(written)}%>' is not a reference; write it like <% this.key %>")
    return tuple(steps[1:] if steps[0] == "parameters" and len(steps) > 1 else steps)


def _places(node: Node) -> Iterable[Node]:
    inner = node.items.get("plugin_params")
    return (node,) if inner is None else (inner, node)


def _has(node: Node, key: str | int) -> bool:
    return any(key in place.items for place in _places(node))


def _own(node: Node, path: Path) -> Node | None:
    for place in _places(node):
        found: Node | None = place
        for step in path:
            found = found.items.get(step) if found is not None else None
        if found is not None:
            return found
    return None


def _tagged(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    """The scalars that contain a tag, with their paths."""
    if node.text is not None:
        if isinstance(node.value, str) and "<%" in node.text and _TAG.search(node.text):
            yield path, node
        return
    for step, below in node.items.items():
        yield from _tagged(below, (*path, step))
