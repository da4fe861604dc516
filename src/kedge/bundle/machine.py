"""What a bundle takes from this machine: the interpreter, the dynamic loader, and shared libraries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kedge.bundle import elf
from kedge.errors import CannotRun

# Libraries that the C library opens on demand, without listing them in its header: libgcc_s when a thread ends, the
# others to look up users and hosts.
_OPENED_LATE = ("libgcc_s.so.1", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2")
_RESOLVED = re.compile(r"\t(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)")
_MISSING = re.compile(r"\t(\S+) => not found")
_OF_ONE_CPU = re.compile(r"/glibc-hwcaps/[^/]+")


class Interpreter(NamedTuple):
    """The CPython that runs this process. `name` is for example `python3.11`; `library_folder` is the folder of its
    standard library below its prefix (`lib` or `lib64`)."""

    executable: Path
    name: str
    version: str
    library_folder: str
    stdlib: Path
    loader: Path

    @property
    def home(self) -> str:
        """The path of the standard library in a bundle."""
        return f"{self.library_folder}/{self.name}"


def machine() -> str:
    """The processor's architecture, such as `x86_64`."""
    return os.uname().machine


@cache
def interpreter() -> Interpreter:
    """This process's interpreter. CannotRun if it cannot run on other machines."""
    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython":
        raise CannotRun("a bundle can only be built by CPython on Linux; build it there and copy it")
    executable, version = base_executable(), sys.version_info
    return Interpreter(
        executable=executable,
        name=f"python{version.major}.{version.minor}",
        version=f"{version.major}.{version.minor}.{version.micro}",
        library_folder=sys.platlibdir,
        stdlib=Path(sysconfig.get_path("stdlib")),
        loader=loader_of(executable),
    )


def loader_of(executable: Path) -> Path:
    """The dynamic loader of a program. CannotRun if it cannot be used on other machines."""
    named = elf.interpreter(executable.read_bytes())
    if named is None:
        raise CannotRun(f"{executable} is not a dynamically linked 64-bit program: a bundle cannot be built from it")
    if "musl" in named:
        raise CannotRun(
            f"{executable} is built for musl, and google-re2 has no packages for that: build the bundle with a Python "
            "for glibc, as in Debian or Fedora; it runs in musl images too"
        )
    loader = Path(named).resolve()
    if "--argv0" not in _run(loader, "--help"):
        raise CannotRun(
            f"{loader} is too old to start a bundle (it has no --argv0): build it where glibc is 2.33 or newer; it "
            "runs on older machines too"
        )
    return loader


def base_executable() -> Path:
    """The interpreter itself, not the link to it in a virtual environment."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))


def libraries(loader: Path, files: Iterable[Path]) -> dict[str, Path]:
    """The shared libraries that these files need, by the names they are loaded under. CannotRun if one is missing."""
    found: dict[str, Path] = {}
    for file in files:
        for path in _needed(loader, file):
            found.setdefault(path.name, path)
    return found


def opened_late(libc: Path) -> dict[str, Path]:
    """The libraries that the C library opens on demand."""
    return {name: path for name in _OPENED_LATE if (path := libc.parent / name).exists()}


def _needed(loader: Path, file: Path) -> Iterator[Path]:
    listing = _run(loader, "--list", str(file))
    if missing := _MISSING.search(listing):
        raise CannotRun(f"{file} needs the library {missing[1]}, which is missing on this machine")
    for text in _RESOLVED.findall(listing):
        path = Path(_OF_ONE_CPU.sub("", text))  # the generic library, because a bundle must run on other processors
        if path.resolve() != loader:
            yield path if path.exists() else Path(text)


def _run(loader: Path, *arguments: str) -> str:
    kept = ("LD_LIBRARY_PATH",)
    environment = {name: value for name, value in os.environ.items() if name in kept or not name.startswith("LD_")}
    done = subprocess.run([str(loader), *arguments], capture_output=True, text=True, env=environment, check=False)
    if done.returncode and not done.stdout:
        raise CannotRun(f"{loader} {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
