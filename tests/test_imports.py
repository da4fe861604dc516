"""Who may import whom. The table is the architecture; what it does not allow is an error."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "kedge"

# Part -> the parts that it may import besides itself.
ALLOWED = {
    "errors": set(),
    "contract": {"errors"},
    "untrusted": set(),
    "own_files": {"untrusted"},
    "user_files": {"untrusted"},
    "xdg": {"errors"},
    "program_guard": set(),
    "masking": set(),
    "states": set(),
    "deadlines": set(),
    "entry_points": set(),
    "shortages": {"errors"},
    "processes": {"contract"},
    "keeper": {"processes"},
    "programs": {"processes"},
    "diagnose": {"xdg", "contract", "errors"},
    "runtime": {"xdg", "contract", "diagnose", "errors"},
    "spec": {"errors"},
    "plugins.parameters": {"contract"},
    "plugins.base": {"plugins.parameters", "contract", "errors"},
    "plugins": {"plugins.base", "plugins.parameters", "contract", "errors"},
    "testing": {"engines.base", "plugins.base", "plugins.parameters", "runs", "contract", "errors"},
    "resolve": {"entry_points", "xdg", "programs", "spec", "plugins.base", "plugins.parameters", "contract", "errors"},
    "terminal_text": set(),
    "runs": {"xdg", "terminal_text", "contract", "errors"},
    "policy": {"contract"},
    "bundle": {"xdg", "contract", "errors"},
    "plan": {"spec.model", "resolve.model", "contract", "errors"},
    "engines.base": {"plan.model", "resolve.model", "runs", "diagnose", "contract", "errors"},
    "engines.controller": {
        "shortages", "engines.base", "plan.model", "policy", "runs", "diagnose", "contract", "errors",
    },
    "engines.machine": {
        "processes", "engines.base", "engines.controller", "plan.model", "resolve.model", "runs", "contract", "errors",
    },
    "engines": {
        "keeper", "processes", "engines.base", "engines.controller", "engines.machine", "plan.model", "plan.task",
        "resolve.model", "policy", "runs", "diagnose", "contract", "errors",
    },
    "engines.container": {
        "xdg", "processes", "engines.base", "engines.controller", "engines.machine", "plan.model", "plan.task",
        "resolve.model", "bundle", "runs", "diagnose", "contract", "errors",
    },
    "engines.registry": {"engines.base", "engines.local.options", "engines.container.options", "errors"},
    "engines.installed": {"entry_points", "engines.base", "errors"},
    "controller": {
        "shortages", "keeper", "engines.base", "engines.registry", "plan.lossless", "resolve.model", "runs", "errors",
    },
    "jobs": {
        "controller", "engines.registry", "spec", "resolve", "plan", "policy", "runs", "diagnose", "engines.base",
        "plugins.base", "contract", "errors",
    },
    "cli": {
        "shortages", "controller", "jobs", "spec.model", "spec.schema", "resolve.model", "resolve.lock_file",
        "resolve.secrets", "plan.model", "engines.base", "engines.registry", "runs", "diagnose", "bundle",
        "terminal_text", "contract", "errors",
    },
}  # fmt: skip
# Registries: the only places that import a part by its name, when it is needed.
REGISTRIES = {"cli/main.py", "jobs.py", "engines/registry.py", "resolve/plugins.py", "diagnose/rules/rule_files.py"}
EVERYBODYS = {"untrusted", "own_files", "user_files", "masking", "deadlines", "states"}  # what any part may import
ANYBODY = {"", "__init__", "__main__"}  # the package itself: its version, its entry point


def part_of(module: str) -> str:
    """The name in ALLOWED that covers a module, the longest first: `engines.base`, then `engines`."""
    names = module.split(".")
    return next((p for p in (".".join(names[:n]) for n in (2, 1)) if p in ALLOWED), names[0])


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module below kedge, whether the import stands inside a function) for every own import of a file."""
    tree = ast.parse(path.read_text())
    inside = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    found = []
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module if node.module != "kedge" else f"kedge.{a.name}" for a in node.names]
        found += [(n.removeprefix("kedge").lstrip("."), node in inside) for n in names if n.split(".")[0] == "kedge"]
    return found


FILES = sorted(SRC.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_follow_the_architecture(path: Path) -> None:
    name = str(path.relative_to(SRC))
    module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if module in ANYBODY:
        return
    own = part_of(module)
    for target, inside in imports(path):
        if target in ("", "__version__"):
            continue
        allowed = ALLOWED[own] | {own} | EVERYBODYS
        assert any(target == a or target.startswith(f"{a}.") for a in allowed), f"{name} must not import kedge.{target}"
        assert not inside or name in REGISTRIES, f"{name} imports kedge.{target} inside a function"


def test_the_runtime_needs_only_the_standard_library() -> None:
    third_party = {"click", "jsonschema", "pynvml", "pathspec", "yaml", "rich"}
    for path in [SRC / "contract.py", SRC / "errors.py", *(SRC / "runtime").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {n.split(".")[0] for n in names} & third_party, path
