"""The text of a hook's script: shell options, and traps that report to the supervisor how the script ended.

The traps run whatever ends the script, `exit 0` included. They write to a descriptor that the script inherits: the line
or the command that failed and, after a start hook, the exported environment (by report_environment.py). bash reports
the failed command, busybox's sh the failed line; dash reports neither, so there the line is known only if the script
has just one.
"""

from __future__ import annotations

import os
import sys

from kedge.contract import SHELVED, Text, render_text, show_text
from kedge.light.types import Iterable, Mapping, NamedTuple
from kedge.peers import quote

LINE, COMMAND, ENVIRONMENT = b"L", b"C", b"E"  # the first byte of each message; each message ends with NUL
HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "report_environment.py")
_LONGEST_LINE = 300  # characters

# Variables that shells set themselves, and their options.
_SET_BY_SHELLS = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS"})


class ScriptReport(NamedTuple):
    """What the traps reported: the number of the first line that failed, the last command of a failed script (used
    where no line is reported: after `exit`, and inside a function), and the exported environment."""

    line: int | None = None
    command: str | None = None
    environment: dict[str, str] | None = None


def text(script: Text, *, failure_ignored: bool, bash: bool, environment: bool, fd: int) -> Text:
    """The whole script. If failures are ignored, a failing command does not end it. `environment` makes it report the
    exported variables to `fd`."""
    head, at_end = "", []
    if bash:
        head = f"trap {quote(_report(LINE, '$LINENO', fd))} ERR\n"
        at_end.append(f"[ $? -eq 0 ] || {_report(COMMAND, '$BASH_COMMAND', fd)}")
    else:  # other shells cannot redirect to descriptors above 9
        at_end.append(f'[ $? -eq 0 ] || {{ printf "L%s\\0" "$LINENO" >/proc/self/fd/{fd}; }} 2>/dev/null')
    if environment:
        at_end.append(f"{quote(sys.executable)} -I -S {quote(HELPER)} {fd} {SHELVED} || :")
    head += f"trap {quote('; '.join(at_end))} EXIT\n"
    return (head, "" if failure_ignored else "set -o errexit\n", *script)


def parse(data: bytes) -> ScriptReport:
    """Parse what a script's traps wrote. Incomplete messages are ignored."""
    report = ScriptReport()
    parts = iter(data.split(b"\0")[:-1])
    for part in parts:
        if part.startswith(LINE) and report.line is None and part[1:].isdigit():
            report = report._replace(line=int(part[1:]))
        elif part.startswith(COMMAND):
            report = report._replace(command=part[1:].decode(errors="replace"))
        elif part.startswith(ENVIRONMENT):
            report = report._replace(environment=_variables(part[1:], parts) or report.environment)
    return report


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """The variables that a hook exported or (as None) unset. Names that no shell variable can have are left alone,
    because some shells drop them from the environment."""
    changed: dict[str, str | None] = {name: value for name, value in after.items() if before.get(name) != value}
    changed |= {name: None for name in before if name not in after}
    return {name: value for name, value in changed.items() if name.isidentifier() and name not in _SET_BY_SHELLS}


def failed_line(whole: Text, script: Text, secrets: Mapping[str, str], report: ScriptReport) -> str | None:
    """The line of the user's script that failed, with secrets shown as their tags. `whole` is the script with the
    runtime's own lines. None if the line is not known."""
    rendered, shown = (each.split("\n") for each in (render_text(whole, secrets), show_text(whole)))
    if len(rendered) != len(shown):  # a secret of several lines
        return None
    number = report.line or _find(rendered, report.command or "")
    own_lines = len(shown) - len(show_text(script).split("\n"))
    lines = shown[number - 1 : number] if number > own_lines else [line for line in shown[own_lines:] if line.strip()]
    return lines[0].strip()[:_LONGEST_LINE] if len(lines) == 1 else None


def _find(lines: list[str], command: str) -> int:
    """The number of the line that contains a command, or 0. Blanks are ignored, because bash reformats commands."""
    wanted = _without_blanks(command.split("\n", 1)[0])
    return next((n for n, line in enumerate(lines, 1) if wanted and wanted in _without_blanks(line)), 0)


def _without_blanks(line: str) -> str:
    return "".join(line.split())


def _report(kind: bytes, value: str, fd: int) -> str:
    return f'{{ builtin printf "{kind.decode()}%s\\0" "{value}" >&{fd}; }} 2>/dev/null'


def _variables(first: bytes, rest: Iterable[bytes]) -> dict[str, str] | None:
    """The variables up to the empty entry that ends them. None if that entry is missing."""
    variables: dict[str, str] = {}
    entry = first
    for following in rest:
        name, _, value = os.fsdecode(entry).partition("=")
        variables[name] = value
        if not following:
            return variables
        entry = following
    return None
