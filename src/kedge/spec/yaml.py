"""YAML 1.2 from text to plain values with the place of every value.

libyaml (through PyYAML) turns the text into events; this module builds the values from them itself, without recursion,
so that scalars mean what YAML 1.2 says, duplicate keys are errors, and neither nesting nor aliases can explode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from kedge.errors import InputError, Problem
from kedge.spec.compose import Alias, Composer, Refused
from kedge.spec.files import LARGEST_FILE, too_large
from kedge.spec.model import Source
from kedge.spec.nodes import KeyMarks, Marks, Node
from kedge.spec.text import excerpt
from kedge.spec.yaml_errors import explain

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Line breaks in YAML 1.1, which libyaml implements, but not in 1.2.
_NOT_BREAKS = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its value, the tree behind it, and what is wrong with it although it could be read."""

    value: dict[str, Any]
    root: Node
    source: Source
    aliases: tuple[Alias, ...]
    problems: tuple[Problem, ...]


def read(text: str, file: str = "job.yaml") -> Document:
    """The mapping that `text` holds. Of a repeated key the first one counts, and `problems` tells of it.

    InputError: the text is no YAML 1.2, holds another value than one mapping, or exceeds a limit (4 MiB, 100 levels,
    100,000 values by aliases).
    """
    text = text.removeprefix("\ufeff")
    if len(text) > LARGEST_FILE:
        raise too_large(file, f"{len(text)} characters")
    composer = Composer(text, file)
    try:
        _check_characters(text)
        root = _mapping(composer.compose(_events(text)))
    except (Refused, yaml.YAMLError) as error:
        raise InputError(*composer.problems, _problem(error, composer.inside_secrets(), text, file)) from None
    source = Source(file, text, Marks(root), KeyMarks(root))
    return Document(root.value, root, source, tuple(composer.aliases), tuple(composer.problems))


def _events(text: str) -> Iterator[yaml.Event]:
    if not _NOT_BREAKS.search(text):
        yield from yaml.parse(text, Loader=_LOADER)
        return
    unused = (chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)
    stand_ins = {ord(character): next(unused) for character in "\x85\u2028\u2029"}
    back = {ord(stand_in): chr(code) for code, stand_in in stand_ins.items()}
    for event in yaml.parse(text.translate(stand_ins), Loader=_LOADER):
        if isinstance(event, yaml.ScalarEvent):
            event.value = event.value.translate(back)
        yield event


def _check_characters(text: str) -> None:
    if found := _UNPRINTABLE.search(text):
        raise Refused(f"the character U+{ord(found[0]):04X} may not stand in YAML", found.start())


def _mapping(root: Node | None) -> Node:
    if root is None or root.text == "":
        raise Refused("the file is empty; a job file is a mapping that starts with 'protocolVersion: 2'")
    if not isinstance(root.value, dict):
        kind = "a list" if isinstance(root.value, list) else "a single value"
        raise Refused(f"the file must hold a mapping of 'key: value' lines, not {kind}", root.start)
    return root


def _problem(error: Refused | yaml.YAMLError, secret: bool, text: str, file: str) -> Problem:
    message, offset = (error.message, error.offset) if isinstance(error, Refused) else explain(error, text)
    if offset is None:
        return Problem(file, 0, 0, "", message)
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    line, column = before.count("\n") + 1, offset - max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    return Problem(file, line, column, "", message, "" if secret else excerpt(text, offset))
