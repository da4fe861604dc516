"""Reads the YAML files of the init phase: YAML 1.2, as job files are. What the loading of job files needs besides is
left out, because it takes longer than the whole init phase may."""

from __future__ import annotations

from kedge import user_files
from kedge.light.types import Any, NamedTuple
from kedge.spec.compose import Composer, Unreadable
from kedge.spec.libyaml import yaml
from kedge.spec.nodes import Node
from kedge.spec.yaml_errors import explain
from kedge.spec.yaml_events import events

_LARGEST = 4 << 20  # characters


class InvalidDocument(ValueError):
    """A file is not what it should be; the message names the file and the line."""


class _SourceText(NamedTuple):
    scalar: str | None


class SourceTexts:
    """The source texts of scalars by their path: 1.0 is rendered as 1.0."""

    def __init__(self, root: Node | None) -> None:
        self._root = root

    def get(self, path: tuple[str | int, ...]) -> _SourceText | None:
        """The text at a path; None if there is nothing."""
        node = self._root
        for step in path:
            node = node.items.get(step) if node else None
        return _SourceText(node.text) if node else None


class InitDocument(NamedTuple):
    """One document; `value` of an empty one is None."""

    file: str
    value: Any
    texts: SourceTexts


def read(path: str, *, secret: bool = False) -> InitDocument:
    """The document in a file. OSError; InvalidDocument, whose message does not quote a `secret` one."""
    return parse(read_text(path), path, secret=secret)


def read_text(path: str) -> str:
    """The text in a file, without a byte order mark. OSError; InvalidDocument if it is not UTF-8."""
    data = user_files.read(path, 4 * _LARGEST)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"{path} is not UTF-8 text: {error.reason}") from None


def parse(text: str, file: str, *, secret: bool = False) -> InitDocument:
    """The document in a text. InvalidDocument."""
    if len(text) > _LARGEST:
        raise InvalidDocument(f"{file} has more than {_LARGEST >> 20} Mi characters")
    composer = Composer(text, file)
    try:
        root = composer.compose(events(text))
    except (Unreadable, yaml.YAMLError) as error:
        raise InvalidDocument(_described(error, text, file, secret)) from None
    if composer.problems:
        first = composer.problems[0]
        raise InvalidDocument(f"{file}:{first.line} is not valid" if secret else str(first._replace(excerpt="")))
    return InitDocument(file, root.value if root else None, SourceTexts(root))


def _described(error: Any, text: str, file: str, secret: bool) -> str:
    message, offset = (error.message, error.offset) if isinstance(error, Unreadable) else explain(error, text)
    place = file if offset is None else f"{file}:{text.count(chr(10), 0, offset) + 1}"
    return f"{place} is not valid YAML" if secret else f"{place}: {message}"
