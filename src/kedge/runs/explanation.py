"""Why a job failed, in words: what a terminal and report.md both show of a report (see docs/reports.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kedge.contract import USER_SCRIPT
from kedge.runs.status import SUCCEEDED
from kedge.terminal_text import one_line

# bash and busybox: `…/user.sh: line 7: what`; dash: `…/user.sh: 7: what`
SCRIPT_LINE = re.compile(rf"(?:\S*/)?{re.escape(USER_SCRIPT)}: (?:line )?(\d+)(?=:)", re.ASCII)
_UNKNOWN = "unknown"  # as a cause: none was found
_LONGEST_QUOTE = 300
_NOTHING = "none: it printed nothing"
_SUSPECTS = {
    "silent": "the others waited for it, and it printed nothing",
    "left": "the others waited for it, but it had already ended",
}
_RUNTIME_PREFIX = re.compile(r"^\[[^\]]{1,60}\] \[openpai-runtime\] (?:\[[A-Z]+\] )?")
Root = Mapping[str, Any]


def label(report: Mapping[str, Any]) -> str:
    """What the root is called: the job itself may have succeeded, by its completion policy."""
    return "Failed task" if report.get("state") == SUCCEEDED else "Root cause"


def known(root: Root) -> bool:
    """Whether there is a cause; else the end of the task and its last words are shown."""
    return bool(root["cause"] != _UNKNOWN)


def ending(root: Root) -> str:
    """How a task ended whose log does not tell why."""
    code = root["exit_code"]
    return root.get("message") or (f"exit code {code}" if code else "the log does not tell why")


def certainty(root: Root) -> str:
    """`permanent, likely`"""
    return f"{root['behavior']}, {root['confidence']}"


def meaning(root: Root) -> str:
    """What the cause means or, without one, the exit code."""
    text: str = root["meaning"] if known(root) else root.get("exit_meaning", "")
    return text


def quote(root: Root, verdict: str, shown: Callable[[str], str] = str) -> str:
    """The line that tells the cause, with a line of the command's script as that of the job file; without such a line,
    how the task ended, unless the verdict says so. `shown` makes a path what people are to see."""
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
    """In which frame or hook it failed, and without whom."""
    frame, missing = root["frame"], root.get("missing")
    in_hook = frame.startswith("hook ") and not known(root)  # then the message names it
    return [
        *([f"in {frame}"] if frame and not in_hook else []),
        *([f"no longer took part: {', '.join(missing)}"] if missing else []),
    ]


def last_words(root: Root, shown: Callable[[str], str] = str) -> list[str]:
    """The end of the log, where it tells no more than that."""
    if known(root):
        return []
    told = [one["text"] for one in root["evidence"][:1]]  # the only line that `job_line` can be about
    words = [(one["text"], one["text"] in told) for one in root.get("last_words", ())]
    return [_at_job_line(root, text, shown) if is_told else cut(text) for text, is_told in words] or [_NOTHING]


def place(root: Root, shown: Callable[[str], str] = str) -> str:
    """The file and line of the quote or of the last words; empty if there is none."""
    told = root["evidence"][:1] if known(root) else root.get("last_words", ())[-1:]
    unread = root.get("unread_bytes", 0)
    rest = f" ({unread:,} bytes before it were not read)" if unread else ""
    return f"{shown(told[0]['file'])}:{told[0]['line']}{rest}" if told else ""


def suspects(report: Mapping[str, Any]) -> list[str]:
    """For whom the root only waited in vain."""
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
    if "stopped" not in kinds:
        return f"{tasks} failed: {failed}"
    return f"{tasks} {were} stopped" if len(kinds) == 1 else f"{tasks} failed or {were} stopped: {failed}"


def cut(text: str) -> str:
    """A line of a log without what the runtime puts before it, and no longer than a few lines of a terminal."""
    text = one_line(_RUNTIME_PREFIX.sub("", text.strip()))
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
