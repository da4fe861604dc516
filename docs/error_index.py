"""The page docs/errors.md: all error messages, found in the syntax trees of kedge's source.

A message is a text that is passed to one of the names in SECTIONS. What only a run can fill in stands as `…`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

import kedge

SRC = Path(kedge.__file__).parent

HEAD = """\
# Error messages

Search this page for a few words of a message. `…` stands for text that varies: a name, a number, a path. Messages about
a job file also show the file, the line and the path to the key. Causes of failed jobs have
[a page of their own](causes.md).

This page is made from the source of kedge; the last column names the module.
"""


class Section(NamedTuple):
    """One kind of error: the names whose calls make one, and what a user does about it."""

    title: str
    advice: str
    names: frozenset[str]
    parts: tuple[str, ...] = ("",)  # only modules that begin so


SECTIONS = (
    Section(
        "The input is wrong",
        "Exit code 2. Correct the file or the option that the message names; a retry cannot help.",
        frozenset({"InputError", "Problem", "problem", "Unreadable", "ParameterError", "Wrong", "TagError"}),
    ),
    Section(
        "Warnings about a job file",
        "The job runs. Correct the line, or keep it if it is intended; `kedge validate --strict` turns warnings into "
        "errors.",
        frozenset({"warning"}),
        ("spec/", "resolve/"),
    ),
    Section(
        "A prerequisite is not available",
        "Exit code 2: correct the reference. Exit code 4: another machine does not answer properly; try again later, "
        "or use the locked copy in the cache with `--offline`.",
        frozenset({"Unavailable"}),
    ),
    Section(
        "A plugin is broken",
        "Exit code 2. The plugin violates [the interface](plugins.md); report the message to its author.",
        frozenset({"PluginFailed", "InvalidAnswer"}),
    ),
    Section(
        "The job cannot run here",
        "Exit code 4. The input is correct. Change the machine as the message advises, or run the job elsewhere.",
        frozenset({"CannotRun", "DiskFull"}),
    ),
    Section(
        "A container cannot be started",
        "The task fails with OpenPAI's code 254 or -1201 ([Containers](containers.md#what-may-go-wrong)).",
        frozenset({"ImageProblem"}),
    ),
    Section(
        "A task cannot start, or a hook fails",
        "The task fails; `runtime.log` in its folder has the details. For the cause in the second column, "
        "[its page](causes.md) lists what to do.",
        frozenset({"ActionFailed", "InvalidResponse", "CannotStart"}),
    ),
)


def page() -> str:
    """The whole page. Raises AssertionError when nothing makes a message of some name, as after a class was renamed."""
    messages = sorted(Source().messages(), key=Message.order)
    text = [HEAD]
    for section in SECTIONS:
        found = [m for m in messages if m.kind in section.names and m.module.startswith(section.parts)]
        missing = section.names - {message.kind for message in found}
        assert not missing, f"no message is made by {', '.join(sorted(missing))}: was it renamed?"
        text += [f"\n## {section.title}\n\n{section.advice}\n", *_table(found)]
    return "\n".join(text) + "\n"


class Message(NamedTuple):
    """A message: its text with `…` for what differs, what makes it, where, and the cause of failure it leads to."""

    text: str
    kind: str
    module: str
    cause: str

    def order(self) -> tuple[str, str]:
        """For sorting: by letters alone."""
        return re.sub(r"[^a-z ]+", "", self.text.lower()).strip(), str(self)


def _table(messages: Iterable[Message]) -> Iterator[str]:
    rows: dict[str, tuple[set[str], set[str]]] = {}
    for message in messages:
        modules, causes = rows.setdefault(message.text, (set(), set()))
        modules.add(message.module)
        causes |= {message.cause} - {""}
    with_causes = any(causes for _, causes in rows.values())
    yield "| message | cause | in |\n|---|---|---|" if with_causes else "| message | in |\n|---|---|"
    for text, (modules, causes) in rows.items():
        cells = [_code(text), ", ".join(f"`{c}`" for c in sorted(causes)), ", ".join(f"`{m}`" for m in sorted(modules))]
        yield f"| {' | '.join(cells if with_causes else cells[::2])} |"


def _code(text: str) -> str:
    text = text.replace("\n", " ").replace("|", "\\|").strip()
    return f"`` {text} ``" if "`" in text else f"`{text}`"


class Module:
    """One file: its functions, constants, and where its names come from."""

    def __init__(self, path: Path) -> None:
        self.name = str(path.relative_to(SRC))
        self._assigned: dict[ast.AST, dict[str, list[ast.expr]]] = {}
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)}

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        assigned = [node for node in self.tree.body if isinstance(node, ast.Assign)]
        return {target.id: node.value for node in assigned for target in node.targets if isinstance(target, ast.Name)}

    def assigned(self, scope: ast.AST) -> dict[str, list[ast.expr]]:
        """All that a function assigns to each of its names."""
        if scope not in self._assigned:
            values: dict[str, list[ast.expr]] = {}
            for node in ast.walk(scope):
                for target in node.targets if isinstance(node, ast.Assign) else ():
                    if isinstance(target, ast.Name):
                        values.setdefault(target.id, []).append(node.value)
            self._assigned[scope] = values
        return self._assigned[scope]

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Name here -> (module, name there), for what comes from kedge."""
        nodes = [node for node in self.tree.body if isinstance(node, ast.ImportFrom)]
        return {a.asname or a.name: (node.module or "", a.name) for node in nodes for a in node.names}


class Source:
    """All modules of kedge."""

    def __init__(self) -> None:
        self._modules = {path: Module(path) for path in sorted(SRC.rglob("*.py"))}

    def messages(self) -> Iterator[Message]:
        """Every message of every kind."""
        kinds = frozenset[str]().union(*(section.names for section in SECTIONS))
        for module in self._modules.values():
            if module.name.startswith("testing/") or not any(f"{kind}(" in module.text for kind in kinds):
                continue
            for scope, call in _calls(module.tree):
                kind = _name(call.func)
                if kind in kinds:
                    yield from self._of_call(module, scope, call, kind)

    def _of_call(self, module: Module, scope: ast.AST, call: ast.Call, kind: str) -> Iterator[Message]:
        causes = [a.value for a in call.args[1:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        cause = causes[0] if kind in ("ActionFailed", "ImageProblem") and causes else ""
        for argument in call.args:
            for text in self._texts(module, scope, argument, 6):
                shown = re.sub(r"(…[ :]*)+…|…+", "…", text)
                if len(re.findall(r"[A-Za-z]{2,}", shown)) > 1 and " " in shown.strip(" …:"):
                    yield Message(shown, kind, module.name, cause)

    def _texts(self, module: Module, scope: ast.AST, node: ast.AST, depth: int) -> list[str]:
        """What an expression may be as a text, as far as it stands in the source; otherwise `…`."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        if depth == 0:
            return ["…"]
        parts: list[ast.AST] = []
        if isinstance(node, ast.JoinedStr):
            return self._joined(module, scope, node.values, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined(module, scope, [node.left, node.right], depth)
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            parts = list(node.values)
        elif isinstance(node, ast.Name):
            parts, module, scope = self._named(module, scope, node.id)
        elif isinstance(node, ast.Call):
            parts, module, scope = self._called(module, node)
        found = [text for part in parts for text in self._texts(module, scope, part, depth - 1)]
        return list(dict.fromkeys(found)) or ["…"]

    def _joined(self, module: Module, scope: ast.AST, values: list[ast.expr], depth: int) -> list[str]:
        choices = []
        for value in values:
            inner = value.value if isinstance(value, ast.FormattedValue) else value
            texts = self._texts(module, scope, inner, depth - 1)
            worth = not isinstance(value, ast.FormattedValue) or (
                len(texts) <= 3 and any(" " in t.strip(" …") for t in texts)
            )
            choices.append(texts if worth else ["…"])
        return ["".join(choice) for choice in product(*choices)][:12]

    def _named(self, module: Module, scope: ast.AST, name: str) -> tuple[list[ast.AST], Module, ast.AST]:
        """What is assigned to a name: in the function, in the module, or in the module that it comes from."""
        assigned = [] if scope is module.tree else module.assigned(scope).get(name, [])
        if assigned or name not in {*module.constants, *module.imported}:
            return list(assigned), module, scope
        if name in module.constants:
            return [module.constants[name]], module, module.tree
        there = self._module(module.imported[name][0])
        value = there and there.constants.get(module.imported[name][1])
        return ([value], there, there.tree) if there and value else ([], module, scope)

    def _called(self, module: Module, call: ast.Call) -> tuple[list[ast.AST], Module, ast.AST]:
        """What a function of kedge returns."""
        there: Module | None = module
        if isinstance(call.func, ast.Subscript):
            table = module.constants.get(_name(call.func.value))
            functions = table.values if isinstance(table, ast.Dict) else []
            return [ast.Call(func=function, args=[], keywords=[]) for function in functions], module, module.tree
        name = _name(call.func)
        if isinstance(call.func, ast.Attribute):
            owner = call.func.value
            if isinstance(owner, ast.Name) and owner.id in module.imported:
                there = self._module(".".join(module.imported[owner.id]))
            elif not (isinstance(owner, ast.Name) and owner.id == "self"):
                there = None
        elif name in module.imported:
            there, name = self._module(module.imported[name][0]), module.imported[name][1]
        function = there and there.functions.get(name)
        if not there or not function:
            return [], module, module.tree
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return list(returned), there, function

    def _module(self, dotted: str) -> Module | None:
        path = SRC.joinpath(*dotted.split(".")[1:])
        return self._modules.get(path.with_suffix(".py")) or self._modules.get(path / "__init__.py")


def _calls(node: ast.AST, scope: ast.AST | None = None) -> Iterator[tuple[ast.AST, ast.Call]]:
    """Every call below a node, with the function around it."""
    scope = node if scope is None or isinstance(node, ast.FunctionDef) else scope
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield scope, child
        yield from _calls(child, scope)


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


if __name__ == "__main__":
    print(page())
