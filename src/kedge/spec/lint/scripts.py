"""The shell scripts of a job as one will run them, and which place of the file each of their lines comes from."""

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

# What gets its value later, or has one now; and tags that stay as they are, about which there are other warnings.
_INSERTED = rf"(?s)<%.*?%>|{TOKEN.pattern}"
_UNKNOWN = "x"  # in place of a value that is not known yet
# What no shell can refuse needs no process: plain words, quoted texts and variables, with simple operators between,
# and no word that may be a keyword. Most commands are such.
_QUOTED = r"""'[^'\n]*'|"(?:[^"$`\\\n]|\$\w+|\$\{\w+\})*"|\$\w+|\$\{\w+\}"""
_OPERATORS = r"(?<=[\w.*]) *(?:&&|\|\||[|;]|[12]?>>?) +(?=[\w./])|(?<=[\w.*]) +[12]>&[12](?=\s|$)"
_PLAIN = frozenset(string.ascii_letters + string.digits + " \n\t_./:,@%+=~^*?-")
_KEYWORDS = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "select",
    "function", "coproc", "time",
})  # fmt: skip


class ScriptLine(NamedTuple):
    """Where a line of a script comes from: the text at a path, and the offset of the line's first character in it."""

    path: Path
    text: str
    offset: int


class Script(NamedTuple):
    """A script, and where its lines come from."""

    text: str
    lines: tuple[ScriptLine, ...]

    def problem(self, number: int, message: str, source: JobFileSource) -> Problem:
        """A warning about a line, counted from 1; about the last one if there are fewer."""
        path, text, offset = self.lines[min(number, len(self.lines)) - 1]
        return source.warning(path, message, mark=_mark(source, path, text, offset))


def scripts(job: Mapping[str, Any], source: JobFileSource, given: Collection[str]) -> Iterator[Script]:
    """Every script of the job that a shell may refuse, each text once, those of the roles first. The values of the
    parameters that are `given` otherwise do not come from the file."""
    values = {name: value for name, value in mapping(job.get("parameters")).items() if name not in given}
    seen: set[str] = set()
    for listed in (*_commands(job), *_hooks(job)):
        script = _joined(listed, values, source)
        if script and script.text not in seen and _may_be_refused(script.text):
            seen.add(script.text)
            yield script


def _may_be_refused(text: str) -> bool:
    if not _PLAIN.issuperset(text):
        text = re.sub(_OPERATORS, " ", re.sub(_QUOTED, "q", text))
    return not _PLAIN.issuperset(text) or not _KEYWORDS.isdisjoint(text.split())


def _commands(job: Mapping[str, Any]) -> Iterator[list[tuple[Path, str]]]:
    """The lines of each role with those of the active deployment around them."""
    active = mapping(job.get("defaults")).get("deployment")
    around = [(n, item) for n, item in entries(job.get("deployments")) if active and item.get("name") == active]
    for name, role in mapping(job.get("taskRoles")).items():
        listed = list(_lines(mapping(role).get("commands"), ("taskRoles", name, "commands")))
        for index, deployment in around:
            own = mapping(mapping(deployment.get("taskRoles")).get(name))
            path: Path = ("deployments", index, "taskRoles", name)
            before = _lines(own.get("preCommands"), (*path, "preCommands"))
            listed = [*before, *listed, *_lines(own.get("postCommands"), (*path, "postCommands"))]
        yield listed


def _hooks(job: Mapping[str, Any]) -> Iterator[list[tuple[Path, str]]]:
    return (list(_lines(lines, path)) for path, lines in texts.hooks(job))


def _lines(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    return (((*path, index), line) for index, line in enumerate(items(value)) if isinstance(line, str))


def _joined(listed: Iterable[tuple[Path, str]], values: Mapping[str, Any], source: JobFileSource) -> Script | None:
    """None if a reference is broken: nobody knows what the script is then."""
    whole: list[str] = []
    lines: list[ScriptLine] = []
    for path, text in listed:
        try:
            split(text)
        except TagError:
            return None
        for part, offset in _parts(text, values, source):
            whole.append(part)
            lines.append(ScriptLine(path, text, offset))
    return Script("\n".join(whole) + "\n", tuple(lines)) if whole else None


def _parts(text: str, values: Mapping[str, Any], source: JobFileSource) -> Iterator[tuple[str, int]]:
    """The lines of a text with values in place, each with its offset. A value stands in one line."""
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
    """The value of a parameter of one line; a quote in it means something to the shell."""
    for part in split(tag):
        if isinstance(part, Reference) and part.root == "parameters":
            found = lookup(part, values, source.marks, ("parameters",))
            if isinstance(found, str) and "\n" not in found:
                return found
    return _UNKNOWN


def _mark(source: JobFileSource, path: Path, text: str, offset: int) -> Mark | None:
    line = text[offset:].partition("\n")[0].strip()
    return locate(source, path, line, text.count(line, 0, offset)) if line else None
