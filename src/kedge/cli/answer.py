"""The one answer to why a job failed, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from kedge.cli.words import home

_LABEL_WIDTH = 12
_LONGEST_QUOTE = 200
BEHAVIOUR_COLOURS = {"transient": "yellow", "permanent": "red", "unknown": "magenta"}


def print_answer(console: Console, report: dict[str, Any]) -> None:
    """Root cause, what to do, and what followed from it, of a report (see docs/reports.md)."""
    if root := report["root"]:
        rows(console, "Root cause", _root(root, report.get("text") or ""))
        rows(console, "Do", [Text(step) for step in root["remedy"]])
    if others := report["others"]:
        rows(console, "Because", [_others(others)])


def _root(root: dict[str, Any], said: str) -> Iterable[Text]:
    head = Text(root["task"], style="bold").append("   ").append(root["cause"], style="bold")
    head.append(f" ({root['behavior']}, {root['confidence']})", BEHAVIOUR_COLOURS[root["behavior"]])
    yield head
    yield Text(root["meaning"])
    if root["evidence"]:
        first = root["evidence"][0]
        frame = f"{root['frame']}   " if root["frame"] else ""
        yield Text(f"{frame}{_cut(first['text'])}", style="bold")
        yield Text(f"{home(first['file'])}, line {first['line']}", style="dim")
    elif (message := root.get("message")) and message not in said:
        yield Text(message, style="bold")


def _others(others: list[dict[str, Any]]) -> Text:
    count = sum(other["count"] for other in others)
    what = ", ".join(f"{other['kind']} ×{other['count']}" for other in others)
    tasks = "1 other task" if count == 1 else f"{count} other tasks"
    return Text(f"{tasks} failed or stopped after it: {what}")


def rows(console: Console, label: str, lines: Iterable[Text | str]) -> None:
    """Lines beside their label."""
    for number, line in enumerate(lines):
        head = f"{label if number == 0 else '':<{_LABEL_WIDTH}}"
        console.print(Text.assemble((head, "bold cyan"), line))


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
