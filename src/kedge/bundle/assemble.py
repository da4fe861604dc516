"""Writing a bundle: every part in its place, byte code, the manifest, and a first start."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kedge.bundle import elf, machine, manifest, stubs
from kedge.bundle.contents import SITE, BundleFile, parts
from kedge.bundle.manifest import ManifestFile
from kedge.errors import CannotRun

_COMPILER = Path(__file__).with_name("compile_program.py")


def assemble(folder: Path, chosen: Sequence[str]) -> None:
    """Write a bundle into an empty folder. CannotRun says what this machine lacks for it."""
    pieces = parts(chosen)
    for path in sorted({os.path.dirname(piece.path) for piece in pieces}):
        (folder / path).mkdir(parents=True, exist_ok=True)
    _compile(folder, [piece for piece in pieces if piece.compiled])
    entries = [_entry(piece, _write(folder, piece)) for piece in pieces]
    (folder / manifest.NAME).write_bytes(manifest.text(_head(chosen), entries))
    _let_all_read(folder)
    _try(folder, pieces)


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


def _write(folder: Path, piece: BundleFile) -> bytes:
    """Put a part in its place, and return its content."""
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


def _let_all_read(folder: Path) -> None:
    """Whatever the umask: the bundle is for every user of an image."""
    for path, folders, files in os.walk(folder):
        for name in files:
            file = Path(path, name)
            file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        for name in (*folders, "."):
            Path(path, name).chmod(0o755)


def _try(folder: Path, pieces: Sequence[BundleFile]) -> None:
    """Let it import all that it brings of kedge. CannotRun if it cannot."""
    names = [
        piece.path.removesuffix(".pyc").removeprefix(f"{SITE}/").replace("/", ".").removesuffix(".__init__")
        for piece in pieces
        if piece.path.startswith(f"{SITE}/kedge/") and piece.compiled and not piece.path.endswith("__main__.pyc")
    ]
    site = str(folder / SITE)
    program = f"import sys, importlib; sys.path.append({site!r}); [*map(importlib.import_module, {names})]"
    interpreter = machine.interpreter()
    start = stubs.command(str(folder), interpreter.name, interpreter.loader.name)
    done = subprocess.run([*start, "-c", program], env=_plain_environment(), capture_output=True, check=False)
    if done.returncode:
        raise CannotRun(f"the bundle that was built does not work: {done.stderr.decode(errors='replace').strip()}")


def _plain_environment() -> dict[str, str]:
    """This process's, without what changes how Python works; hashes are the same each time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PYTHONHASHSEED": "0"}
