"""Writing a bundle: its files, the byte code, the manifest, and a test start."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kedge import packed_runtime
from kedge.bundle import contents, elf, kedge_files, layers, machine, manifest, stubs
from kedge.bundle.contents import SITE, BundleFile, parts
from kedge.bundle.manifest import ManifestFile
from kedge.errors import CannotRun
from kedge.lazy_modules import AGENT_START, CONTROLLER_START, INIT_PROGRAMS, PREPARE_START, SERVE_START
from kedge.packed_runtime import HEADER, PackedModule, packed

# What starts from a packed file of all modules that it loads: its launcher, and what that loads late.
_STARTS = {
    contents.INIT: ("kedge.dropin.launch", "kedge.dropin.main", *INIT_PROGRAMS.values()),
    contents.AGENT: AGENT_START,
    contents.PREPARE: PREPARE_START,
    contents.SERVE: SERVE_START,
    contents.CONTROLLER: (CONTROLLER_START[0], *kedge_files.of_controller()),
}
_COMPILER = Path(__file__).with_name("compile_program.py")


def assemble(folder: Path, chosen: Sequence[str]) -> None:
    """Write a bundle into an empty folder. CannotRun if this machine does not have everything it needs."""
    pieces = parts(chosen)
    for path in sorted({os.path.dirname(piece.path) for piece in pieces}):
        (folder / path).mkdir(parents=True, exist_ok=True)
    _compile(folder, [piece for piece in pieces if piece.compiled])
    entries = [_entry(piece, _write(folder, piece)) for piece in pieces if not piece.packed]
    for piece in pieces:
        if piece.packed:  # from the others, by a program that they start
            entries.append(_entry(piece, _write(folder, piece._replace(content=_packed(folder, pieces, piece.packed)))))
    (folder / manifest.NAME).write_bytes(manifest.text(_head(chosen), sorted(entries)))
    _make_readable(folder)
    _test_imports(folder, pieces)


def _entry(piece: BundleFile, data: bytes) -> ManifestFile:
    return ManifestFile(
        piece.path, hashlib.sha256(data).hexdigest(), len(data), piece.layer, *piece.origin[:2], piece.program
    )


def _head(chosen: Sequence[str]) -> dict[str, Any]:
    interpreter = machine.interpreter()
    return {
        "machine": machine.machine(),
        "python": interpreter.version,
        "interpreter": interpreter.name,
        "loader": interpreter.loader.name,
        "layers": list(chosen),
    }


def _compile(folder: Path, pieces: Sequence[BundleFile]) -> None:
    wanted = [
        (str(piece.content), str(folder / piece.path), piece.path.removesuffix("c"), piece.untyped) for piece in pieces
    ]
    done = subprocess.run(
        [str(machine.base_executable()), "-S", "-X", "no_debug_ranges", str(_COMPILER)],
        input=json.dumps(wanted).encode(), env=_plain_environment(), capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]  # the lines before it are a traceback
        raise CannotRun(f"a bundle cannot be built in {folder.parent}: {why}")


def _packed(folder: Path, pieces: Sequence[BundleFile], what: str) -> bytes:
    """A file of modules, which stands beside the runtime's folder: for the supervisor kedge's own in the core layer,
    for everything else all that it loads."""
    if what == contents.RUNTIME:
        own = [piece for piece in pieces if piece.layer == layers.CORE and piece.untyped]
        return packed({_name(piece): _module(folder, piece) for piece in own}, "..")
    loaded = _loaded(folder, [place.partition(":")[0] for place in _STARTS[what]])
    found = {str(folder / piece.path): piece for piece in pieces if piece.compiled}
    chosen = {name: found[path] for name, path in loaded.items() if path in found}
    chosen[packed_runtime.START] = found[str(folder / SITE / packed_runtime.START.replace(".", "/")) + ".pyc"]
    if what not in (contents.CONTROLLER, contents.SERVE):
        return packed({name: _module(folder, piece) for name, piece in chosen.items()}, "..", _STARTS[what][0])
    with tempfile.TemporaryDirectory() as typed:  # it reads what others have written, and checks the types of that
        untyped = [piece for piece in chosen.values() if piece.untyped]
        for piece in untyped:
            Path(typed, piece.path).parent.mkdir(parents=True, exist_ok=True)
        _compile(Path(typed), [piece._replace(untyped=False) for piece in untyped])
        modules = {n: _module(Path(typed) if one.untyped else folder, one) for n, one in chosen.items()}
        return packed(modules, "..", _STARTS[what][0])


def _name(piece: BundleFile) -> str:
    assert isinstance(piece.content, Path)
    return kedge_files.module_name(piece.content)


def _module(folder: Path, piece: BundleFile) -> PackedModule:
    """A compiled module of the bundle, with its path below the folder `site`."""
    path = os.path.relpath(piece.path.removesuffix("c"), SITE)
    return PackedModule(path, (folder / piece.path).read_bytes()[HEADER:])


def _loaded(folder: Path, modules: list[str]) -> dict[str, str]:
    """These modules and those that are loaded with them, and their files."""
    program = (
        f"import sys, importlib, json; sys.path.append({str(folder / SITE)!r})\n"
        f"[*map(importlib.import_module, {modules})]\n"
        "print(json.dumps({name: getattr(one, '__file__', None) or '' for name, one in sys.modules.items()}))"
    )
    found: dict[str, str] = json.loads(_run_in(folder, program))
    return found


def _run_in(folder: Path, program: str) -> bytes:
    """The output of a program for the bundle's Python. CannotRun if it fails."""
    interpreter = machine.interpreter()
    start = stubs.command(str(folder), interpreter.name, interpreter.loader.name)
    done = subprocess.run([*start, "-c", program], env=_plain_environment(), capture_output=True, check=False)
    if done.returncode:
        raise CannotRun(f"the bundle that was built does not work: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _write(folder: Path, piece: BundleFile) -> bytes:
    """Write one file of the bundle and return its content."""
    target = folder / piece.path
    if piece.compiled:
        return target.read_bytes()
    data = piece.content if isinstance(piece.content, bytes) else piece.content.read_bytes()
    if elf.is_elf(data):
        data = elf.without_symbols(data)
    target.write_bytes(data)
    if piece.program:
        target.chmod(0o755)
    return data


def _make_readable(folder: Path) -> None:
    """Make everything readable, whatever the umask is, because the bundle is for every user of an image."""
    for path, folders, files in os.walk(folder):
        for name in files:
            file = Path(path, name)
            file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        for name in (*folders, "."):
            Path(path, name).chmod(0o755)


def _test_imports(folder: Path, pieces: Sequence[BundleFile]) -> None:
    """Start the bundle and import all its modules of kedge. CannotRun if that fails."""
    names = [
        piece.path.removesuffix(".pyc").removeprefix(f"{SITE}/").replace("/", ".").removesuffix(".__init__")
        for piece in pieces
        if piece.path.startswith(f"{SITE}/kedge/") and piece.compiled and not piece.path.endswith("__main__.pyc")
    ]
    site = str(folder / SITE)
    program = f"import sys, importlib; sys.path.append({site!r}); [*map(importlib.import_module, {names})]"
    _run_in(folder, program)


def _plain_environment() -> dict[str, str]:
    """The environment of this process without variables for Python, and with reproducible hashes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PYTHONHASHSEED": "0"}
