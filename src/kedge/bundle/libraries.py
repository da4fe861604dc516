"""The origins of shared libraries and of busybox, and their licences."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from kedge.bundle import busybox, spdx
from kedge.bundle.origins import Origin

# By the start of a library's name, because all distributions build them from the same sources.
_LICENCES = {
    "ld-": "LGPL-2.1-or-later", "libc.": "LGPL-2.1-or-later", "libm.": "LGPL-2.1-or-later",
    "libdl.": "LGPL-2.1-or-later", "libpthread.": "LGPL-2.1-or-later", "librt.": "LGPL-2.1-or-later",
    "libutil.": "LGPL-2.1-or-later", "libresolv.": "LGPL-2.1-or-later", "libnss_": "LGPL-2.1-or-later",
    "libmvec.": "LGPL-2.1-or-later", "libgcc_s.": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libstdc++.": "GPL-3.0-or-later WITH GCC-exception-3.1", "libssl.": "Apache-2.0", "libcrypto.": "Apache-2.0",
    "libz.": "Zlib", "libffi.": "MIT", "libbz2.": "bzip2-1.0.6", "liblzma.": "0BSD", "libexpat.": "MIT",
    "libuuid.": "BSD-3-Clause", "libmpdec.": "BSD-2-Clause", "libyaml": "MIT",
}  # fmt: skip


def origins(paths: Iterable[Path]) -> dict[Path, Origin]:
    """For every shared library, the package that it belongs to, or its path where the package is not known."""
    wanted = list(paths)
    packages = _debian_packages(wanted)
    return {path: _origin(path, packages.get(path)) for path in wanted}


def busybox_origin(program: Path) -> Origin:
    """The package and the source package of a busybox, whose licence asks for the source of exactly this version."""
    package = _debian_packages([program]).get(program)
    if package is None:
        return Origin(f"{program}: {busybox.version(program)}", busybox.LICENCE, "busybox")
    name, version = package
    source = _output("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", name)
    texts = (Path("/usr/share/doc", name, "copyright"), Path("/usr/share/common-licenses/GPL-2"))
    found = tuple(text for text in texts if text.is_file())
    return Origin(f"Debian {name} {version}, source package {source}", busybox.LICENCE, name, found)


def _origin(path: Path, package: tuple[str, str] | None) -> Origin:
    licence = next((name for start, name in _LICENCES.items() if path.name.startswith(start)), None)
    if package is None:
        return Origin(str(path), licence or spdx.UNKNOWN, path.name)
    name, version = package
    text = Path("/usr/share/doc", name, "copyright")
    if licence is None:
        licence = spdx.of_debian(text.read_text(errors="replace")) if text.is_file() else spdx.UNKNOWN
    return Origin(f"Debian {name} {version}", licence, name, (text,) if text.is_file() else ())


def _debian_packages(paths: Iterable[Path]) -> dict[Path, tuple[str, str]]:
    """Name and version of the packages that own these files; empty on machines without dpkg."""
    spellings = {name: path for path in paths for name in _spellings(path)}
    owners = {}
    for line in _output("dpkg-query", "-S", *spellings).splitlines():
        package, _, name = line.partition(": ")
        if path := spellings.get(name):
            owners[path] = package.split(",")[0].partition(":")[0]
    if not owners:
        return {}
    lines = _output("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *sorted(set(owners.values()))).splitlines()
    versions = dict(line.split(" ", 1) for line in lines)
    return {path: (package, versions.get(package, "")) for path, package in owners.items()}


def _spellings(path: Path) -> set[str]:
    """The paths under which a package may list a library: /lib is a link to /usr/lib today."""
    names = {str(path), str(path.resolve())}
    return names | {name.removeprefix("/usr") for name in names} | {f"/usr{name}" for name in names}


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
