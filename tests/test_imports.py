"""Who may import whom. The tables are the architecture; what they do not allow is an error.

An import counts wherever it stands, as a statement or as a call of `import_module`. What is not loaded at the top of a
module must be in `kedge.lazy_modules`, and what is there must be used.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from kedge import lazy_modules

SRC = Path(__file__).parents[1] / "src" / "kedge"

# Part -> the parts that it may import besides itself.
ALLOWED = {
    "errors": set(),
    "contract": {"errors"},
    "peers": {"contract"},
    "light": set(),
    "http_challenges": set(),
    "image_names": set(),
    "untrusted": set(),
    "untrusted_values": set(),
    "own_files": {"untrusted"},
    "file_copies": {"own_files"},
    "beneath": {"untrusted"},
    "user_files": {"untrusted"},
    "xdg": {"errors"},
    "program_guard": {"processes"},
    "certificate_authorities": set(),
    "masking": set(),
    "states": set(),
    "deadlines": set(),
    "open_files": set(),
    "claims": {"errors"},
    "entry_points": set(),
    "shortages": {"errors"},
    "processes": {"contract"},
    "command_line": set(),
    "keeper": {"command_line", "processes"},
    "programs": {"processes"},
    "diagnose": {"xdg", "contract", "errors"},
    "runtime": {"link", "claims", "command_line", "xdg", "peers", "contract", "diagnose", "errors"},
    "link": {"contract", "errors"},
    "spec": {"errors"},
    "plugins.parameters": {"contract"},
    "plugins.base": {"plugins.parameters", "contract", "errors"},
    "plugins": {"plugins.base", "plugins.parameters", "contract", "errors"},
    "testing": {"engines.base", "plugins.base", "plugins.parameters", "runs", "contract", "errors"},
    "resolve": {"entry_points", "xdg", "programs", "spec", "plugins.base", "plugins.parameters", "contract", "errors"},
    "terminal_text": set(),
    "runs": {"xdg", "terminal_text", "contract", "errors"},
    "policy": {"contract"},
    "packed_runtime": {"xdg", "errors"},
    "bundle": {"packed_runtime", "dropin.program_files", "xdg", "contract", "errors"},
    "plan": {"spec.model", "resolve.model", "contract", "errors"},
    "engines.base": {"plan.model", "resolve.model", "runs", "diagnose", "contract", "errors"},
    "engines.controller": {
        "shortages", "engines.base", "plan.model", "policy", "runs", "diagnose", "contract", "errors",
    },
    "engines.machine": {
        "claims", "processes", "engines.base", "engines.controller", "plan.model", "resolve.model", "runs", "contract",
        "errors",
    },
    "engines": {
        "claims", "keeper", "packed_runtime", "processes", "engines.base", "engines.controller", "engines.machine",
        "plan.model", "plan.task", "resolve.model", "policy", "runs", "diagnose", "contract", "errors",
    },
    "engines.container": {
        "xdg", "processes", "engines.base", "engines.controller", "engines.machine", "plan.model", "plan.task",
        "resolve.model", "bundle", "runs", "diagnose", "contract", "errors",
    },
    "engines.cluster": {
        "link", "processes", "engines.base", "engines.controller", "plan.model", "plan.task", "resolve.model", "runs",
        "diagnose", "contract", "errors",
    },
    "engines.slurm": {
        "link", "xdg", "processes", "engines.base", "engines.cluster", "engines.controller", "engines.machine",
        "plan.model", "plan.task", "resolve.model", "bundle", "runs", "diagnose", "spec.units", "contract", "errors",
    },
    "engines.kubernetes": {
        "link", "xdg", "processes", "engines.base", "engines.cluster", "engines.controller", "engines.machine",
        "plan.model", "plan.task", "policy", "resolve.model", "bundle", "runs", "diagnose", "spec.units", "spec.yaml",
        "terminal_text", "contract", "errors",
    },
    "engines.registry": {"engines", "errors"},
    "engines.installed": {"entry_points", "engines.base", "errors"},
    "controller": {
        "shortages", "keeper", "link", "engines.base", "engines.registry", "plan.lossless", "plan.model",
        "resolve.model", "runs", "errors",
    },
    "dropin": {
        "xdg", "peers", "spec", "resolve", "plugins", "plan", "diagnose", "contract", "errors",
    },
    "settings": {"xdg", "engines.registry", "spec", "errors"},
    "jobs": {
        "settings", "link", "controller", "engines.registry", "programs", "spec", "resolve", "plan", "policy", "runs",
        "diagnose", "engines.base", "plugins.base", "terminal_text", "contract", "errors",
    },
    "api": {
        "jobs", "spec", "resolve.model", "plan.model", "runs", "diagnose", "errors",
    },
    "cli": {
        "settings", "shortages", "controller", "jobs", "spec.model", "spec.schema", "spec.units", "resolve.model",
        "resolve.given_environment", "resolve.lock_file", "resolve.secrets", "plan.model", "engines.base",
        "engines.registry", "runs", "diagnose", "bundle", "terminal_text", "contract", "errors",
    },
}  # fmt: skip
# Part -> its files and rooms in the order of a tower: each imports only what stands before it.
ROOMS = {
    "runtime": (
        "packed_start", "files", "bugs", "process", "status", "events", "outcome", "logs", "setup", "actions",
        "control", "session", "time_limits", "ssh", "execute", "hooks", "postmortem", "hold", "attempt", "join_input",
        "join", "spec_wait", "main", "agent", "warm_parent", "launch", "__main__",
    ),
    "diagnose": ("characters", "regex", "model", "exit_spec", "log", "rules", "decide"),
    "cli": (
        "streams", "times", "options", "job_options", "engine_options", "log_files", "stop_requests", "view", "viewer",
        "attended_run", "new_run", "commands", "main",
    ),
}  # fmt: skip
# Package that is not in the standard library -> the parts or modules that may import it.
THIRD_PARTY = {
    "asyncssh": {"runtime.ssh"},
    "click": {"cli"},
    "cryptography": {"jobs.link_keys", "jobs.ssh_keys"},  # which asyncssh needs
    "docker": {"engines.container.api.client"},
    "fsspec": {"runtime.actions.fsspec_program"},  # a program that runs under the image's own Python
    "httpcore": {"engines.kubernetes.transport"},
    "httpx": {"engines.kubernetes.api", "engines.kubernetes.transport", "resolve.sources"},
    "jsonschema": {"spec.violations"},
    "pynvml": {"engines.machine.nvml"},
    "re2": {"diagnose", "light.re2", "runtime.logs.mask"},
    "requests": {"engines.container.api.client"},  # whose errors the package docker lets through
    "rich": {"cli.view.progress_bar"},
    "urllib3": {"engines.container.api.client"},
    "wsproto": {"engines.kubernetes.transport.web_socket"},
    "yaml": {
        "engines.kubernetes.manifest_text",
        "dropin",
        "spec",
        "diagnose.exit_spec.exitspec",
        "cli.view.plan_text",
        "testing.command",
    },
    "zstandard": {"cli.log_files"},
}
# What any part may import.
EVERYBODYS = {
    "light",
    "untrusted",
    "untrusted_values",
    "own_files",
    "file_copies",
    "http_challenges",
    "image_names",
    "beneath",
    "user_files",
    "certificate_authorities",
    "masking",
    "deadlines",
    "open_files",
    "states",
    "lazy_modules",
    "quick_dataclasses",
    "late_patterns",
    "lock_waits",
}
ANYBODY = {"", "__main__"}  # the package itself and its entry point
# Their names come from elsewhere: the tables of lazy_modules; a list of modules of others that a bundle shall carry; a
# packed file, which names the module that it starts.
IMPORT_ANY_NAME = {"lazy_modules", "bundle.import_program", "runtime.packed_start"}
IMPORTERS = {"import_module", "__import__", "load_place"}


class Import(NamedTuple):
    """`target` as it is written, with the name imported from it. `late`: it is inside a function, or a call."""

    target: str
    late: bool


def module_of(path: Path) -> str:
    """Below kedge, so that the package itself is empty."""
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix("__init__").rstrip(".")


FILES = {module_of(path): path for path in sorted(SRC.rglob("*.py"))}


def full(module: str) -> str:
    return f"kedge.{module}".rstrip(".")


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text())


@cache
def imports(module: str) -> tuple[Import, ...]:
    """Every import of a module, whatever package it is of."""
    tree = parsed(module)
    inside = {
        node for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(f)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node in inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: a relative import"
            found += [Import(_written(node.module or "", alias.name), node in inside) for alias in node.names]
        elif isinstance(node, ast.Call) and _name(node.func) in IMPORTERS and isinstance(node.args[0], ast.Constant):
            found.append(Import(node.args[0].value, True))
    return tuple(found)


def _written(module: str, name: str) -> str:
    """The module, if it is one that is imported from a package of kedge."""
    return f"{module}.{name}" if f"{module}.{name}".removeprefix("kedge.") in FILES else module


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def own_imports(module: str) -> Iterator[Import]:
    """The imports of kedge, named below it. A registry may also load what it names."""
    for found in imports(module):
        if found.target.split(".")[0] == "kedge":
            yield found._replace(target=found.target.removeprefix("kedge").lstrip("."))


def is_in(module: str, parts: set[str]) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in parts)


def part_of(module: str) -> str:
    """The name in ALLOWED that covers a module, the longest first: `engines.base`, then `engines`."""
    names = module.split(".")
    return next((p for p in (".".join(names[:n]) for n in (2, 1)) if p in ALLOWED), names[0])


def test_imports_follow_the_architecture() -> None:
    wrong = []
    for module in FILES.keys() - ANYBODY - EVERYBODYS:
        own = part_of(module)
        allowed = {"", own} | ALLOWED[own] | EVERYBODYS
        wrong += [(module, target) for target, _ in own_imports(module) if not is_in(target, allowed)]
    assert not wrong, "the first must not import the second"


def test_what_is_loaded_late_is_in_the_table() -> None:
    found = {full(m): {i.target for i in imports(m) if i.late and i.target.startswith("kedge")} for m in FILES}
    listed = {module: set(names) for module, names in lazy_modules.LATE.items()}
    assert {module: names for module, names in found.items() if names} == listed


def test_no_import_hides_its_name() -> None:
    """`import_module` gets the name itself, `load_place` an entry of its module's registry; neither is passed on."""
    wrong = []
    for module in FILES.keys() - IMPORT_ANY_NAME:
        nodes = list(ast.walk(parsed(module)))
        calls = [node for node in nodes if isinstance(node, ast.Call) and _name(node.func) in IMPORTERS]
        wrong += [(module, ast.unparse(call)) for call in calls if not _has_known_name(call, module)]
        named = [node for node in nodes if isinstance(node, ast.Attribute | ast.Name) and _name(node) in IMPORTERS]
        wrong += [(module, "passes the importing function on")] if len(named) != len(calls) else []
    assert not wrong


def _has_known_name(call: ast.Call, module: str) -> bool:
    given = call.args[0]
    if _name(call.func) != "load_place":
        return isinstance(given, ast.Constant)
    table = _name(given.value) if isinstance(given, ast.Subscript) else ""
    return getattr(lazy_modules, table, None) is lazy_modules.REGISTRIES[full(module)]


def test_files_beside_a_module_are_in_the_table() -> None:
    """Programs that it starts by their path, data that it reads."""
    found = {full(module): names for module in FILES.keys() - {"lazy_modules"} if (names := _files_beside(module))}
    assert found == {module: {name} for module, name in (lazy_modules.PROGRAMS | lazy_modules.DATA).items()}


def _files_beside(module: str) -> set[str]:
    folder, tree = FILES[module].parent, parsed(module)
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {text for text in texts if "." in text and "/" not in text and len(text) < 64}
    return {name for name in names if (folder / name).is_file()} - {"__init__.py"}


@pytest.mark.parametrize("place", [p for table in lazy_modules.REGISTRIES.values() for p in table.values()])
def test_every_place_of_a_registry_can_be_loaded(place: str) -> None:
    assert lazy_modules.load_place(place)


def test_packages_of_others_are_imported_where_they_belong() -> None:
    wrong = []
    for module in FILES:
        packages = {found.target.split(".")[0] for found in imports(module)} - {"kedge"} - sys.stdlib_module_names
        wrong += [(module, package) for package in packages if not is_in(module, THIRD_PARTY.get(package, set()))]
    assert not wrong, "the first must not import the second"


@pytest.mark.parametrize("part", ROOMS)
def test_rooms_import_only_rooms_before_them(part: str) -> None:
    inside = [module for module in FILES if module.startswith(f"{part}.")]
    assert {_room(module) for module in inside} == set(ROOMS[part]), "the table names every room, and no other"
    for module in inside:
        at = ROOMS[part].index(_room(module))
        for target in (found.target for found in own_imports(module) if not found.late):
            if target.startswith(f"{part}."):
                assert ROOMS[part].index(_room(target)) <= at, f"{module} must not import kedge.{target}"


def _room(module: str) -> str:
    return module.split(".")[1]


def test_no_module_needs_itself() -> None:
    graph = {m: {found.target for found in own_imports(m) if not found.late} - {"", m} for m in FILES if m}
    TopologicalSorter(graph).prepare()  # CycleError names the circle
