"""The one answer to why a job failed, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from kedge.cli.tables import wrapped
from kedge.cli.words import home
from kedge.diagnose.model import UNKNOWN
from kedge.runs.report import FAILED_TASK, ROOT_CAUSE, SCRIPT_LINE
from kedge.runs.status import SUCCEEDED

_LABEL_WIDTH = 12
_LONGEST_QUOTE = 300
_SUSPECTS = {
    "silent": "the others waited for it, and it said nothing",
    "left": "the others waited for it, and it had ended",
}
BEHAVIOUR_COLOURS = {"transient": "yellow", "permanent": "red", "unknown": "magenta"}


def print_answer(console: Console, report: Mapping[str, Any]) -> None:
    """Root cause, what to do, and what followed from it, of a report (see docs/reports.md)."""
    if root := report["root"]:
        label = FAILED_TASK if report.get("state") == SUCCEEDED else ROOT_CAUSE
        rows(console, label, _root(root, report.get("text") or ""))
        words = _last_words(root)
        rows(console, "Last words", [_cut(quote["text"]) for quote in words])
        if told := words[-1:] or root["evidence"][:1]:
            rows(console, "Log", [_place(told[0], root.get("unread_bytes", 0))])
        rows(console, "Do", root["remedy"])
    if suspects := report.get("suspects"):
        rows(console, "Look at", [f"{one['task']}: {_SUSPECTS[one['kind']]}" for one in suspects])
    if others := report["others"]:
        rows(console, "After it", [_others(others)])


def _root(root: Mapping[str, Any], verdict: str) -> Iterable[Text]:
    yield Text(root["task"], style="bold").append("   ").append(_cause(root))
    message, unknown = root.get("message"), root["cause"] == UNKNOWN
    if meaning := root.get("exit_meaning") if unknown and message else root["meaning"] if not unknown else "":
        yield Text(meaning)
    if root["evidence"] and not _last_words(root):
        yield Text(_cut(_with_job_line(root)), style="bold")
    elif message and message not in verdict and not unknown:
        yield Text(message, style="bold")
    if root["frame"]:
        yield Text(f"in {root['frame']}")
    if root.get("missing"):
        yield Text(f"took no part any more: {', '.join(root['missing'])}")


def _last_words(root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The end of the log, where it tells no more than that."""
    return list(root.get("last_words", ())) if root["cause"] == UNKNOWN else []


def _cause(root: Mapping[str, Any]) -> Text:
    if root["cause"] == UNKNOWN:
        code = root["exit_code"]
        how = (
            root.get("message")
            or root.get("exit_meaning")
            or (f"exit code {code}" if code else "the log does not tell")
        )
        return Text("not recognised", "bold").append(f": {how}")
    sureness = f" ({root['behavior']}, {root['confidence']})"
    return Text(root["cause"], "bold").append(sureness, BEHAVIOUR_COLOURS[root["behavior"]])


def _with_job_line(root: Mapping[str, Any]) -> str:
    """The quoted line; where it names a line of the command's script, that of the job file."""
    text: str = root["evidence"][0]["text"]
    line = root.get("job_line")
    return text if line is None else SCRIPT_LINE.sub(lambda _: home(line), text, count=1)


def _place(quote: Mapping[str, Any], unread: int) -> str:
    rest = f" ({unread:,} bytes before it were not read)" if unread else ""
    return f"{home(quote['file'])}:{quote['line']}{rest}"


def _others(others: Iterable[Mapping[str, Any]]) -> str:
    """`7 other tasks failed or were stopped: nccl_timeout ×6, stopped ×1`"""
    kinds = {other["kind"]: other["count"] for other in others}
    count = sum(kinds.values())
    tasks = "1 other task" if count == 1 else f"{count} other tasks"
    if kinds.keys() == {"stopped"}:
        return f"{tasks} {'was' if count == 1 else 'were'} stopped"
    return f"{tasks} failed or {'was' if count == 1 else 'were'} stopped: " + ", ".join(
        f"{kind} ×{number}" for kind, number in kinds.items()
    )


def rows(console: Console, label: str, lines: Iterable[Text | str]) -> None:
    """Lines beside their label, on a terminal wrapped at words."""
    parts = (part for line in lines for part in wrapped(line, indent=_LABEL_WIDTH))
    for number, part in enumerate(parts):
        head = f"{label if number == 0 else '':<{_LABEL_WIDTH}}"
        console.print(Text.assemble((head, "bold cyan"), part))


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
