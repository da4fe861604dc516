"""A program of its own: compiles Python files to byte code that does not depend on where and when that is done.

    python -S -X no_debug_ranges bytecode.py < WANTED

WANTED is a JSON list of [source, target, name for tracebacks, whether types are left out]. The byte code's header says
that the sources need not be looked at. Without the columns of every instruction it is smaller and is read faster;
tracebacks still have lines. Without types, a NamedTuple does not compile that of each field when it is made, which is a
sixth of the supervisor's start.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import sys

_UNCHECKED = (1).to_bytes(4, "little")  # a hash of the source follows, which is not to be checked (PEP 552)


def main() -> None:
    """Compile all."""
    for source, target, name, untyped in json.load(sys.stdin):
        with open(source, "rb") as file:
            text = file.read()
        with open(target, "wb") as file:
            file.write(compiled(text, name, untyped))


def compiled(text: bytes, name: str, untyped: bool) -> bytes:
    """The content of a .pyc file. SyntaxError as it comes."""
    tree: ast.Module = ast.parse(text, name)
    if untyped:
        tree = ast.fix_missing_locations(_WithoutTypes().visit(tree))
    code = compile(tree, name, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(text) + marshal.dumps(code)


class _WithoutTypes(ast.NodeTransformer):
    """Leaves the type None where a name must have one to be a field."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "__future__" else node  # which would make a text of it


if __name__ == "__main__":
    main()
