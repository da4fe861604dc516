"""MANIFEST.json: what a bundle holds. Its own SHA-256 is the bundle's digest, because it names that of every file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kedge

NAME = "MANIFEST.json"


class ManifestFile(NamedTuple):
    """One file of a bundle: `size` in bytes, `origin` in words, `licence` as an SPDX expression, `program`: it can be
    executed."""

    path: str
    sha256: str
    size: int
    layer: str
    origin: str
    licence: str
    program: bool = False


def text(head: Mapping[str, Any], entries: Sequence[ManifestFile]) -> bytes:
    """The whole file. `head`: `machine` and `python`, which it is for; `interpreter` and `loader`, the names of what
    starts it; `layers`."""
    head = {"version": 1, "kedge": kedge.__version__, **head}
    return (json.dumps({**head, "files": [each._asdict() for each in entries]}, indent=1) + "\n").encode()


def entries(folder: Path) -> list[ManifestFile]:
    """What the manifest of a bundle says of its files. OSError and ValueError as they come."""
    return [ManifestFile(**each) for each in read(folder)[0]["files"]]


def read(folder: Path) -> tuple[dict[str, Any], str]:
    """A bundle's manifest and its digest in hex. OSError and ValueError as they come."""
    data = (folder / NAME).read_bytes()
    found: dict[str, Any] = json.loads(data)
    return found, hashlib.sha256(data).hexdigest()
