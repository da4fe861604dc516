"""References in strings: `<% $parameters.lr %>`, `<% $data.uri[0] %>`. Their form, and the values that they name."""

from __future__ import annotations

from kedge.late_patterns import late_pattern
from kedge.light.types import TYPE_CHECKING, Any, Mapping, NamedTuple
from kedge.masking import MASKED
from kedge.spec.message_text import quote
from kedge.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from kedge.spec.model import Mark, Path  # which loads what rendering does not need

ROOTS = ("parameters", "secrets", "script", "output", "data")
OPEN, CLOSE = "<%", "%>"
WHERE_THEY_WORK = (
    "references work only in commands, in parameters of plugins, in 'env', and in 'uri' and 'auth' of images"
)
# White space in references and around commands, as JavaScript defines it, because OpenPAI runs on it. Python's \s
# differs: it includes U+0085 and U+001C to U+001F, and excludes U+FEFF.
SPACE = "\t\n\v\f\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
_NO_SPACE = r"\x1c-\x1f\x85"  # matched by Python's \s, but not white space here
_S = rf"(?:[^\S{_NO_SPACE}]|\ufeff)*"
_BEGIN = late_pattern(rf"{_S}\$(\w+)(?![\w-]){_S}")
_STEP = late_pattern(rf"\.{_S}((?:[^\s.\[\]\ufeff]|[{_NO_SPACE}])+){_S}|\[{_S}([0-9]{{1,9}}){_S}\]{_S}")


class Reference(NamedTuple):
    """A tag with one of the ROOTS. `path` holds names and indexes; `offset` counts characters in the text."""

    root: str
    path: Path
    source: str
    offset: int


class TagError(ValueError):
    """A tag that is never closed, or that starts like a reference but is malformed; `offset` is its position."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class Unresolved(NamedTuple):
    """A reference without a value; `message` gives the reason, for a Problem."""

    message: str


def split(text: str) -> tuple[str | Reference, ...]:
    """Split a text at its references. Joining the parts, with the `source` of each reference, gives the text again.

    Tags that do not start with `$` and one of the ROOTS are plain text. TagError: a tag is not closed or malformed.
    """
    parts: list[str | Reference] = []
    done = at = 0
    while (start := text.find(OPEN, at)) >= 0:
        at = _end(text, start)
        if reference := _reference(text[start:at], start):
            parts += [text[done:start], reference]
            done = at
    return tuple(part for part in (*parts, text[done:]) if part != "")


def lookup(reference: Reference, values: object, marks: Mapping[Path, Mark], prefix: Path) -> str | Unresolved:
    """The source text of the scalar that `reference` names in `values`, whose path in the file is `prefix`.

    `values` is the job's `parameters` or `secrets`, or the data of the role's prerequisite; None if the role has none.
    """
    if values is None:
        return Unresolved(f"this task role names no {reference.root} prerequisite")
    top = marks.get(prefix)
    if reference.root == "secrets" and top is not None and top.scalar == MASKED:
        return Unresolved("the secrets were removed when this job was stored; write them again")
    at: list[str | int] = []
    for step in reference.path:
        if step == 0 and at == ["uri"] and isinstance(values, str):
            continue  # `uri: x` is short for a list with one entry
        below = _below(values, step)
        if below is None:
            return Unresolved(_unknown(reference.root, at, values, step))
        at.append(below)
        values = values[below]  # type: ignore[index]
    return _text(reference, values, marks.get((*prefix, *at)))


def _end(text: str, start: int) -> int:
    close = text.find(CLOSE, start + len(OPEN))
    inner = text.find(OPEN, start + len(OPEN), close) if close >= 0 else -1
    if close < 0 or inner >= 0:
        raise TagError(
            f"'{OPEN}' starts a reference that is never closed with '{CLOSE}'",
            start,
        )
    return close + len(CLOSE)


def _reference(tag: str, offset: int) -> Reference | None:
    begin = _BEGIN.match(tag, len(OPEN))
    if not begin or begin[1] not in ROOTS:
        return None
    path: list[str | int] = []
    at, end = begin.end(), len(tag) - len(CLOSE)
    while at < end:
        step = _STEP.match(tag, at, end)
        if not step:
            raise TagError(f"{quote(tag)} is not a reference; write it like <% ${begin[1]}.name %>", offset)
        path.append(step[1] if step[1] is not None else int(step[2]))
        at = step.end()
    return Reference(begin[1], tuple(path), tag, offset)


def _below(values: object, step: str | int) -> str | int | None:
    """The key or index in `values` that `step` refers to; None if it does not exist."""
    if isinstance(values, dict):
        return str(step) if str(step) in values else None  # `[0]` of a mapping is its key "0"
    if isinstance(values, list):
        index = int(step) if isinstance(step, int) or (step.isascii() and step.isdigit() and len(step) < 10) else -1
        return index if 0 <= index < len(values) else None
    return None


def _unknown(root: str, at: list[str | int], values: object, step: str | int) -> str:
    here = _show(root, at)
    if isinstance(values, list):
        return f"{here} has {len(values)} entries, counted from 0; there is no {step}"
    if not isinstance(values, dict):
        return f"{here} is neither a mapping nor a list; it has nothing below it"
    hint = did_you_mean(str(step), values)
    if not at and root in ("parameters", "secrets"):
        return f"no {root.removesuffix('s')} is named {quote(str(step))}{hint}"
    return f"{here} has no {quote(str(step))}{hint}"


def _text(reference: Reference, value: object, mark: Mark | None) -> str | Unresolved:
    here = _show(reference.root, reference.path)
    if value is None:
        return Unresolved(f"{here} is empty (null)")
    if isinstance(value, list | dict):
        kind = "list" if isinstance(value, list) else "mapping"
        first: Any = next(iter(value), None) if isinstance(value, dict) else 0
        example = f"; use {_show(reference.root, (*reference.path, first))}" if value else ""
        return Unresolved(f"{here} is a {kind}, not a scalar{example}")
    if mark is not None and mark.scalar is not None:
        return mark.scalar
    return str(value).lower() if isinstance(value, bool) else str(value)


def _show(root: str, path: Path | list[str | int]) -> str:
    return f"${root}" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
