"""Which of kedge's own files go into which layer: what the runtime reaches from its start, what else it has, and what
the job's side needs.

A file needs the modules that it imports, inside functions too, and what `kedge.lazy_modules` lists for it: modules that
it loads late, programs that it starts, data that it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kedge import lazy_modules
from kedge.bundle.layers import CORE, DRIVER, INIT, NET, SSH

PACKAGE = Path(__file__).parents[1]
_STARTS = ("kedge.runtime.__main__", "kedge.runtime.packed_start")
_SSH_ROOM = "kedge.runtime.ssh."
_JOB_SIDE = ("spec", "plugins", "resolve", "plan", "policy", "runs", "dropin", "diagnose")


class Own(NamedTuple):
    """The files of a layer, and those of them that stay as they are: data, and programs that are run by their path.
    `lazily` are the names of modules of others that the files import when they need them."""

    files: frozenset[Path]
    plain: frozenset[Path]
    lazily: frozenset[str]


def own_files() -> dict[str, Own]:
    """The layers' files."""
    core = _reach(map(_path, _STARTS))
    late = (*lazy_modules.ACTIONS.values(), *lazy_modules.SSH_COMMANDS.values())
    about_ssh = {place.partition(":")[0] for place in late if place.startswith(_SSH_ROOM)}
    actions = (place for place in lazy_modules.ACTIONS.values() if place not in about_ssh)
    net = _reach(map(_path, (*actions, *lazy_modules.AGENT_START, *lazy_modules.PREPARE_START))) - core
    ssh = _reach(map(_path, about_ssh)) - core - net
    init = _reach(file for part in _JOB_SIDE for file in PACKAGE.glob(f"{part}/**/*.py")) - core - net
    driver = (_controller() | _reach(map(_path, lazy_modules.SERVE_START))) - core - net
    return {CORE: _own(core), NET: _own(net), SSH: _own(ssh), INIT: _own(init), DRIVER: _own(driver)}


def of_controller() -> list[str]:
    """The names of all modules that the controller may load, whatever layer they are in."""
    return sorted(module_name(file) for file in _controller() if file.suffix == ".py")


def _controller() -> set[Path]:
    registered = (*lazy_modules.CONTROLLERS.values(), *lazy_modules.DRIVERS.values())
    places = (place.partition(":")[0] for place in registered)
    return _reach(map(_path, (*lazy_modules.CONTROLLER_START, *places)))


def module_name(path: Path) -> str:
    """The name under which a file of kedge is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _own(files: set[Path]) -> Own:
    plain = {file for file in files if file.suffix != ".py"}
    plain |= {file for user in files for file in _beside(user)}
    return Own(frozenset(files), frozenset(plain), frozenset().union(*map(_foreign, files)))


def _reach(start: Iterable[Path | None]) -> set[Path]:
    found: set[Path] = set()
    waiting = [path for path in start if path]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [other for name in _names(path) if (other := _path(name))]
            waiting += [*_beside(path), *_parents(path)]
    return found


def _foreign(path: Path) -> Iterator[str]:
    return (name for name in _names(path) if not name.startswith("kedge"))


def _parents(path: Path) -> Iterator[Path]:
    for folder in path.relative_to(PACKAGE).parents:
        if (package := PACKAGE / folder / "__init__.py").exists():
            yield package


def _path(name: str) -> Path | None:
    """The file of a module of kedge."""
    if name.split(".")[0] != "kedge":
        return None
    stem = PACKAGE.parent.joinpath(*name.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


@cache
def _names(path: Path) -> frozenset[str]:
    """Every module that a file needs."""
    if path.suffix != ".py":
        return frozenset()
    names = set(lazy_modules.LATE.get(module_name(path), ()))
    for node in statements(_without_types(ast.parse(path.read_text(encoding="utf-8")).body)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These statements and those inside them, without expressions, which are most of a tree."""
    for node in nodes:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(inner := getattr(node, field, None), list):
                yield from statements(inner)


def _without_types(nodes: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Without what only type checkers read."""
    return (node for node in nodes if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING")


def _beside(path: Path) -> Iterator[Path]:
    """The files in the same folder that a file starts or reads."""
    name = module_name(path)
    return (path.with_name(table[name]) for table in (lazy_modules.PROGRAMS, lazy_modules.DATA) if name in table)
