"""Every error kedge raises on purpose, and the exit code each one means.

    KedgeError
    ├── InputError      2   the job file, an option or a name is wrong; carries every Problem found
    └── CannotRun       4   the input is right, but it cannot run here: no engine, too few ports, GPUs, ...
        ├── DiskFull    4   a file could not be written because the file system is full
        └── Unreachable 4   a place that the job names does not answer, or not with what it should; later it may

A job that ran and failed, or was stopped, is a result and no error: exit code 1. Anything else that escapes is a bug in
kedge (exit code 3). Interrupted by the user is 130.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INPUT = 2
EXIT_BUG = 3
EXIT_CANNOT_RUN = 4
EXIT_INTERRUPTED = 130

# What kind of problem it is, by the names and for the status codes of the protocol's REST API.
INVALID = "InvalidProtocolError"  # 400
FORBIDDEN = "ForbiddenUserError"  # 403
NOT_FOUND = "NoPrerequisiteError"  # 404
NO_STORAGE = "NoStorageError"  # 404
UNKNOWN = "UnknownError"  # 502: another machine is at fault

ERROR = "error"
WARNING = "warning"  # the job can run, but it says something that hardly anybody means


class Problem(NamedTuple):
    """One thing that is wrong with an input, and where.

    `line` and `column` count from 1; 0 means the file as a whole. `where` is the path to the key, as in
    `taskRoles.worker.commands[0]`, or empty. `excerpt` is the source line, without its newline.
    `code` is INVALID or another name above, `severity` ERROR or WARNING. `suggestion` is what to write instead, where
    that is known; the message says it, too.
    """

    file: str
    line: int
    column: int
    where: str
    message: str
    excerpt: str = ""
    code: str = INVALID
    severity: str = ERROR
    suggestion: str | None = None

    def __str__(self) -> str:
        position = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        head = ": ".join(part for part in (position, self.where, self.message) if part)
        if not self.excerpt:
            return head
        line = self.excerpt.replace("\t", " ")
        return f"{head}\n    {line}\n    {' ' * (self.column - 1)}^"

    def to_json(self) -> dict[str, Any]:
        """For editors and CI: line and column are null for the file as a whole."""
        return {
            "severity": self.severity,
            "file": self.file,
            "line": self.line or None,
            "column": self.column or None,
            "path": self.where,
            "message": self.message,
            "suggestion": self.suggestion,
        }


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By place; what an alias repeats in several paths is told once."""
    unique = {(p.file, p.line, p.column, p.message): p for p in reversed(list(problems))}
    return sorted(unique.values(), key=lambda p: (p.line, p.column, p.where))


class KedgeError(Exception):
    """Base of all errors that are for the user to read; `exit_code` is what the process ends with."""

    exit_code = EXIT_BUG


class InputError(KedgeError):
    """What the user wrote is wrong. `problems` holds all that was found, in the order of the file."""

    exit_code = EXIT_INPUT

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class CannotRun(KedgeError):
    """The job is right, but this machine or engine cannot run it."""

    exit_code = EXIT_CANNOT_RUN


class DiskFull(CannotRun):
    """A file could not be written: its file system is full, the quota used up, or it is as large as it may be."""


class Unreachable(CannotRun):
    """What a job names on another machine cannot be had now. `problems` are all such things, each with its place."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
