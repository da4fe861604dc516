"""Where files that are not kedge's come from, and under which licence they may be passed on."""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_UNKNOWN = "see its origin"
# By the beginning of a library's name: what distributions take them from is the same everywhere.
_LICENCES = {
    "ld-": "LGPL-2.1-or-later", "libc.": "LGPL-2.1-or-later", "libm.": "LGPL-2.1-or-later",
    "libdl.": "LGPL-2.1-or-later", "libpthread.": "LGPL-2.1-or-later", "librt.": "LGPL-2.1-or-later",
    "libutil.": "LGPL-2.1-or-later", "libresolv.": "LGPL-2.1-or-later", "libnss_": "LGPL-2.1-or-later",
    "libmvec.": "LGPL-2.1-or-later", "libgcc_s.": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libstdc++.": "GPL-3.0-or-later WITH GCC-exception-3.1", "libpython": "PSF-2.0", "libssl.": "Apache-2.0",
    "libcrypto.": "Apache-2.0", "libz.": "Zlib", "libffi.": "MIT", "libbz2.": "bzip2-1.0.6", "liblzma.": "0BSD",
    "libexpat.": "MIT", "libuuid.": "BSD-3-Clause", "libmpdec.": "BSD-2-Clause", "libyaml": "MIT",
}  # fmt: skip


class Origin(NamedTuple):
    """`source` as in `Debian libc6 2.36-9`, `google-re2 1.1` or a path."""

    source: str
    licence: str


def of_python(version: str) -> Origin:
    """The interpreter and its standard library."""
    return Origin(f"python {version}", "PSF-2.0")


def of_libraries(paths: Iterable[Path]) -> dict[Path, Origin]:
    """For every shared library: the package that it belongs to, where the machine can tell, else its path."""
    wanted = list(paths)
    packages = _debian_packages(wanted)
    return {path: Origin(packages.get(path, str(path)), _library_licence(path.name)) for path in wanted}


@cache
def of_module(top: str) -> Origin:
    """The distribution that brought a module of this name."""
    names = _distributions().get(top)
    if not names:
        return Origin(top, _UNKNOWN)
    found = importlib.metadata.distribution(names[0])
    return Origin(f"{found.metadata['Name']} {found.version}", _licence(found.metadata))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _licence(metadata: importlib.metadata.PackageMetadata) -> str:
    for name in ("License-Expression", "License"):
        if name in metadata and "\n" not in metadata[name] and len(metadata[name]) < 60:
            return metadata[name]
    classifiers = (line for line in metadata.get_all("Classifier") or () if line.startswith("License :: "))
    return next((line.rpartition(" :: ")[2] for line in classifiers), _UNKNOWN)


def _library_licence(name: str) -> str:
    return next((licence for start, licence in _LICENCES.items() if name.startswith(start)), _UNKNOWN)


def _debian_packages(paths: Iterable[Path]) -> dict[Path, str]:
    """`Debian NAME VERSION` by path; nothing on machines without dpkg."""
    asked = {name: path for path in paths for name in _spellings(path)}
    owners = {}
    for line in _ask("dpkg-query", "-S", *asked).splitlines():
        package, _, name = line.partition(": ")
        if path := asked.get(name):
            owners[path] = package.split(",")[0].partition(":")[0]
    if not owners:
        return {}
    said = _ask("dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *sorted(set(owners.values())))
    versions = dict(line.split(" ", 1) for line in said.splitlines())
    return {path: f"Debian {package} {versions.get(package, '')}".rstrip() for path, package in owners.items()}


def _spellings(path: Path) -> set[str]:
    """A library's path as its package may have it: /lib is a link to /usr/lib now."""
    names = {str(path), str(path.resolve())}
    return names | {name.removeprefix("/usr") for name in names} | {f"/usr{name}" for name in names}


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
