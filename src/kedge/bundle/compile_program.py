"""A separate program that compiles Python files to byte code that does not depend on the place and time of compilation.

    python -S -X no_debug_ranges compile_program.py < REQUEST

REQUEST is a JSON list of [source, target, name for tracebacks, whether to strip annotations]. The header of the byte
code marks it as unchecked, so sources are not needed. Without the columns of every instruction it is smaller and loads
faster; tracebacks still have line numbers. Without annotations, a NamedTuple need not evaluate one for each field,
which would take a sixth of the supervisor's start.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import sys

_UNCHECKED = (1).to_bytes(4, "little")  # the hash of the source that follows is not checked (PEP 552)


def main() -> None:
    """Compile all files of the request."""
    for source, target, name, untyped in json.load(sys.stdin):
        with open(source, "rb") as file:
            text = file.read()
        with open(target, "wb") as file:
            file.write(compiled(text, name, untyped))


def compiled(text: bytes, name: str, untyped: bool) -> bytes:
    """The content of a .pyc file. SyntaxError if the source is not valid."""
    program = _without_types(text, name) if untyped else text
    code = compile(program, name, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(text) + marshal.dumps(code)


def _without_types(text: bytes, name: str) -> ast.Module:
    tree: ast.Module = ast.fix_missing_locations(_WithoutTypes().visit(ast.parse(text, name)))
    return tree


class _WithoutTypes(ast.NodeTransformer):
    """Removes annotations. Fields of classes get the annotation None, because they would not be fields without one."""

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
        return None if node.module == "__future__" else node  # `annotations` would turn None into a string


if __name__ == "__main__":
    main()
