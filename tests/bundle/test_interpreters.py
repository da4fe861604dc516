"""Bundles of other interpreters than the one that runs the tests: distributions build CPython in different ways."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import re2

import kedge
from kedge.bundle import build, machine
from kedge.errors import CannotRun

_SYSTEM = Path("/usr/bin/python3")


def test_the_python_of_the_distribution(tmp_path: Path) -> None:
    """It has many built-in modules, a standard library separate from packages, and no libpython."""
    version = "import sys; print(*sys.version_info[:2])"
    if not _SYSTEM.exists() or _SYSTEM.resolve() == machine.base_executable():
        pytest.skip("there is no other Python here")
    said = subprocess.run([_SYSTEM, "-c", version], capture_output=True, text=True, check=True).stdout
    if said.split() != [str(number) for number in sys.version_info[:2]]:
        pytest.skip("the distribution's Python is of another version, for which nothing is installed")
    packages = f"{Path(kedge.__file__).parents[1]}:{Path(re2.__file__).parents[1]}"
    program = "from kedge.bundle import build; print(build.ensure(('core', 'net')).path)"
    variables = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": packages}
    done = subprocess.run([_SYSTEM, "-c", program], capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    bundle = build.opened(Path(done.stdout.strip()))
    files = {file["path"]: file for file in bundle.head["files"]}
    assert not [path for path in files if "dist-packages" in path or path.startswith("site/home")]
    assert "lib/libexpat.so.1" in files or any(path.startswith("lib/libpython") for path in files)
    python = str(bundle.path / "bin" / "python3")
    program = "import sys; sys.path.append(sys.prefix + '/site'); import re2, ssl; print(sys.executable)"
    told = subprocess.run([python, "-I", "-S", "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.strip() == python


def test_programs_that_cannot_be_bundled(tmp_path: Path) -> None:
    static = shutil.which("busybox")
    text = tmp_path / "script"
    text.write_text("#!/bin/sh\n")
    for program in filter(None, (static and Path(static), text)):
        with pytest.raises(CannotRun, match="is not a dynamically linked 64-bit program"):
            machine.loader_of(program)


def test_a_python_for_musl_is_recognised(tmp_path: Path) -> None:
    """It is recognised by the loader that it names."""
    real = machine.base_executable().read_bytes()
    asked = str(machine.elf.interpreter(real)).encode()
    program = tmp_path / "python3"
    program.write_bytes(real.replace(asked, b"/lib/ld-musl-x86_64.so.1".ljust(len(asked), b"\0")[: len(asked)]))
    with pytest.raises(CannotRun, match="is built for musl"):
        machine.loader_of(program)
