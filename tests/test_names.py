"""Names that are used once: a class is found by its name, in a traceback, a search or a discussion."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "kedge"


def test_no_class_name_stands_for_two_things() -> None:
    files = defaultdict(list)
    for path in SRC.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                files[node.name.lstrip("_")].append(str(path.relative_to(SRC)))
    assert {name: places for name, places in files.items() if len(places) > 1} == {}
