"""The contents of a bundle: every file with its path, its layer, its origin and how it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kedge.bundle import busybox, kedge_files, layers, libraries, machine, origins, stubs
from kedge.bundle.machine import Interpreter
from kedge.bundle.modules import Origins, modules, search_path
from kedge.bundle.origins import Origin
from kedge.dropin import program_files
from kedge.errors import CannotRun

SITE = "site"
INIT_D = "init.d"
BUSYBOX = "shell/busybox"
# What starts from a packed file; also the names of the scripts.
RUNTIME, INIT, AGENT, CONTROLLER = "runtime", "init", "agent", "controller"
PREPARE, SERVE = "prepare-pod", "serve-run"
_DRIVER = "driver"  # the same file as the controller
_INSTALL = Path(__file__).with_name("install_program.py")
_UNTYPED = kedge_files.PACKAGE / "dropin"  # it starts as often as the supervisor
_NO_DATA = frozenset({".py", ".pyc", ".pyi", ".pyx", ".pxd", ".so", ".c", ".h", ".typed"})
_NOT_NEEDED = frozenset({"__pycache__", "tests", "benchmarks"})


class BundleFile(NamedTuple):
    """One file. `path` is its path in the bundle; `content` is a file on this machine or the content itself. If
    `compiled`, the byte code of `content` is written instead, without annotations if `untyped`. `packed` is the
    name of what starts from it, if it is made of other modules."""

    path: str
    content: Path | bytes
    layer: str
    origin: Origin
    compiled: bool = False
    program: bool = False
    untyped: bool = False
    packed: str = ""


def parts(chosen: Sequence[str]) -> list[BundleFile]:
    """All files of a bundle with these layers, sorted by path. CannotRun names what is missing on this machine."""
    interpreter = machine.interpreter()
    owned = kedge_files.own_files()
    found: dict[str, BundleFile] = {}
    added = modules(interpreter.executable, owned, chosen)
    for layer in chosen:
        pieces = [*_own(layer, owned.get(layer)), *_modules(layer, interpreter, added[layer])]
        if layer == layers.CORE:
            pieces += _start(interpreter)
        elif layer == layers.NET:
            pieces += _program(AGENT, "the agent of a task", stubs.AGENT_FILE, layer, interpreter)
            pieces += _program(PREPARE, "the preparation of a pod", stubs.PREPARE_FILE, layer, interpreter)
        elif layer == layers.INIT:
            pieces += _init_start(interpreter)
        elif layer == layers.DRIVER:
            pieces += _driver_start(interpreter)
        elif layer == layers.SHELL:
            pieces += _shell()
        pieces += _libraries(layer, interpreter, pieces)
        pieces += list(_texts(layer, pieces))
        found = {piece.path: piece for piece in pieces} | found
    return [found[path] for path in sorted(found)]


def _start(interpreter: Interpreter) -> Iterator[BundleFile]:
    """The interpreter, its loader, and the shell scripts that start them."""
    own = origins.of_kedge()
    python = origins.of_python(interpreter.version)
    loader = interpreter.loader
    yield BundleFile(f"bin/{interpreter.name}", interpreter.executable, layers.CORE, python, program=True)
    yield BundleFile(f"lib/{loader.name}", loader, layers.CORE, libraries.origins([loader])[loader], program=True)
    yield BundleFile("bin/python3", stubs.python(interpreter.name, loader.name), layers.CORE, own, program=True)
    yield BundleFile(stubs.START_FILE, b"", layers.CORE, own, packed=RUNTIME)
    yield BundleFile("install.py", _INSTALL, layers.CORE, own)
    yield BundleFile("runtime", stubs.runtime(interpreter.name, loader.name), layers.CORE, own, program=True)


def _init_start(interpreter: Interpreter) -> Iterator[BundleFile]:
    """What starts the init phase, and its programs as files."""
    own = origins.of_kedge()
    python = stubs.python(interpreter.name, interpreter.loader.name)
    yield from _program(INIT, "the init phase", stubs.INIT_FILE, layers.INIT, interpreter)
    yield BundleFile("bin/python", python, layers.INIT, own, program=True)
    for path, program in program_files.FILES.items():
        yield BundleFile(f"{INIT_D}/{path}", program_files.text(program).encode(), layers.INIT, own, program=True)


def _driver_start(interpreter: Interpreter) -> Iterator[BundleFile]:
    """What starts the controller of a job: on a node, or in a pod, beside which a program sends its run folder."""
    layer, names = layers.DRIVER, (interpreter.name, interpreter.loader.name)
    yield from _program(CONTROLLER, "the controller of a job", stubs.CONTROLLER_FILE, layer, interpreter)
    yield from _program(SERVE, "sending a run folder", stubs.SERVE_FILE, layer, interpreter)
    script = stubs.program("the driver of a job", stubs.CONTROLLER_FILE, *names, stubs.DRIVER_ARGUMENT)
    yield BundleFile(_DRIVER, script, layer, origins.of_kedge(), program=True)


def _program(name: str, what: str, file: str, layer: str, interpreter: Interpreter) -> Iterator[BundleFile]:
    """A packed file, and the script that starts it."""
    own, script = origins.of_kedge(), stubs.program(what, file, interpreter.name, interpreter.loader.name)
    yield BundleFile(file, b"", layer, own, packed=name)
    yield BundleFile(name, script, layer, own, program=True)


def _shell() -> Iterator[BundleFile]:
    program = busybox.find()
    assert program, "the layer was chosen"
    yield BundleFile(BUSYBOX, program, layers.SHELL, libraries.busybox_origin(program), program=True)


def _own(layer: str, owned: kedge_files.Own | None) -> Iterator[BundleFile]:
    if owned is None:
        return
    origin = origins.of_kedge()
    for file in owned.files:
        path = f"{SITE}/{file.relative_to(kedge_files.PACKAGE.parent)}"
        if file in owned.plain:
            yield BundleFile(path, file, layer, origin)
        else:  # the runtime does not use annotations; dataclasses, which do, are only on the job's side
            typed = layer in (layers.INIT, layers.DRIVER) and _UNTYPED not in file.parents
            yield _module(path, file, layer, origin)._replace(untyped=not typed)


def _modules(layer: str, interpreter: Interpreter, found: Origins) -> Iterator[BundleFile]:
    folders = [interpreter.stdlib, *map(Path, search_path())]
    python = origins.of_python(interpreter.version)
    for name, path in found.items():
        above = [folder for folder in folders if path.is_relative_to(folder)]  # packages may be in the stdlib's folder
        folder = max(above, key=lambda folder: len(folder.parts), default=interpreter.stdlib)
        if folder != interpreter.stdlib:
            top, origin = name.split(".")[0], origins.of_module(name.split(".")[0])
            yield _module(f"{SITE}/{path.relative_to(folder)}", path, layer, origin)
            if name == top:
                yield from _data(path, folder, layer, origin)
        elif path.suffix == ".so":
            yield BundleFile(f"{interpreter.home}/lib-dynload/{path.name}", path, layer, python)
        else:
            yield _module(f"{interpreter.home}/{path.relative_to(interpreter.stdlib)}", path, layer, python)


def _module(path: str, file: Path, layer: str, origin: Origin) -> BundleFile:
    compiled = file.suffix == ".py"
    return BundleFile(f"{path}c" if compiled else path, file, layer, origin, compiled)


def _data(module: Path, folder: Path, layer: str, origin: Origin) -> Iterator[BundleFile]:
    """The data files beside the modules of a package."""
    if module.name != "__init__.py":
        return
    for file in module.parent.rglob("*"):
        inside = file.relative_to(module.parent)
        if file.is_file() and file.suffix not in _NO_DATA and not _NOT_NEEDED & set(inside.parts):
            yield BundleFile(f"{SITE}/{file.relative_to(folder)}", file, layer, origin)


def _libraries(layer: str, interpreter: Interpreter, pieces: Iterable[BundleFile]) -> list[BundleFile]:
    """The shared libraries that these files need."""
    files = [piece.content for piece in pieces if isinstance(piece.content, Path) and _is_loaded(piece)]
    needed = machine.libraries(interpreter.loader, files)
    if layer == layers.CORE:
        libc = next((path for name, path in needed.items() if name.startswith("libc.so")), None)
        if libc is None:
            raise CannotRun(f"{interpreter.executable} is not linked to libc.so: a bundle cannot be built from it")
        needed |= machine.opened_late(libc)
    known = libraries.origins(needed.values())
    python = origins.of_python(interpreter.version)
    known |= {path: python for name, path in needed.items() if name.startswith("libpython")}
    return [BundleFile(f"lib/{name}", path, layer, known[path]) for name, path in sorted(needed.items())]


def _texts(layer: str, pieces: Iterable[BundleFile]) -> Iterator[BundleFile]:
    """The texts of the licences."""
    for origin in {piece.origin for piece in pieces}:
        yield from (BundleFile(f"licences/{origin.name}/{text.name}", text, layer, origin) for text in origin.texts)


def _is_loaded(piece: BundleFile) -> bool:
    return ".so" in Path(piece.path).name or (piece.program and piece.path.startswith("bin/"))
