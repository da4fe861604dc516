"""Which role needs which prerequisites, as a tree of text and as an SVG drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kedge.resolve.model import RequirementEntry, Requirements

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 210, 44, 70, 18, 20  # pixels
_LONGEST = 30  # characters in a box
_STYLE = "font:13px sans-serif;fill:#1a1a1a"


def tree(requirements: Requirements, role: str) -> Iterator[str]:
    """What a role needs, one line each; a repeated prerequisite refers to its first line with `(above)`."""
    seen: set[int] = set()
    for number in requirements.roles.get(role, ()):
        yield from _branch(requirements, number, "", "", seen)


def _branch(requirements: Requirements, number: int, first: str, rest: str, seen: set[int]) -> Iterator[str]:
    entry = requirements.entries[number]
    if number in seen:
        yield f"{first}{entry.name}  (above)"
        return
    seen.add(number)
    yield first + "  ".join(filter(None, (entry.name, _origin(entry), _values(entry.values))))
    for below in entry.needs:
        last = below == entry.needs[-1]
        yield from _branch(
            requirements, below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), seen
        )


def _origin(entry: RequirementEntry) -> str:
    version = f" version {entry.version}" if entry.version else ""
    return f"from {entry.origin}{version}" if entry.origin else ""


def _values(values: Mapping[str, str]) -> str:
    return f"({', '.join(f'{name}={value}' for name, value in values.items())})" if values else ""


def svg(requirements: Requirements) -> str:
    """The graph as an SVG document: roles on the left, what they need to their right, dependencies further right.

    The column of a box is the length of its longest path from a role, so that all lines lead to the right.
    """
    columns = _columns(requirements)
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for box, column in columns.items():
        row = rows.get(column, 0)
        rows[column] = row + 1
        places[box] = (_MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
    width = 2 * _MARGIN + (max(columns.values(), default=0) + 1) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + max(rows.values(), default=1) * (_HEIGHT + _GAP_Y) - _GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(_line(places[above], places[below]) for above, below in _edges(requirements)),
        *(_box(places[box], *_texts(requirements, box)) for box in columns),
        "</svg>",
    ]
    return "\n".join(parts)


def _edges(requirements: Requirements) -> Iterator[tuple[str, str]]:
    for role, numbers in requirements.roles.items():
        yield from ((f"role {role}", str(number)) for number in numbers)
    for number, entry in enumerate(requirements.entries):
        yield from ((str(number), str(below)) for below in entry.needs)


def _columns(requirements: Requirements) -> dict[str, int]:
    """The column of every box. Entries list dependencies first, so in reverse each comes after all that need it."""
    columns = {f"role {role}": 0 for role in requirements.roles}
    columns |= {str(number): 1 for number in reversed(range(len(requirements.entries)))}
    for number in reversed(range(len(requirements.entries))):
        for below in requirements.entries[number].needs:
            columns[str(below)] = max(columns[str(below)], columns[str(number)] + 1)
    return columns


def _texts(requirements: Requirements, box: str) -> tuple[str, str, bool]:
    if box.startswith("role "):
        return box.removeprefix("role "), "task role", True
    entry = requirements.entries[int(box)]
    return entry.name, _values(entry.values) or entry.origin or entry.plugin or entry.type, False


def _box(place: tuple[int, int], title: str, below: str, is_role: bool) -> str:
    from html import escape  # slow to load, for its names of characters

    x, y = place
    fill, stroke = ("#dbe9ff", "#3567b0") if is_role else ("#f6f6f6", "#777777")
    return (
        f"<g><title>{escape(_printable(f'{title} {below}'))}</title>"
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{fill}" stroke="{stroke}"/>'
        f'<text x="{x + 10}" y="{y + 18}" style="{_STYLE};font-weight:bold">{escape(_cut(title))}</text>'
        f'<text x="{x + 10}" y="{y + 35}" style="{_STYLE};font-size:11px">{escape(_cut(below))}</text></g>'
    )


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1, x2, y2 = start[0] + _WIDTH, start[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    return f'<path d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" stroke="#999999"/>'


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str) -> str:
    shown = _printable(text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
