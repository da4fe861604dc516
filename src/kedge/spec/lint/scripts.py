"""The shell scripts of a job as a shell will run them, and the place in the file of each of their lines."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kedge.errors import Problem
from kedge.spec.lint import texts
from kedge.spec.model import JobFileSource, Mark, Path
from kedge.spec.references import SPACE, Reference, TagError, locate, lookup, split
from kedge.spec.tolerant import entries, items, mapping
from kedge.spec.yaml_escapes import TOKEN

# References, template variables, and tags that stay as they are (other checks warn about those).
_INSERTED = rf"(?s)<%.*?%>|{TOKEN.pattern}"
_UNKNOWN = "x"  # stands in for a value that is not known yet
# Most scripts cannot have a syntax error and need no shell to check them: plain words, quoted text and variables,
# joined by simple operators, without keywords.
_QUOTED = r"""'[^'\n]*'|"(?:[^"$`\\\n]|\$\w+|\$\{\w+\})*"|\$\w+|\$\{\w+\}"""
_OPERATORS = r"(?<=[\w.*]) *(?:&&|\|\||[|;]|[12]?>>?) +(?=[\w./])|(?<=[\w.*]) +[12]>&[12](?=\s|$)"
_PLAIN = frozenset(string.ascii_letters + string.digits + " \n\t_./:,@%+=~^*?-")
_KEYWORDS = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "select",
    "function", "coproc", "time",
})  # fmt: skip


class ScriptLine(NamedTuple):
    """The origin of a script's line: the string at a path, and the offset of the line's first character in it."""

    path: Path
    text: str
    offset: int


class Script(NamedTuple):
    """A script, and the origins of its lines."""

    text: str
    lines: tuple[ScriptLine, ...]

    def problem(self, number: int, message: str, source: JobFileSource) -> Problem:
        """A warning about a line, counted from 1; about the last line if the number is larger."""
        path, text, offset = self.lines[min(number, len(self.lines)) - 1]
        return source.warning(path, message, mark=_mark(source, path, text, offset))


def scripts(job: Mapping[str, Any], source: JobFileSource, given: Collection[str]) -> Iterator[Script]:
    """Every script of the job that may have a syntax error, each text once, the roles' first. The names in `given` are
    parameters with values from outside the file."""
    values = {name: value for name, value in mapping(job.get("parameters")).items() if name not in given}
    seen: set[str] = set()
    for listed in (*_commands(job), *_hooks(job)):
        script = _joined(listed, values, source)
        if script and script.text not in seen and _may_be_invalid(script.text):
            seen.add(script.text)
            yield script


def _may_be_invalid(text: str) -> bool:
    if not _PLAIN.issuperset(text):
        text = re.sub(_OPERATORS, " ", re.sub(_QUOTED, "q", text))
    return not _PLAIN.issuperset(text) or not _KEYWORDS.isdisjoint(text.split())


def _commands(job: Mapping[str, Any]) -> Iterator[list[tuple[Path, str]]]:
    """The lines of each role between those of the active deployment."""
    active = mapping(job.get("defaults")).get("deployment")
    around = [(n, item) for n, item in entries(job.get("deployments")) if active and item.get("name") == active]
    for name, role in mapping(job.get("taskRoles")).items():
        listed = list(_lines(mapping(role).get("commands"), ("taskRoles", name, "commands")))
        for index, deployment in around:
            extra = mapping(mapping(deployment.get("taskRoles")).get(name))
            path: Path = ("deployments", index, "taskRoles", name)
            before = _lines(extra.get("preCommands"), (*path, "preCommands"))
            listed = [*before, *listed, *_lines(extra.get("postCommands"), (*path, "postCommands"))]
        yield listed


def _hooks(job: Mapping[str, Any]) -> Iterator[list[tuple[Path, str]]]:
    return (list(_lines(lines, path)) for path, lines in texts.hooks(job))


def _lines(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    return (((*path, index), line) for index, line in enumerate(items(value)) if isinstance(line, str))


def _joined(listed: Iterable[tuple[Path, str]], values: Mapping[str, Any], source: JobFileSource) -> Script | None:
    """The strings joined to one script; None if a reference is broken, because the script is then unknown."""
    script: list[str] = []
    lines: list[ScriptLine] = []
    for path, text in listed:
        try:
            split(text)
        except TagError:
            return None
        for line, offset in _filled_lines(text, values, source):
            script.append(line)
            lines.append(ScriptLine(path, text, offset))
    return Script("\n".join(script) + "\n", tuple(lines)) if script else None


def _filled_lines(text: str, values: Mapping[str, Any], source: JobFileSource) -> Iterator[tuple[str, int]]:
    """The lines of a text with values filled in, each with its offset. No value spans lines."""
    start = done = len(text) - len(text.lstrip(SPACE))
    line = ""
    inserted = re.finditer(_INSERTED, text) if "<%" in text or "{{" in text else ()
    for found in (*inserted, None):
        first, *others = text[done : found.start() if found else None].split("\n")
        line += first
        for other in others:
            yield line, start
            start = done = done + len(first) + 1
            line = first = other
        if found:
            line, done = line + _value(found[0], values, source), found.end()
    yield line.rstrip(SPACE), start


def _value(tag: str, values: Mapping[str, Any], source: JobFileSource) -> str:
    """The value of a tag: that of a one-line parameter (a quote in it matters to the shell), else a placeholder."""
    for part in split(tag):
        if isinstance(part, Reference) and part.root == "parameters":
            found = lookup(part, values, source.marks, ("parameters",))
            if isinstance(found, str) and "\n" not in found:
                return found
    return _UNKNOWN


def _mark(source: JobFileSource, path: Path, text: str, offset: int) -> Mark | None:
    line = text[offset:].partition("\n")[0].strip()
    return locate(source, path, line, text.count(line, 0, offset)) if line else None
