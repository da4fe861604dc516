"""Every cause that the code names is one of causes.toml, wherever it is compared, assigned, passed or listed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import kedge
from kedge.diagnose.rules import source

SRC = Path(kedge.__file__).parent
CAUSES = frozenset(source.read(source.CAUSES))
AMBIGUOUS = {"unknown"}  # a behaviour, too
# Modules where a text that equals a cause is that cause.
MODULES = sorted(
    path for part in ("diagnose", "runtime/actions", "engines") for path in (SRC / part).rglob("*.py")
)  # fmt: skip
# Callables that take a cause, and at which position; constants that hold one.
TAKERS = {"ActionFailed": 1, "EndKind": 2, "ImageProblem": 1, "Meaning": 0, "_answer": 0}
CONSTANTS = {"GENERIC", "_HOST_OOM", "_UNAVAILABLE", "NONE", "STOPPED", "TIME_LIMIT"}


def named(tree: ast.AST) -> Iterator[str]:
    """Every text at a place where a cause belongs."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=[*others]) if any(map(_is_cause, (left, *others))):
                yield from (text for side in (left, *others) for text in _texts(side))
            case ast.keyword(arg="cause", value=value):
                yield from _texts(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in {"cause", *CONSTANTS}:
                yield from _texts(value)
            case ast.Call(func=ast.Name(id=name), args=[*given]) if len(given) > TAKERS.get(name, len(given)):
                yield from _texts(given[TAKERS[name]])
            case ast.Set() | ast.List() | ast.Tuple() | ast.Dict():
                yield from _of_causes(_listed(node))
            case ast.FunctionDef():
                returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value]
                yield from _of_causes(text for value in returned for text in _texts(value))


def _of_causes(texts: Iterable[str]) -> list[str]:
    """Words that stand together, if any of them is a cause."""
    words = [text for text in texts if re.fullmatch(r"[a-z]+(_[a-z]+)*", text)]
    return words if CAUSES & {*words} else []


def _is_cause(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="cause") | ast.Attribute(attr="cause") | ast.Subscript(slice=ast.Constant(value="cause")):
            return True
    return False


def _texts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from (*_texts(body), *_texts(other))
        case ast.Set() | ast.List() | ast.Tuple():
            yield from _listed(node)


def _listed(node: ast.Set | ast.List | ast.Tuple | ast.Dict) -> Iterator[str]:
    for value in node.values if isinstance(node, ast.Dict) else node.elts:
        yield from _texts(value) if isinstance(value, ast.Constant | ast.IfExp) else ()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_causes_are_those_of_the_table(path: Path) -> None:
    tree = ast.parse(path.read_text())
    found = {*named(tree)} - AMBIGUOUS
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert found <= CAUSES, "not in causes.toml"
    assert texts & CAUSES - AMBIGUOUS <= found, "named where this test does not look"
