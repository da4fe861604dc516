"""A program of its own: compiles Python files to byte code that does not depend on where and when that is done.

    python -S -X no_debug_ranges bytecode.py < WANTED

WANTED is a JSON list of [source, target, name for tracebacks]. The byte code's header says that the sources need not be
looked at. Without the columns of every instruction it is smaller and is read faster; tracebacks still have lines.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import sys

_UNCHECKED = (1).to_bytes(4, "little")  # a hash of the source follows, which is not to be checked (PEP 552)


def main() -> None:
    """Compile all."""
    for source, target, name in json.load(sys.stdin):
        with open(source, "rb") as file:
            text = file.read()
        with open(target, "wb") as file:
            file.write(compiled(text, name))


def compiled(text: bytes, name: str) -> bytes:
    """The content of a .pyc file. SyntaxError as it comes."""
    code = compile(text, name, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(text) + marshal.dumps(code)


if __name__ == "__main__":
    main()
