"""The wording of a failure report, shared by the terminal and report.md (see docs/reports.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from kedge.contract import USER_SCRIPT
from kedge.late_patterns import late_pattern
from kedge.runs.job_report import AbsentTask, LaterFailures, RootCause
from kedge.states import State
from kedge.terminal_text import one_line

# bash and busybox: `…/user.sh: line 7: what`; dash: `…/user.sh: 7: what`
SCRIPT_LINE = late_pattern(rf"(?:\S*/)?{re.escape(USER_SCRIPT)}: (?:line )?(\d+)(?=:)", re.ASCII)
_UNKNOWN = "unknown"  # as a cause
_LONGEST_QUOTE = 300
_NAMED_BY_LAUNCHER = "rank "  # unlike a rank before the line itself, such as rank3
_NOTHING = "none: it printed nothing"
_SUSPECTS = {
    "silent": "the others waited for it, and it printed nothing",
    "left": "the others waited for it, but it had already ended",
}
_RUNTIME_PREFIX = late_pattern(r"^\[[^\]]{1,60}\] \[openpai-runtime\] (?:\[[A-Z]+\] )?")


def label(state: State | None = None) -> str:
    """The heading of the root: the job itself may have succeeded by its completion policy."""
    return "Failed task" if state == State.SUCCEEDED else "Root cause"


def ending(root: RootCause) -> str:
    """How a task ended whose log does not show the cause."""
    return root.message or (f"exit code {root.exit_code}" if root.exit_code else "the log does not show why")


def certainty(root: RootCause) -> str:
    """`permanent, likely`"""
    return f"{root.behavior}, {root.confidence}"


def meaning(root: RootCause) -> str:
    """The meaning of the cause or, without one, of the exit code."""
    return root.meaning if root.is_known else root.exit_meaning


def quote(root: RootCause, verdict: str, shown: Callable[[str], str] = str) -> str:
    """The log line that shows the cause, with line numbers of the command's script replaced by those of the job file.
    Without such a line, how the task ended, unless the verdict or the meaning includes it. `shown` formats paths for
    people."""
    if not root.is_known:
        return ""
    if not root.evidence:
        message, code = root.message or "", root.exit_meaning
        if code:
            return f"{message}: {code}"
        return message if message.lower() not in f"{verdict}\n{root.meaning or ''}".lower() else ""
    return _at_job_line(root, root.evidence[0].text, shown)


def _at_job_line(root: RootCause, text: str, shown: Callable[[str], str]) -> str:
    line = root.job_line
    return cut(text if line is None else SCRIPT_LINE.sub(lambda _: shown(line), text, count=1))


def where(root: RootCause) -> list[str]:
    """The frame or hook in which the task failed, the rank that MPI's launcher named, and the tasks that no longer took
    part."""
    in_hook = root.frame.startswith("hook ") and not root.is_known  # the message then names the hook
    return [
        *([f"in {root.frame}"] if root.frame and not in_hook else []),
        *([f"failed first: {root.rank}"] if root.rank.startswith(_NAMED_BY_LAUNCHER) else []),
        *([f"no longer took part: {', '.join(root.missing)}"] if root.missing else []),
    ]


def last_words(root: RootCause, shown: Callable[[str], str] = str) -> list[str]:
    """The last lines of the log, if no cause was found."""
    if root.is_known:
        return []
    quoted = [one.text for one in root.evidence[:1]]  # the only line that `job_line` can refer to
    texts = [one.text for one in root.last_words]
    return [_at_job_line(root, text, shown) if text in quoted else cut(text) for text in texts] or [_NOTHING]


def place(root: RootCause, shown: Callable[[str], str] = str) -> str:
    """The file and line of the quote or of the last line of the log; empty if there is none."""
    quotes = root.evidence[:1] if root.is_known else root.last_words[-1:]
    unread = root.unread_bytes
    rest = f" ({unread:,} bytes before it were not read)" if unread else ""
    return f"{shown(quotes[0].file)}:{quotes[0].line}{rest}" if quotes else ""


def suspects(tasks: Iterable[AbsentTask]) -> list[str]:
    """The tasks that the root waited for in vain, with the reason to look at them."""
    return [f"{one.task}: {_SUSPECTS[one.kind]}" for one in tasks]


def others(failures: Iterable[LaterFailures]) -> str:
    """`7 other tasks failed or were stopped: nccl_timeout ×6, stopped ×1`; empty if there are none."""
    kinds = {one.kind: len(one.tasks) for one in failures}
    if not kinds:
        return ""
    count = sum(kinds.values())
    tasks, were = ("1 other task", "was") if count == 1 else (f"{count} other tasks", "were")
    named = {"not recognised" if kind == _UNKNOWN else kind: number for kind, number in kinds.items()}
    failed = ", ".join(kind if count == 1 else f"{kind} ×{number}" for kind, number in named.items())
    if State.STOPPED not in kinds:
        return f"{tasks} failed: {failed}"
    return f"{tasks} {were} stopped" if len(kinds) == 1 else f"{tasks} failed or {were} stopped: {failed}"


def cut(text: str) -> str:
    """A log line without the runtime's prefix, cut to a few lines of a terminal."""
    text = one_line(_RUNTIME_PREFIX.sub("", text.strip()))
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
