"""The map in each folder's `__init__.py` names every file and room of it, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "kedge"
FOLDERS = sorted(
    init.parent for init in SRC.rglob("__init__.py") if init.parent != SRC
)  # that has docs/architecture.md


def name_in_map(path: Path) -> str:
    """`loop` for a module, `logs/` for a room, `causes.toml` for data."""
    return path.stem if path.suffix == ".py" else f"{path.name}/" if path.is_dir() else path.name


def holds_files(path: Path) -> bool:
    """Whether it is more than byte code, which a folder that was moved may leave behind."""
    return path.is_file() or any(file.is_file() and "__pycache__" not in file.parts for file in path.rglob("*"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(SRC)))
def test_the_map_names_every_file(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    named = re.findall(r"^([\w./]+)  +\S", text, re.MULTILINE)
    files = {name_in_map(path) for path in folder.iterdir() if path.name != "__init__.py" and holds_files(path)}
    assert len(named) == len(set(named))
    assert set(named) == files, f"{folder / '__init__.py'}: one line for each file and room"
