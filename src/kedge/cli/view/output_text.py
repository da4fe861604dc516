"""What the tasks of a run have written for its user, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kedge.cli.view.wording import count_text, size_text
from kedge.runs.outputs import OutputTotals
from kedge.terminal_text import one_line

_MOST_LINES = 5


def output_lines(found: Sequence[OutputTotals], run: str, *, more_elsewhere: bool = False) -> Iterator[str]:
    """One line for each folder, or for some of them and the rest, and where more is shown."""
    width = max((len(each.folder.name) for each in found), default=0)
    shown = found if len(found) <= _MOST_LINES else found[: _MOST_LINES - 1]
    for each in shown:
        yield f"{each.folder.name:<{width}}  {_files(each)}"
    if rest := found[len(shown) :]:
        yield f"and {total_text(rest)} of {len(rest)} more"
    if more_elsewhere:
        yield f"on a volume of the cluster, listed by kedge outputs {run}"
    elif any(each.files > len(each.largest) for each in found) or rest:
        yield f"listed by kedge outputs {run}"


def total_text(found: Sequence[OutputTotals]) -> str:
    """`12 files, 3.4 MiB` for all of them."""
    at_least = "at least " if any(each.at_least for each in found) else ""
    files, size = sum(each.files for each in found), sum(each.size for each in found)
    return f"{at_least}{count_text(files, 'file')}, {size_text(size)}"


def _files(each: OutputTotals) -> str:
    named = ", ".join(f"{one_line(file.path)} ({size_text(file.size)})" for file in each.largest)
    rest = each.files - len(each.largest)
    return f"{named} and {rest} more, {size_text(each.size)} in all" if rest else named
