"""MANIFEST.json: the list of a bundle's files. As it has the SHA-256 of every file, its own is the bundle's digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kedge

NAME = "MANIFEST.json"


class ManifestFile(NamedTuple):
    """One file of a bundle. `size` is in bytes, `origin` a text, `licence` an SPDX expression; a `program` is
    executable."""

    path: str
    sha256: str
    size: int
    layer: str
    origin: str
    licence: str
    program: bool = False


def text(head: Mapping[str, Any], entries: Sequence[ManifestFile]) -> bytes:
    """The content of the manifest. `head` has `machine`, `python`, `interpreter` and `loader` (the file names with
    which the bundle is started), and `layers`."""
    head = {"version": 1, "kedge": kedge.__version__, **head}
    return (json.dumps({**head, "files": [each._asdict() for each in entries]}, indent=1) + "\n").encode()


def entries(folder: Path) -> list[ManifestFile]:
    """The files in a bundle's manifest. OSError or ValueError if it cannot be read."""
    return [ManifestFile(**each) for each in read(folder)[0]["files"]]


def read(folder: Path) -> tuple[dict[str, Any], str]:
    """A bundle's manifest and its digest in hex. OSError or ValueError if it cannot be read."""
    data = (folder / NAME).read_bytes()
    found: dict[str, Any] = json.loads(data)
    return found, hashlib.sha256(data).hexdigest()
