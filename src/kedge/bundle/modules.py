"""The modules of the standard library and of packages that a layer needs. They are found by importing all of kedge's
modules in the layer, and then again with the modules that those import inside functions."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import resolve_name
from pathlib import Path

from kedge.bundle import layers
from kedge.bundle.kedge_files import PACKAGE, Own, module_name, statements
from kedge.errors import CannotRun

_PROGRAM = Path(__file__).with_name("import_program.py")
# Modules that the standard library imports only when it runs as a program, uses a terminal, or does something that
# kedge does not need, such as seeding random numbers with a text.
_UNUSED = frozenset({
    "_socket", "argparse", "asyncio", "concurrent.futures.process", "doctest", "ftplib", "getopt", "getpass", "hashlib",
    "importlib.metadata", "importlib.readers", "multiprocessing", "optparse", "pdb", "py_compile", "pydoc", "readline",
    "rlcompleter", "statistics", "test", "tkinter", "tracemalloc", "unicodedata", "unittest", "webbrowser",
})  # fmt: skip
# Modules that packages use only for their own command lines, for what servers need not send, or with asynchronous
# frameworks that kedge does not use.
_REFUSED = (
    "IPython", "anyio", "click", "curio", "h2", "numpy", "pygments", "readline", "requests", "rich", "socksio", "trio",
    "zstandard",
)  # fmt: skip
_INSIDE = re.compile(rb"(^[ \t]|[:;])[ \t]*(import|from)\s", re.MULTILINE)  # an import that may be in a function

Origins = Mapping[str, Path]


def modules(executable: Path, own: Mapping[str, Own], chosen: Sequence[str]) -> dict[str, Origins]:
    """For each chosen layer, the files of the modules that it adds, without kedge's own. CannotRun if a module cannot
    be imported."""
    wanted = {layer: _wanted(layer, own.get(layer)) for layer in chosen}
    first = _import(executable, wanted)
    for layer, found in first.items():
        must, may = wanted[layer]
        inside = (_inside_functions(name, path) for name, path in found.items())
        wanted[layer] = must, may | {name for names in inside for name in names}
    return _import(executable, wanted)


def _wanted(layer: str, own: Own | None) -> tuple[set[str], set[str]]:
    """The names of modules that must be importable, and of modules that may not exist."""
    must = {*layers.PACKAGES[layer], *layers.STANDARD[layer]}
    if own is None:
        return must, set()
    must |= {module_name(file) for file in own.files if file.suffix == ".py" and file.stem != "__main__"}
    return must, {name for name in own.lazily if name.split(".")[0] in sys.stdlib_module_names}


def _import(executable: Path, wanted: Mapping[str, tuple[set[str], set[str]]]) -> dict[str, Origins]:
    request = {
        "path": search_path(),
        "refused": _REFUSED,
        "layers": [{"must": sorted(must), "may": sorted(may)} for must, may in wanted.values()],
    }
    done = subprocess.run(
        [str(executable), "-I", "-S", "-W", "ignore", str(_PROGRAM)],
        input=json.dumps(request).encode(), capture_output=True, cwd="/", check=False,
    )  # fmt: skip
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CannotRun(f"a bundle cannot be built, because one of its modules cannot be imported: {why}")
    found = json.loads(done.stdout)
    return {layer: _paths(origins) for layer, origins in zip(wanted, found, strict=True)}


def _paths(origins: Mapping[str, str]) -> Origins:
    return {name: Path(path) for name, path in origins.items() if name.split(".")[0] != "kedge"}


def search_path() -> list[str]:
    """kedge's folder and those of installed packages, in the order of this process's sys.path."""
    stdlib = os.path.dirname(os.__file__)
    folders = (os.path.abspath(entry) for entry in sys.path if entry and os.path.isdir(entry))
    others = (folder for folder in folders if folder not in (stdlib, f"{stdlib}/lib-dynload"))
    return list(dict.fromkeys((str(PACKAGE.parent), *others)))


def _inside_functions(name: str, path: Path) -> Iterator[str]:
    """The names that a module imports inside its functions."""
    text = path.read_bytes()
    if path.suffix != ".py" or not _INSIDE.search(text):
        return
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found = statements(ast.parse(text).body)
    functions = (node for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for node in statements(functions):
        yield from (name for name in _imported(node, package) if not _and_above(name) & _UNUSED)


def _and_above(name: str) -> set[str]:
    """A module and the packages that it is in."""
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        absolute = resolve_name(module, package) if node.level else module
        yield from (absolute, *(f"{absolute}.{alias.name}" for alias in node.names if node.level))
