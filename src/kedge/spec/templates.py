"""Replaces `{{ name }}` in the parsed tree, so a value can never change the structure around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kedge.quick_dataclasses import dataclass
from kedge.spec.message_text import bare, quote
from kedge.spec.nodes import Node, with_items
from kedge.spec.scalars import Scalar, plain
from kedge.spec.suggest import name_list
from kedge.spec.yaml_escapes import TOKEN

STRING, INTEGER, NUMBER, BOOLEAN, PATH, CHOICE = "string", "integer", "number", "boolean", "path", "choice"
_SHELL_LINES = frozenset({"commands", "preCommands", "postCommands"})  # lists that hold only strings


class Value(NamedTuple):
    """A scalar and its source text: `1.0` is inserted into other text as `1.0`."""

    value: Scalar
    text: str


@dataclass(frozen=True, slots=True)
class TemplateVariable:
    """One entry of `template_variables`. `kind` None accepts every scalar."""

    name: str
    kind: str | None = None
    default: Value | None = None
    choices: tuple[Value, ...] = ()

    def read(self, text: str) -> Value:
        """The value of a text that has replaced a reference."""
        return Value(text, text) if self.kind in (STRING, PATH) else parsed(text)

    def refuses(self, given: Value) -> str | None:
        """The allowed values, if `given` is not one; else None. Text with a `<% reference %>` is allowed: its value is
        not known yet."""
        if isinstance(given.value, str) and "<%" in given.text:
            return None
        if self.kind == CHOICE:
            known = [choice.text for choice in self.choices]
            return None if given.text in known else f"must be one of {name_list(known, 20)}"
        allowed, what = _KINDS.get(self.kind, _ANY)
        return None if allowed(given.value) else f"must be {what}"


def variables(node: Node) -> dict[str, TemplateVariable]:
    """The variables that the item at `node` declares. Malformed entries are skipped; the schema check reports them."""
    listed = node.items.get("template_variables")
    entries = listed.items.values() if listed is not None else ()
    found: dict[str, TemplateVariable] = {}
    for variable in (_variable(entry) for entry in entries if isinstance(entry.value, dict)):
        found.setdefault(variable.name, variable)
    return found


def _variable(entry: Node) -> TemplateVariable:
    default, choices = entry.items.get("default"), entry.items.get("choices")
    return TemplateVariable(
        name=str(entry.value.get("name")),
        kind=str(entry.value["type"]) if "type" in entry.value else None,
        default=value_of(default) if default is not None else None,
        choices=tuple(value_of(choice) for choice in choices.items.values()) if choices is not None else (),
    )


def value_of(node: Node) -> Value:
    """The scalar at a node."""
    return Value(node.value, node.text or "")


def fill(node: Node, values: Mapping[str, Value]) -> Node:
    """The tree with `{{ name }}` replaced for every name in `values`; other placeholders are kept.

    A scalar that is nothing but a placeholder takes the value's type, except for shell lines, which remain strings.
    """
    return rewritten(node, lambda scalar: _filled(scalar, values)) if values else node


def _filled(scalar: Node, values: Mapping[str, Value]) -> Value | None:
    text = scalar.text or ""
    if not isinstance(scalar.value, str) or "{{" not in text:
        return None
    whole = TOKEN.fullmatch(text)
    if whole:
        return values.get(whole[1])
    filled = TOKEN.sub(lambda found: values[found[1]].text if found[1] in values else found[0], text)
    return Value(filled, filled) if filled != text else None


def rewritten(node: Node, change: Callable[[Node], Value | None], as_text: bool = False) -> Node:
    """The tree with every scalar replaced for which `change` returns a value; the same node if nothing changes.

    New scalars keep the position of the old ones. `as_text`: scalars remain strings, whatever replaces them.
    """
    if node.text is not None:
        new = change(node)
        if new is None:
            return node
        return node.replaced(value=new.text if as_text else new.value, text=new.text, items={}, keys={})
    changed = {step: rewritten(below, change, step in _SHELL_LINES or as_text) for step, below in node.items.items()}
    if all(changed[step] is below for step, below in node.items.items()):
        return node
    return with_items(node, changed)


def parsed(text: str) -> Value:
    """The value of a text as an unquoted YAML scalar."""
    try:
        return Value(plain(text), text)
    except ValueError:  # the number is too long
        return Value(text, text)


def _is_integer(value: Scalar) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Scalar) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_path(value: Scalar) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


_KINDS: Mapping[str | None, tuple[Callable[[Scalar], bool], str]] = {
    STRING: (lambda value: isinstance(value, str), "a string; put it in quotes"),
    INTEGER: (_is_integer, "a whole number"),
    NUMBER: (_is_number, "a number"),
    BOOLEAN: (lambda value: isinstance(value, bool), "true or false"),
    PATH: (_is_path, "a path: a string of one line, not empty"),
}
_ANY = (lambda value: isinstance(value, str | int | float | bool), "a string, a number, true or false")


def describe(variable: TemplateVariable, given: Value) -> str:
    """The message about a value that the variable does not allow; empty if it is allowed."""
    allowed = variable.refuses(given)
    return f"template variable {bare(variable.name)} {allowed}, not {quote(given.text)}" if allowed else ""
