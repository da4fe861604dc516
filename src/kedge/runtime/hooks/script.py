"""The text of a hook's script: options in front, and traps that tell the supervisor how it ended.

They run whatever ends the script, `exit 0` too. They write to a descriptor that the script inherits: the line or the
command that failed, and after a start hook the runtime's own helper the environment that the shell exports. bash says
what failed, busybox's sh in which line; of dash only a script of one line tells it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kedge.contract import Text, render_text, show_text
from kedge.runtime.setup.environment import quote

LINE, COMMAND, ENVIRONMENT = b"L", b"C", b"E"  # how the messages begin; each ends with NUL
HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "report_environment.py")
_LONGEST_LINE = 300  # characters

# What shells set for themselves, and their options.
_OF_THE_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS"})


class Told(NamedTuple):
    """What came through the descriptor: the number of the first line that failed, the last command of a script that
    failed (where no line is told: after `exit`, and inside of a function), the exported environment."""

    line: int | None = None
    command: str | None = None
    environment: dict[str, str] | None = None


def text(script: Text, *, forgiven: bool, bash: bool, environment: bool, fd: int) -> Text:
    """The whole script. Under `ignore` (`forgiven`) a failing command does not end it."""
    head, at_end = "", []
    if bash:
        head = f"trap {quote(_tell(LINE, '$LINENO', fd))} ERR\n"
        at_end.append(f"[ $? -eq 0 ] || {_tell(COMMAND, '$BASH_COMMAND', fd)}")
    else:  # these take no descriptor of two digits
        at_end.append(f'[ $? -eq 0 ] || {{ printf "L%s\\0" "$LINENO" >/proc/self/fd/{fd}; }} 2>/dev/null')
    if environment:
        at_end.append(f"{quote(sys.executable)} -I -S {quote(HELPER)} {fd} || :")
    head += f"trap {quote('; '.join(at_end))} EXIT\n"
    return (head, "" if forgiven else "set -o errexit\n", *script)


def parse(data: bytes) -> Told:
    """What a script has told. What is cut short does not count."""
    told = Told()
    parts = iter(data.split(b"\0")[:-1])
    for part in parts:
        if part.startswith(LINE) and told.line is None and part[1:].isdigit():
            told = told._replace(line=int(part[1:]))
        elif part.startswith(COMMAND):
            told = told._replace(command=part[1:].decode(errors="replace"))
        elif part.startswith(ENVIRONMENT):
            told = told._replace(environment=_variables(part[1:], parts) or told.environment)
    return told


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """What a hook has exported or, as None, unset. Names that no shell variable can have are left as they are:
    some shells drop them."""
    found: dict[str, str | None] = {name: value for name, value in after.items() if before.get(name) != value}
    found |= {name: None for name in before if name not in after}
    return {name: value for name, value in found.items() if name.isidentifier() and name not in _OF_THE_SHELL}


def failed_line(whole: Text, script: Text, secrets: Mapping[str, str], told: Told) -> str | None:
    """The line of a script that failed, as the user wrote it, secrets as their tags. `whole` is its `text`. None if it
    cannot be told."""
    rendered, shown = (each.split("\n") for each in (render_text(whole, secrets), show_text(whole)))
    if len(rendered) != len(shown):  # a secret of several lines
        return None
    number, ours = told.line or _find(rendered, told.command or ""), len(shown) - len(show_text(script).split("\n"))
    lines = shown[number - 1 : number] if number > ours else [line for line in shown[ours:] if line.strip()]
    return lines[0].strip()[:_LONGEST_LINE] if len(lines) == 1 else None


def _find(lines: list[str], command: str) -> int:
    """The number of the line that holds a command, 0 if none does. bash formats commands anew, so blanks are left
    out."""
    wanted = _squeezed(command.split("\n", 1)[0])
    return next((n for n, line in enumerate(lines, 1) if wanted and wanted in _squeezed(line)), 0)


def _squeezed(line: str) -> str:
    return "".join(line.split())


def _tell(kind: bytes, value: str, fd: int) -> str:
    return f'{{ builtin printf "{kind.decode()}%s\\0" "{value}" >&{fd}; }} 2>/dev/null'


def _variables(first: bytes, rest: Iterable[bytes]) -> dict[str, str] | None:
    """Up to the empty entry at the end; None if that is missing."""
    variables: dict[str, str] = {}
    entry = first
    for following in rest:
        name, _, value = os.fsdecode(entry).partition("=")
        variables[name] = value
        if not following:
            return variables
        entry = following
    return None
