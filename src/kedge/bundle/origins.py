"""The origins of files, the licences (SPDX) under which they may be distributed, and the texts of the licences."""

from __future__ import annotations

import importlib.metadata
import sysconfig
from functools import cache
from importlib.metadata import Distribution, PackageMetadata, PackageNotFoundError
from pathlib import Path
from typing import NamedTuple

import kedge
from kedge.bundle import spdx

_LONGEST_NAME = 60  # characters; longer values are the licence itself, not its name
_TEXTS = ("LICEN", "COPYING", "NOTICE")


class Origin(NamedTuple):
    """`source` is for example `Debian libc6 2.36-9`, `google-re2 1.1` or a path. `name` is the folder for the texts."""

    source: str
    licence: str
    name: str
    texts: tuple[Path, ...] = ()


@cache
def of_kedge() -> Origin:
    """kedge itself."""
    try:
        texts = _texts(importlib.metadata.distribution("kedge"))
    except PackageNotFoundError:  # not installed, but run from its sources
        texts = ()
    return Origin(f"kedge {kedge.__version__}", "MIT", "kedge", texts)


@cache
def of_python(version: str) -> Origin:
    """The interpreter and its standard library."""
    text = Path(sysconfig.get_path("stdlib"), "LICENSE.txt")
    return Origin(f"python {version}", "Python-2.0", "python", (text,) if text.is_file() else ())


@cache
def of_module(top: str) -> Origin:
    """The distribution that installed the module with this name."""
    names = _distributions().get(top)
    if not names:
        return Origin(top, spdx.UNKNOWN, top)
    found = importlib.metadata.distribution(names[0])
    name = str(found.metadata["Name"])
    texts = _texts(found)
    return Origin(f"{name} {found.version}", _licence(found.metadata, texts), name, texts)


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _licence(metadata: PackageMetadata, texts: tuple[Path, ...]) -> str:
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    name = metadata["License"] if "License" in metadata else ""  # noqa: SIM401  it has no `get`
    classifiers = (line for line in metadata.get_all("Classifier") or () if line.startswith("License :: "))
    if not name or "\n" in name or len(name) >= _LONGEST_NAME:
        name = next((line.rpartition(" :: ")[2] for line in classifiers), "")
    return spdx.expression(name, "\n".join(path.read_text(errors="replace") for path in texts))


def _texts(distribution: Distribution) -> tuple[Path, ...]:
    files = (file for file in distribution.files or () if file.name.upper().startswith(_TEXTS))
    paths = (Path(str(distribution.locate_file(file))) for file in files if ".dist-info" in str(file))
    return tuple(path for path in paths if path.is_file())
