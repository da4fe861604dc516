"""Reads YAML 1.2 into plain values, with the position of every value.

libyaml (through PyYAML) turns the text into events. The Composer builds the values from the events without recursion,
so that scalars follow YAML 1.2, duplicate keys are errors, and neither nesting nor aliases can exhaust resources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kedge.errors import InputError, Problem
from kedge.quick_dataclasses import dataclass
from kedge.spec.compose import Alias, Composer, Unreadable
from kedge.spec.files import MAX_FILE_BYTES, too_large
from kedge.spec.hidden_lines import Hidden, guessed, lines
from kedge.spec.libyaml import yaml
from kedge.spec.marks import KeyMarks, Marks
from kedge.spec.message_text import excerpt
from kedge.spec.model import JobFileSource
from kedge.spec.nodes import Node
from kedge.spec.secret_places import hidden_in
from kedge.spec.yaml_errors import explain
from kedge.spec.yaml_events import events


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One YAML document: its value, the tree behind it, and the errors that did not prevent reading it."""

    value: Any
    root: Node
    source: JobFileSource
    aliases: tuple[Alias, ...]
    problems: tuple[Problem, ...]


def read(text: str, file: str = "job.yaml") -> YamlDocument:
    """The mapping in `text`. Of a repeated key the first counts; `problems` reports the others.

    InputError: the text is not YAML 1.2, is anything other than one mapping, or exceeds a limit (4 Mi characters, 100
    levels, 100,000 values added by aliases).
    """
    return _read(text, file, _mapping)


def read_any(text: str, file: str) -> YamlDocument:
    """Like `read`, for a text that may also be a list, a scalar or empty; the value of an empty text is None."""
    return _read(text, file, lambda root: root or Node(0, 0, 0, 0))


def _read(text: str, file: str, checked: Callable[[Node | None], Node]) -> YamlDocument:
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_FILE_BYTES:
        raise too_large(file, f"{len(text)} characters")
    composer = Composer(text, file)
    try:
        root = checked(composer.compose(events(text)))
    except (Unreadable, yaml.YAMLError) as error:
        found = (*composer.problems, _problem(error, composer.inside_secrets(), text, file))
        raise InputError(*_cleaned(found, guessed(text), text)) from None
    hidden = hidden_in(root, composer.aliases, text)
    source = JobFileSource(file, text, Marks(root), KeyMarks(root), hidden)
    return YamlDocument(root.value, root, source, tuple(composer.aliases), _cleaned(composer.problems, hidden, text))


def _cleaned(problems: Sequence[Problem], hidden: Hidden, text: str) -> tuple[Problem, ...]:
    bounds = lines(text) if problems else []
    return tuple(hidden.cleaned(found, bounds[found.line - 1] if found.line else (0, 0)) for found in problems)


def _mapping(root: Node | None) -> Node:
    if root is None or root.text == "":
        raise Unreadable("the file is empty; a job file is a mapping that starts with 'protocolVersion: 2'")
    if not isinstance(root.value, dict):
        kind = "a list" if isinstance(root.value, list) else "a single value"
        raise Unreadable(f"the file must hold a mapping of 'key: value' lines, not {kind}", root.start)
    return root


def _problem(error: Unreadable | yaml.YAMLError, secret: bool, text: str, file: str) -> Problem:
    message, offset = (error.message, error.offset) if isinstance(error, Unreadable) else explain(error, text)
    if offset is None:
        return Problem(file, 0, 0, "", message)
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    line, column = before.count("\n") + 1, offset - max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    return Problem(file, line, column, "", message, "" if secret else excerpt(text, offset))
