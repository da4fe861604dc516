"""Prints why a job failed, for people."""

from __future__ import annotations

from collections.abc import Iterable

from kedge.cli.view.styled_text import Text
from kedge.cli.view.tables import show, wrapped
from kedge.cli.view.wording import home
from kedge.runs import explanation
from kedge.runs.job_report import JobReport, LaterFailures, RootCause
from kedge.terminal_text import one_line

_LABEL_WIDTH = 12
BEHAVIOUR_COLOURS = {"transient": "yellow", "permanent": "red", "unknown": "magenta"}


def print_report(report: JobReport) -> None:
    """Print a report's root cause, what to do, and the failures that followed (see docs/reports.md)."""
    if report.root:
        print_root(report.root, explanation.label(report.state), report.text or "")
    rows("Look at", explanation.suspects(report.suspects))
    print_others(report.others)


def print_root(root: RootCause, label: str, verdict: str = "") -> None:
    """Print a root cause and what to do. A text that `verdict` includes is left out."""
    rows(label, _root(root, verdict))
    rows("Last words", explanation.last_words(root, home))
    rows("Log", filter(None, [explanation.place(root, home)]))
    rows("Do", root.remedy)


def print_others(others: Iterable[LaterFailures]) -> None:
    """Print the failures that followed from the root."""
    rows("After it", filter(None, [explanation.others(others)]))


def _root(root: RootCause, verdict: str) -> Iterable[Text | str]:
    yield Text(root.task or "the whole job", style="bold").append("   ").append(_cause(root))
    if meaning := explanation.meaning(root):
        yield meaning
    if quote := explanation.quote(root, verdict, home):
        yield Text(one_line(quote), style="bold")
    yield from explanation.where(root)


def _cause(root: RootCause) -> Text:
    if not root.is_known:
        return Text("not recognised", "bold").append(f": {one_line(explanation.ending(root))}")
    return Text(root.cause, "bold").append(f" ({explanation.certainty(root)})", BEHAVIOUR_COLOURS[root.behavior])


def rows(label: str, lines: Iterable[Text | str]) -> None:
    """Print lines beside their label; on a terminal they are wrapped between words."""
    parts = (part for line in lines for part in wrapped(line, indent=_LABEL_WIDTH))
    for number, part in enumerate(parts):
        head = f"{label if number == 0 else '':<{_LABEL_WIDTH}}"
        show(Text.assemble((head, "bold cyan"), part))
