"""Remembers what Podman says of its machine. It takes long to answer, because it asks dpkg or rpm for the packages of
its helpers."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kedge import processes, xdg
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import Facts
from kedge.errors import KedgeError
from kedge.own_files import replace_file
from kedge.untrusted import read_json

_FRESH_SEC = 600.0  # its settings may change
_FILE = "podman.json"
_LARGEST = 1 << 16  # bytes
_TYPES = (str, str, int, int, *[bool] * 7)  # of the facts


def facts_of(address: str, client: Client) -> Facts:
    """The facts of the engine at `address`, to which `client` is connected. EngineGone or EngineRefused."""
    if not client.podman:
        return client.facts()
    engine = [address, client.podman, os.geteuid(), _boot()]
    with suppress(OSError, KedgeError, ValueError, LookupError, TypeError):
        return _remembered(engine)
    facts = client.facts()
    with suppress(OSError, KedgeError):
        _folder().mkdir(parents=True, exist_ok=True)
        remembered = {"engine": engine, "time": time.time(), "facts": facts}
        replace_file(_folder() / _FILE, json.dumps(remembered).encode(), synced=False)
    return facts


def _boot() -> str:
    """The id of the machine's current boot; empty if it is not known."""
    with suppress(OSError):
        return processes.boot_id()
    return ""


def _folder() -> Path:
    return Path(xdg.cache(xdg.CONTAINERS, os.environ))


def _remembered(engine: list[object]) -> Facts:
    """LookupError if nothing is remembered of this engine, or for too long; OSError and others if nothing can be."""
    found: Any = read_json(_folder(), _FILE, _LARGEST)
    facts = Facts(*found["facts"])
    fresh = 0 <= time.time() - found["time"] < _FRESH_SEC
    if found["engine"] == engine and fresh and tuple(map(type, facts)) == _TYPES:
        return facts
    raise LookupError
