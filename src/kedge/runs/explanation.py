"""The wording of a failure report, shared by the terminal and report.md (see docs/reports.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kedge.contract import USER_SCRIPT
from kedge.states import State
from kedge.terminal_text import one_line

# bash and busybox: `…/user.sh: line 7: what`; dash: `…/user.sh: 7: what`
SCRIPT_LINE = re.compile(rf"(?:\S*/)?{re.escape(USER_SCRIPT)}: (?:line )?(\d+)(?=:)", re.ASCII)
_UNKNOWN = "unknown"  # the cause if none was found
_LONGEST_QUOTE = 300
_NOTHING = "none: it printed nothing"
_SUSPECTS = {
    "silent": "the others waited for it, and it printed nothing",
    "left": "the others waited for it, but it had already ended",
}
_RUNTIME_PREFIX = re.compile(r"^\[[^\]]{1,60}\] \[openpai-runtime\] (?:\[[A-Z]+\] )?")
Root = Mapping[str, Any]


def label(report: Mapping[str, Any]) -> str:
    """The heading of the root: the job itself may have succeeded by its completion policy."""
    return "Failed task" if report.get("state") == State.SUCCEEDED else "Root cause"


def known(root: Root) -> bool:
    """Whether a cause was found; otherwise the task's end and the last lines of its log are shown."""
    return bool(root["cause"] != _UNKNOWN)


def ending(root: Root) -> str:
    """How a task ended whose log does not show the cause."""
    code = root["exit_code"]
    return root.get("message") or (f"exit code {code}" if code else "the log does not show why")


def certainty(root: Root) -> str:
    """`permanent, likely`"""
    return f"{root['behavior']}, {root['confidence']}"


def meaning(root: Root) -> str:
    """The meaning of the cause or, without one, of the exit code."""
    text: str = root["meaning"] if known(root) else root.get("exit_meaning", "")
    return text


def quote(root: Root, verdict: str, shown: Callable[[str], str] = str) -> str:
    """The log line that shows the cause, with line numbers of the command's script replaced by those of the job file.
    Without such a line, how the task ended, unless the verdict includes it. `shown` formats paths for people."""
    if not known(root):
        return ""
    if not root["evidence"]:
        message, code = root.get("message") or "", root.get("exit_meaning")
        return f"{message}: {code}" if code else message if message not in verdict else ""
    return _at_job_line(root, root["evidence"][0]["text"], shown)


def _at_job_line(root: Root, text: str, shown: Callable[[str], str]) -> str:
    line = root.get("job_line")
    return cut(text if line is None else SCRIPT_LINE.sub(lambda _: shown(line), text, count=1))


def where(root: Root) -> list[str]:
    """The frame or hook in which the task failed, and the tasks that no longer took part."""
    frame, missing = root["frame"], root.get("missing")
    in_hook = frame.startswith("hook ") and not known(root)  # the message then names the hook
    return [
        *([f"in {frame}"] if frame and not in_hook else []),
        *([f"no longer took part: {', '.join(missing)}"] if missing else []),
    ]


def last_words(root: Root, shown: Callable[[str], str] = str) -> list[str]:
    """The last lines of the log, if no cause was found."""
    if known(root):
        return []
    quoted = [one["text"] for one in root["evidence"][:1]]  # the only line that `job_line` can refer to
    texts = [one["text"] for one in root.get("last_words", ())]
    return [_at_job_line(root, text, shown) if text in quoted else cut(text) for text in texts] or [_NOTHING]


def place(root: Root, shown: Callable[[str], str] = str) -> str:
    """The file and line of the quote or of the last line of the log; empty if there is none."""
    quotes = root["evidence"][:1] if known(root) else root.get("last_words", ())[-1:]
    unread = root.get("unread_bytes", 0)
    rest = f" ({unread:,} bytes before it were not read)" if unread else ""
    return f"{shown(quotes[0]['file'])}:{quotes[0]['line']}{rest}" if quotes else ""


def suspects(report: Mapping[str, Any]) -> list[str]:
    """The tasks that the root waited for in vain, with the reason to look at them."""
    return [f"{one['task']}: {_SUSPECTS[one['kind']]}" for one in report.get("suspects") or ()]


def others(report: Mapping[str, Any]) -> str:
    """`7 other tasks failed or were stopped: nccl_timeout ×6, stopped ×1`; empty if there are none."""
    return _counted(report["others"]) if report["others"] else ""


def _counted(others: Iterable[Mapping[str, Any]]) -> str:
    kinds = {other["kind"]: other["count"] for other in others}
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
