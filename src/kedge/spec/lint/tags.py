"""Text that looks like a reference but is not, and references where they do not work.

OpenPAI keeps any text that is not a complete reference, so most of these are warnings. They are errors where no other
template language is likely: `<% $params.lr %>`, `<% parameters.lr %>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kedge.errors import ERROR, WARNING, Problem
from kedge.spec.lint import texts
from kedge.spec.message_text import quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.references import OPEN, ROOTS, WHERE_THEY_WORK, Reference, TagError, locate, split
from kedge.spec.suggest import mistyped
from kedge.spec.tolerant import mapping

_GIVEN = ("parameters", "secrets")
# Too short to be recognised as misspellings.
_ABBREVIATIONS = {"param": "parameters", "params": "parameters", "parms": "parameters", "args": "parameters"}
# Not compiled here: that takes longer than all checks, and most jobs need none of these. `re` compiles at first use.
_TAG = r"(?s)<%(.*?)%>"
_BODY = r"(\$?)\s*([A-Za-z_][\w-]*)\s*((?:\.\s*[^\s.\[\]]+|\[\s*\d+\s*\])*)\s*"
_MARKED = r"[=\-&#!{>]\s*\$?(\w+)((?:\.\w+|\[\d+\])+)"  # `<%= $parameters.x %>`
_BRACES = r"(\$?)\{\{-?\s*(\$?)(\w+)((?:\.[^\s.\[\]{}]+|\[\d+\])*)\s*-?\}\}"
_BARE = r"\$(?:\{\s*)?(parameters|secrets)((?:\.\w+|\[\w+\])+)(?:\s*\})?"


class _LikeReference(NamedTuple):
    """Text that looks like a reference, its offset in the whole string, and the message about it."""

    text: str
    offset: int
    message: str
    suggestion: str | None = None
    severity: str = WARNING


def near_references(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Problems for text that looks like a reference, in strings where references work."""
    if mapping(mapping(job.get("extras")).get("kedge")).get("unknownReferences") == "keep":
        return
    in_commands = {path for path, _ in texts.commands(job)}
    for path, text in (*texts.commands(job), *texts.parameters(job)):
        if "%" in text or "$" in text or "{{" in text:
            yield from _in_text(text, path, path in in_commands, job, source)


def misplaced(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Warnings for references in strings where they are not replaced."""
    for path, text in texts.others(job):
        for reference in _references(text):
            what = "a reference" if path[0] == "secrets" else quote(reference.source)
            message = f"{what} is not replaced here; {WHERE_THEY_WORK}"
            yield source.warning(path, message, mark=locate(source, path, reference.source))
    for path, item in texts.prerequisites(job):
        if item.get("type") == "dockerimage":
            yield from _in_image(item, path, source)


def _in_image(item: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """An image's `uri` is needed before the task exists, so only parameters work there; in `auth` only secrets do."""
    wanted = [((*path, "uri"), item.get("uri"), "parameters")]
    wanted += [((*path, "auth", key), value, "secrets") for key, value in mapping(item.get("auth")).items()]
    for where, text, root in wanted:
        for reference in _references(text) if isinstance(text, str) else ():
            if reference.root != root:
                message = f"{quote(reference.source)} is not replaced here; only ${root} works"
                yield source.warning(where, message, mark=locate(source, where, reference.source))


def _references(text: str) -> list[Reference]:
    return [part for part in _parts(text) if isinstance(part, Reference)]


def _parts(text: str) -> tuple[str | Reference, ...]:
    """The parts of a text; none if it has a broken tag, which other checks report."""
    try:
        return split(text)
    except TagError:
        return ()


def _in_text(
    text: str, path: Path, is_command: bool, job: Mapping[str, Any], source: JobFileSource
) -> Iterator[Problem]:
    if not _parts(text):
        return
    for found in sorted(_looks_like_references(text, is_command, job), key=lambda found: found.offset):
        mark = locate(source, path, found.text, text.count(found.text, 0, found.offset))
        problem = source.warning(path, found.message, suggestion=found.suggestion, mark=mark)
        yield problem._replace(severity=found.severity)


def _looks_like_references(text: str, is_command: bool, job: Mapping[str, Any]) -> Iterator[_LikeReference]:
    parts = _parts(text)
    whole = {part.offset: part.offset + len(part.source) for part in parts if isinstance(part, Reference)}
    tags = list(re.finditer(_TAG, text)) if text.count(OPEN) > len(whole) else []
    yield from (found for tag in tags if tag.start() not in whole and (found := _tag(tag, is_command, job)))
    braces = list(re.finditer(_BRACES, text)) if "{{" in text else []
    yield from (found for match in braces if (found := _braces(match, is_command, job)))
    rest = "".join(part for part in parts if isinstance(part, str))
    if is_command and any(root in rest for root in _GIVEN):
        taken = [*whole.items(), *(match.span() for match in (*tags, *braces))]
        yield from (bare for bare in _bare(text, job) if not any(start <= bare.offset < end for start, end in taken))


def _bare(text: str, job: Mapping[str, Any]) -> Iterator[_LikeReference]:
    """`$parameters.x` without a tag, unless the script sets a variable of that name."""
    for bare in re.finditer(_BARE, text):
        if not re.search(rf"\b{bare[1]}=", text) and _first(bare[2]) in mapping(job.get(bare[1])):
            meant = _written(bare[1], bare[2])
            what = f"the shell reads {quote(bare[0])} as its variable {bare[1]!r}; write {meant}"
            yield _LikeReference(bare[0], bare.start(), what, meant)


def _tag(tag: re.Match[str], is_command: bool, job: Mapping[str, Any]) -> _LikeReference | None:
    body = tag[1].strip()
    if body.startswith("this") and not body[4:5].isalnum():
        what = "'this' works only inside a prerequisite; in a command the text is not replaced"
        return _LikeReference(tag[0], tag.start(), what) if is_command else None
    if marked := re.match(_MARKED, body):
        return _other_brackets(tag, marked[1], marked[2], job)
    match = re.fullmatch(_BODY, body)
    if not match:
        return None
    dollar, word, below = match.groups()
    root = _root(word)
    if root and below:
        meant = _written(root, below)
        # JavaScript templates may use the same names: `<% data.x %>`.
        sure = bool(dollar) or (root in _GIVEN and (word == root or _first(below) in mapping(job.get(root))))
        what = f"{quote(tag[0])} is not a reference; write {meant}"
        return _LikeReference(tag[0], tag.start(), what, meant, ERROR if sure else WARNING)
    if dollar:
        roots = ", ".join(f"${root}" for root in ROOTS)
        what = f"{quote(tag[0])} is not a reference and is not replaced; references start with one of {roots}"
        return _LikeReference(tag[0], tag.start(), what)
    return None


def _braces(match: re.Match[str], is_command: bool, job: Mapping[str, Any]) -> _LikeReference | None:
    """Double braces belong to other programs, unless they enclose the name of one of the job's values."""
    outer, dollar, word, below = match.groups()
    if not below:
        is_known = is_command and word in mapping(job.get("parameters"))  # elsewhere it is a template variable
        return _other_brackets(match, "parameters", f".{word}", job) if is_known else None
    return _other_brackets(match, word, below, job, bool(outer or dollar))


def _other_brackets(
    match: re.Match[str], word: str, below: str, job: Mapping[str, Any], sure: bool = False
) -> _LikeReference | None:
    root = _root(word)
    if root is None or not (sure or _first(below) in mapping(job.get(root))):
        return None
    meant = _written(root, below)
    what = f"{quote(match[0])} is not replaced; for a reference, write {meant}"
    return _LikeReference(match[0], match.start(), what, meant)


def _root(word: str) -> str | None:
    """The root that a word names, perhaps abbreviated or misspelled; None if there is none."""
    return word if word in ROOTS else _ABBREVIATIONS.get(word.lower()) or mistyped(word, ROOTS)


def _first(below: str) -> str:
    """The first name in `.a.b` or `[0].b`."""
    return re.split(r"[\s.\[\]]+", below)[1]


def _written(root: str, below: str) -> str:
    return f"<% ${root}{''.join(below.split())} %>"
