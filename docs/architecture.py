"""The picture docs/architecture.svg, drawn from the table of who may import whom (tests/test_imports.py).

The longest chain of imports below a part decides its row, so every arrow leads down. Arrows that follow from others
are left out.
"""

from __future__ import annotations

import importlib.util
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import kedge

ROOT = Path(__file__).parents[1]
SRC = Path(kedge.__file__).parent
BOX, GAP, ROW = (144, 30), 14, 64  # width and height of a box, space between boxes, distance of two rows
SHARED = ("errors", "contract")  # modules that are parts of the architecture, not helpers, and run on both sides
CSS = """\
.wall { fill: #fff; stroke: #d5dbe3; }
.part { fill: #eef4fb; stroke: #5b8bc0; }
.task { fill: #fdf3e1; stroke: #c9973a; }
.both { fill: #eaf5ea; stroke: #5d9c60; }
.name { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1b2733; text-anchor: middle; }
.key { font: 12px system-ui, sans-serif; fill: #46525f; }
.edge { fill: none; stroke: #9aa7b5; stroke-width: 1.2; marker-end: url(#tip); }"""


class Dot(NamedTuple):
    """An entry of a row: a part, or (with `far`) a point on a long arrow to that part."""

    name: str
    far: str = ""
    level: int = 0


class Graph:
    """Parts and the arrows between them, without helpers and without what other arrows imply."""

    def __init__(self) -> None:
        allowed = _allowed()
        single = {p for p in allowed if "." not in p and (SRC / f"{p}.py").exists()}
        self.helpers = sorted(single - {*SHARED, "jobs"})
        parts = [p for p in allowed if p not in self.helpers]
        all_below = {p: {_part(t, parts) for t in allowed[p]} - {p, ""} for p in parts}
        self.reach = {p: _reach(p, all_below) for p in parts}
        self.below = {
            p: sorted(t for t in all_below[p] if not any(t in self.reach[o] for o in all_below[p])) for p in parts
        }
        self.level = {p: _level(p, self.below) for p in parts}

    def kind(self, part: str) -> str:
        """Whether a part runs beside the task, on both sides, or on the user's machine."""
        return "task" if part == "runtime" else "both" if part in self.reach["runtime"] else "part"


def _allowed() -> dict[str, set[str]]:
    spec = importlib.util.spec_from_file_location("imports", ROOT / "tests" / "test_imports.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.ALLOWED)


def _part(module: str, parts: list[str]) -> str:
    return next((name for name in (module, module.split(".")[0]) if name in parts), "")


def _reach(part: str, below: dict[str, set[str]]) -> set[str]:
    return set().union(*({t, *_reach(t, below)} for t in below[part]))


def _level(part: str, below: dict[str, list[str]]) -> int:
    return 1 + max((_level(t, below) for t in below[part]), default=-1)


def rows_of(graph: Graph) -> tuple[list[list[Dot]], list[tuple[Dot, Dot]]]:
    """The rows from top to bottom, and the arrows as steps from one row to the next."""
    rows: list[list[Dot]] = [[] for _ in range(1 + max(graph.level.values()))]
    steps = []
    for part in graph.level:
        rows[graph.level[part]].append(Dot(part))
    for part, targets in graph.below.items():
        for target in targets:
            start = Dot(part)
            for level in range(graph.level[part] - 1, graph.level[target], -1):
                passed = Dot(part, target, level)
                rows[level].append(passed)
                steps.append((start, passed))
                start = passed
            steps.append((start, Dot(target)))
    return rows, steps


def place(rows: list[list[Dot]], steps: list[tuple[Dot, Dot]]) -> dict[Dot, float]:
    """The horizontal centre of every dot: near the dots it is joined with, without overlaps."""
    joined: dict[Dot, list[Dot]] = {dot: [] for row in rows for dot in row}
    for upper, lower in steps:
        joined[upper].append(lower)
        joined[lower].append(upper)
    x = {dot: 100.0 * index for row in rows for index, dot in enumerate(row)}
    for turn in range(60):
        for row in rows if turn % 2 else rows[::-1]:
            wish = {dot: _wish(dot, joined[dot], x) for dot in row}
            _spread(sorted(row, key=lambda dot: (wish[dot], dot)), wish, x)
    left = min(x[dot] - _width(dot) / 2 for dot in x)
    return {dot: value - left for dot, value in x.items()}


def _wish(dot: Dot, others: list[Dot], x: dict[Dot, float]) -> float:
    """Near what it is joined with; the middle of a long arrow prefers to be straight.

    Rounded, because versions of Python add numbers in different ways.
    """
    weights = [(6 if dot.far and other.far else 1, x[other]) for other in others]
    return round(sum(weight * at for weight, at in weights) / max(1, sum(weight for weight, _ in weights)), 3)


def _spread(row: list[Dot], wish: dict[Dot, float], x: dict[Dot, float]) -> None:
    """Moves a row to the wished centres, keeps its boxes apart, and keeps the average of the wishes."""
    at = float("-inf")
    for before, dot in zip([None, *row], row, strict=False):
        room = (_width(before) + _width(dot)) / 2 + GAP if before else 0
        x[dot] = at = max(wish[dot], at + room)
    shift = round(sum(wish[dot] - x[dot] for dot in row) / max(1, len(row)), 3)
    for dot in row:
        x[dot] += shift


def _width(dot: Dot) -> int:
    return 0 if dot.far else BOX[0]


def picture() -> str:
    """The SVG."""
    graph = Graph()
    rows, steps = rows_of(graph)
    x = place(rows, steps)
    margin, top = 16, 44
    width = round(max(x[dot] + _width(dot) / 2 for dot in x)) + 2 * margin
    y = {dot: top + ROW * (len(rows) - 1 - level) + BOX[1] / 2 for level, row in enumerate(rows) for dot in row}
    height = round(max(y.values())) + BOX[1] + margin
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<title>The parts of kedge: each may import only what its arrows lead to</title>",
        f"<style>\n{CSS}\n</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 1 7 4 0 7z" fill="#9aa7b5"/></marker></defs>',
        f'<rect class="wall" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        *_legend(),
        *_edges(graph, x, y, margin),
    ]
    for part in graph.level:
        dot, kind = Dot(part), graph.kind(part)
        left, upper = x[dot] - BOX[0] / 2 + margin, y[dot] - BOX[1] / 2
        lines.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{upper:.1f}" width="{BOX[0]}" height="{BOX[1]}" rx="5"/>'
            f'<text class="name" x="{x[dot] + margin:.1f}" y="{y[dot] + 4:.1f}">{escape(_shown(part))}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _legend() -> list[str]:
    shown = (("part", "where the job is submitted"), ("task", "beside the command"), ("both", "on both sides"))
    lines = []
    left = 16
    for kind, text in shown:
        lines.append(f'<rect class="{kind}" x="{left}" y="14" width="14" height="14" rx="3"/>')
        lines.append(f'<text class="key" x="{left + 20}" y="25">{text}</text>')
        left += 46 + 7 * len(text)
    return lines


def _edges(graph: Graph, x: dict[Dot, float], y: dict[Dot, float], margin: int) -> list[str]:
    lines = []
    for part, targets in graph.below.items():
        for target in targets:
            way = [Dot(part), *sorted((d for d in x if d[:2] == (part, target)), key=lambda d: -d.level), Dot(target)]
            at = [(x[dot] + margin, y[dot]) for dot in way]
            at[0], at[-1] = (at[0][0], at[0][1] + BOX[1] / 2), (at[-1][0], at[-1][1] - BOX[1] / 2 - 2)
            path = f"M{at[0][0]:.1f} {at[0][1]:.1f}"
            for (x1, y1), (x2, y2) in pairwise(at):
                middle = (y1 + y2) / 2
                path += f"C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
            lines.append(f'<path class="edge" d="{path}"/>')
    return lines


def _shown(part: str) -> str:
    """`engines` stands for the rooms that have no row of their own in the table: `engines.local`."""
    rooms = sorted(p.name for p in (SRC / part).glob("*/") if (p / "__init__.py").exists()) if part == "engines" else []
    left = [room for room in rooms if f"{part}.{room}" not in _allowed()]
    return f"{part}.{left[0]}" if left else part
