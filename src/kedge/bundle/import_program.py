"""A program of its own: imports modules, layer by layer, and tells what came with them.

    python -I -S imported.py < WANTED

WANTED is a JSON object: `path`, folders for sys.path; `refused`, modules that are not to be found; `layers`, a list of
{"must": names, "may": names}. Prints a list with one object a layer, of what it added: {module: where it came from}.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys


def main() -> None:
    """Answer on standard output, with nothing else on it."""
    wanted = json.load(sys.stdin)
    answer = os.dup(1)
    os.dup2(2, 1)
    sys.path += wanted["path"]
    sys.modules.update(dict.fromkeys(wanted["refused"]))  # None: there is no such module
    found: list[dict[str, str]] = []
    known = set(wanted["refused"])
    for layer in wanted["layers"]:
        for name in layer["must"]:
            importlib.import_module(name)
        for name in layer["may"]:
            with contextlib.suppress(ImportError, AttributeError):
                importlib.import_module(name)
        found.append({name: origin for name in sorted(set(sys.modules) - known) if (origin := _origin(name))})
        known |= set(sys.modules)
    os.write(answer, json.dumps(found).encode())


def _origin(name: str) -> str | None:
    """The file that a module was loaded from, also where the interpreter keeps a copy of it in itself, and where the
    module has put another in its place (collections.abc)."""
    spec = getattr(sys.modules[name], "__spec__", None)
    if spec is None or name == "__main__":
        return None
    if spec.origin == "frozen" or spec.name != name:
        return _standard(name) or _standard(spec.name)
    return spec.origin if spec.origin and os.path.isabs(spec.origin) else None


def _standard(name: str) -> str | None:
    """The file of a module of the standard library."""
    stem = os.path.join(os.path.dirname(os.__file__), *name.split("."))
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if os.path.exists(path)), None)


if __name__ == "__main__":
    main()
