"""A separate program that imports modules, layer by layer, and reports which modules were loaded with them.

    python -I -S import_program.py < REQUEST

REQUEST is a JSON object: `path`, folders for sys.path; `refused`, modules that must not be found; `layers`, a list of
{"must": names, "may": names}. Prints a list with one object per layer of the modules that it added: {module: file}.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys


def main() -> None:
    """Print the result to standard output. Output of the imported modules goes to standard error instead."""
    request = json.load(sys.stdin)
    result = os.dup(1)
    os.dup2(2, 1)
    sys.path += request["path"]
    sys.modules.update(dict.fromkeys(request["refused"]))  # None makes the import fail
    found: list[dict[str, str]] = []
    known = set(request["refused"])
    for layer in request["layers"]:
        for name in layer["must"]:
            importlib.import_module(name)
        for name in layer["may"]:
            with contextlib.suppress(ImportError, AttributeError):
                importlib.import_module(name)
        found.append({name: origin for name in sorted(set(sys.modules) - known) if (origin := _origin(name))})
        known |= set(sys.modules)
    os.write(result, json.dumps(found).encode())


def _origin(name: str) -> str | None:
    """The file that a module was loaded from. Also for modules frozen into the interpreter, and for modules that
    replace themselves by another one (collections.abc), perhaps one without a spec (cryptography's ciphers.modes)."""
    if sys.modules[name] is sys.modules["__main__"]:  # multiprocessing gives it a second name
        return None
    spec = getattr(sys.modules[name], "__spec__", None)
    if spec is None:
        file = getattr(sys.modules[name], "__file__", None)
        return file if file and os.path.isabs(file) else None
    if spec.origin == "frozen" or spec.name != name:
        return _standard(name) or _standard(spec.name)
    return spec.origin if spec.origin and os.path.isabs(spec.origin) else None


def _standard(name: str) -> str | None:
    """The file of a module of the standard library."""
    stem = os.path.join(os.path.dirname(os.__file__), *name.split("."))
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if os.path.exists(path)), None)


if __name__ == "__main__":
    main()
