"""Removes the secrets from job files before they are stored or shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kedge.errors import InputError
from kedge.late_patterns import late_pattern
from kedge.masking import MASKED
from kedge.spec import yaml
from kedge.spec.model import Job
from kedge.spec.nodes import Node
from kedge.spec.secret_places import below_secrets, long_texts, without

_COLON = late_pattern(r"\s*:(\s*)")
_COMMENT = late_pattern(r"(?m)(?:^|(?<=[ \t]))#.*$")
_QUOTED = f'"{MASKED}"'


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def mask_secrets(text: str, file: str = "job.yaml", given: Iterable[str] = ()) -> str:
    """The job file with `"******"` in place of the top-level `secrets`, of images' passwords, and of values elsewhere
    that these refer to. All other characters are kept, unless they repeat a secret.

    An alias elsewhere to a part of the secrets becomes `"******"` too, or `{}` if it is merged. Secrets of eight bytes
    or more (including the `given` ones) and passwords in addresses become `******` in all values and comments; keys
    are kept. If such edits are not enough, the whole file is rewritten.
    InputError: the text is not a YAML mapping or repeats a key, so its secrets cannot be located.
    """
    body = text.removeprefix("\ufeff")
    document = yaml.read(body, file)
    if document.problems:
        raise InputError(*document.problems)
    secret = below_secrets(document.root, document.aliases)
    texts = long_texts([*given, *(node.text for node in secret.values() if node.text)])

    def clean(value: str) -> str:
        return without(value, texts)

    masked = _edited(body, _edits(document, secret, body))
    try:
        masked = _cleaned(masked, file, clean)
        intact = _is_equal(document.root, yaml.read(masked, file).value, secret, clean)
    except InputError:
        intact = False
    if not intact or any(found in masked for found in texts if found not in _keys_to_keep(document.root, secret)):
        masked = "# rewritten, because the secrets could not be cut out of the original text\n" + _dumped(
            document.root, secret, clean
        )
    return text[: len(text) - len(body)] + masked


def masked_values(value: Any, secrets: Iterable[str]) -> Any:
    """A JSON value with secrets of eight bytes or more masked in its strings; keys are kept."""
    return _without_texts(value, long_texts(secrets))


def masked_text(text: str, secrets: Iterable[str]) -> str:
    """A text with secrets of eight bytes or more, and passwords in addresses, masked."""
    return without(text, long_texts(secrets))


def is_masked(job: Job) -> bool:
    """Whether the job was read from a stored file whose secrets had been removed."""
    passwords = (item.auth.password for item in job.prerequisites if item.auth)
    return job.source.mark(("secrets",)).scalar == MASKED or MASKED in passwords


def _without_texts(value: Any, texts: Sequence[str]) -> Any:
    if isinstance(value, str):
        return without(value, texts)
    if isinstance(value, dict):
        return {key: _without_texts(below, texts) for key, below in value.items()}
    return [_without_texts(below, texts) for below in value] if isinstance(value, list | tuple) else value


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    """The text with all edits applied; of overlapping edits, only the first."""
    parts, done = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.start >= done:
            parts += [text[done : edit.start], edit.text]
            done = edit.end
    return "".join((*parts, text[done:]))


def _edits(document: yaml.YamlDocument, secret: dict[int, Node], body: str) -> Iterator[_Edit]:
    """The edits that remove secrets from the places where they are defined."""
    secrets = document.root.items.get("secrets")
    if secrets is not None and secrets.value not in (None, MASKED):
        yield _of_section(document.root.keys["secrets"], secrets, body)
        for alias in document.aliases:
            inside = secrets.start <= alias.node.start < secrets.end
            if inside and not secrets.start <= alias.start < secrets.end:
                yield _Edit(alias.start, alias.end, "{}" if alias.merged else _QUOTED)
    for node in secret.values():
        if node.text and node.text != MASKED:
            yield _of_scalar(node, MASKED)


def _of_section(key: Node, secrets: Node, body: str) -> _Edit:
    colon = _COLON.fullmatch(body, key.end, secrets.start) if key.end < secrets.start else None
    end = secrets.end
    if secrets.items and body[secrets.start] not in "{[&!":
        end = _end_of_comments(body, end, key.column)
    if colon:
        return _Edit(colon.start(1), end, f" {_QUOTED}")
    # The value follows a comment or is far from its key. A list may be indented like its key, a scalar must be deeper.
    return _Edit(secrets.start, end, f"  {_QUOTED}")


def _end_of_comments(body: str, end: int, column: int) -> int:
    """The end of the comments after a block section's last value that are indented deeper than its key."""
    comments = re.compile(
        rf"[ \t]*(?:#[^\r\n]*)?(?:(?:\r\n|[\r\n])(?:[ \t]*(?:\r\n|[\r\n]))*[ \t]{{{column + 1},}}#[^\r\n]*)*"
    )
    found = comments.match(body, end)
    return found.end() if found and found[0].strip() else end


def _of_scalar(node: Node, value: str) -> _Edit:
    """An edit that replaces a scalar's value and keeps its anchor."""
    written = json.dumps(value, ensure_ascii=False)
    return _Edit(node.start, node.end, f"&{node.anchor} {written}" if node.anchor else written)


def _cleaned(text: str, file: str, clean: Callable[[str], str]) -> str:
    """The file with `clean` applied to its values and comments."""
    document = yaml.read(text, file)
    nodes = list(_all(document.root))
    edits = [_of_scalar(node, clean(node.text)) for node in nodes if node.text and clean(node.text) != node.text]
    tokens = sorted({(node.start, node.end) for node in nodes if node.text is not None} | _keys(nodes))
    done = 0
    for start, end in (*tokens, (len(text), len(text))):
        edits += (_Edit(*found.span(), clean(found[0])) for found in _COMMENT.finditer(text, done, max(done, start)))
        done = max(done, end)
    return _edited(text, edits)


def _keys(nodes: Iterable[Node]) -> set[tuple[int, int]]:
    return {(key.start, key.end) for node in nodes for key in node.keys.values()}


def _all(root: Node) -> Iterator[Node]:
    """Every node below `root` once, however many aliases refer to it."""
    seen, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.items.values()
            yield node


def _keys_to_keep(root: Node, secret: dict[int, Node]) -> str:
    """All keys outside secrets, one per line; keys are not masked."""
    return "\n".join(str(key) for node in _all(root) if id(node) not in secret for key in node.keys)


def _is_equal(old: Node, new: Any, secret: dict[int, Node], clean: Callable[[str], str]) -> bool:
    """Whether a value is the same as before, apart from secrets."""
    if isinstance(old.value, dict):
        below = {key: node for key, node in old.items.items() if id(node) not in secret}
        same_shape = isinstance(new, dict) and below.keys() <= new.keys() <= old.items.keys()
        return same_shape and all(_is_equal(node, new[key], secret, clean) for key, node in below.items())
    if isinstance(old.value, list):
        same_shape = isinstance(new, list) and len(new) == len(old.items)
        pairs = zip(old.items.values(), new if same_shape else (), strict=False)
        return same_shape and all(id(node) in secret or _is_equal(node, value, secret, clean) for node, value in pairs)
    return repr(new) in (repr(old.value), repr(clean(old.text or "")))


def _dumped(node: Node, secret: dict[int, Node], clean: Callable[[str], str]) -> str:
    """The value as JSON-style YAML, with secrets masked and numbers as they were written."""
    if id(node) in secret:
        return _QUOTED
    if isinstance(node.value, dict):
        pairs = (
            f"{json.dumps(key, ensure_ascii=False)}: {_dumped(below, secret, clean)}"
            for key, below in node.items.items()
        )
        return "{" + ",\n".join(pairs) + "}"
    if isinstance(node.value, list):
        return "[" + ",\n".join(_dumped(below, secret, clean) for below in node.items.values()) + "]"
    text = node.text or ""
    if isinstance(node.value, str) or clean(text) != text:
        return json.dumps(clean(text), ensure_ascii=False)
    return text or "null"
