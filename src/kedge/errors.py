"""Every error that kedge raises on purpose, with its exit code.

    KedgeError
    ├── InputError      2   the job file, an option or a name is wrong; carries every Problem found
    └── CannotRun       4   the input is right, but it cannot run here: no engine, too few ports, GPUs, ...
        ├── DiskFull    4   a file could not be written because the file system is full
        └── Unreachable 4   a server that the job names does not respond, or not correctly; it may do so later

A job that ran and failed, or was stopped, is a result and not an error: exit code 1. Any other exception is a bug in
kedge (exit code 3). An interrupt by the user is 130.
"""

from __future__ import annotations

from kedge.light.types import Any, Iterable, NamedTuple

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INPUT = 2
EXIT_BUG = 3
EXIT_CANNOT_RUN = 4
EXIT_INTERRUPTED = 130

# The kinds of problems, with the names and status codes of the protocol's REST API.
INVALID = "InvalidProtocolError"  # 400
FORBIDDEN = "ForbiddenUserError"  # 403
NOT_FOUND = "NoPrerequisiteError"  # 404
NO_STORAGE = "NoStorageError"  # 404
UNKNOWN = "UnknownError"  # 502: another machine is at fault

ERROR = "error"
WARNING = "warning"  # the job can run, but the file contains something that is probably not intended


class Problem(NamedTuple):
    """One thing that is wrong with an input, and where.

    `line` and `column` count from 1; 0 means the file as a whole. `where` is the path to the key, such as
    `taskRoles.worker.commands[0]`, or empty. `excerpt` is the source line without its newline. `code` is INVALID or
    another name above, `severity` is ERROR or WARNING. `suggestion` is what to write instead, where that is known; the
    message contains it too.
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
        """The JSON form for editors and CI. Line and column are null for the file as a whole."""
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
    """Sort problems by position. A problem that an alias repeats under several paths is listed once."""
    unique = {(p.file, p.line, p.column, p.message): p for p in reversed(list(problems))}
    return sorted(unique.values(), key=lambda p: (p.line, p.column, p.where))


class KedgeError(Exception):
    """Base of all errors that are shown to the user. `exit_code` is the exit code of the process."""

    exit_code = EXIT_BUG


class InputError(KedgeError):
    """The user's input is wrong. `problems` holds everything that was found, in the order of the file."""

    exit_code = EXIT_INPUT

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class CannotRun(KedgeError):
    """The job is valid, but this machine or engine cannot run it."""

    exit_code = EXIT_CANNOT_RUN


class DiskFull(CannotRun):
    """A file could not be written: the file system is full, the quota is used up, or the file has its maximum size."""


class Unreachable(CannotRun):
    """Something that the job names on another machine is not available now. `problems` lists all such things with their
    positions."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
