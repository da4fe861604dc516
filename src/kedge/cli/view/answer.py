"""Prints why a job failed, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from kedge.cli.view.tables import wrapped
from kedge.cli.view.wording import home
from kedge.runs import explanation
from kedge.terminal_text import one_line

_LABEL_WIDTH = 12
BEHAVIOUR_COLOURS = {"transient": "yellow", "permanent": "red", "unknown": "magenta"}


def print_answer(console: Console, report: Mapping[str, Any]) -> None:
    """Print a report's root cause, what to do, and the failures that followed (see docs/reports.md)."""
    if root := report["root"]:
        rows(console, explanation.label(report), _root(root, report.get("text") or ""))
        rows(console, "Last words", explanation.last_words(root, home))
        rows(console, "Log", filter(None, [explanation.place(root, home)]))
        rows(console, "Do", root["remedy"])
    rows(console, "Look at", explanation.suspects(report))
    rows(console, "After it", filter(None, [explanation.others(report)]))


def _root(root: Mapping[str, Any], verdict: str) -> Iterable[Text | str]:
    yield Text(root["task"], style="bold").append("   ").append(_cause(root))
    if meaning := explanation.meaning(root):
        yield meaning
    if quote := explanation.quote(root, verdict, home):
        yield Text(one_line(quote), style="bold")
    yield from explanation.where(root)


def _cause(root: Mapping[str, Any]) -> Text:
    if not explanation.known(root):
        return Text("not recognised", "bold").append(f": {one_line(explanation.ending(root))}")
    return Text(root["cause"], "bold").append(f" ({explanation.certainty(root)})", BEHAVIOUR_COLOURS[root["behavior"]])


def rows(console: Console, label: str, lines: Iterable[Text | str]) -> None:
    """Print lines beside their label; on a terminal they are wrapped between words."""
    parts = (part for line in lines for part in wrapped(line, indent=_LABEL_WIDTH))
    for number, part in enumerate(parts):
        head = f"{label if number == 0 else '':<{_LABEL_WIDTH}}"
        console.print(Text.assemble((head, "bold cyan"), part))
