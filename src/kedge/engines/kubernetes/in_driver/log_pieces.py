"""The pieces of the decision log: ConfigMaps, each with a part of one text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.objects import labels

KEY = "events.jsonl"
# Bytes. An object may have 1 MiB; but each write replaces the whole piece, and etcd keeps all versions for some time.
LARGEST = 64 << 10
_NUMBER = "kedge.io/log-piece"


class LogPiece(NamedTuple):
    """The part of the text in one of them, and the version of that object; empty if there is none yet."""

    number: int
    text: str
    version: str = ""


class LogPieces:
    """Those of the run `name`. `metadata` makes that of the piece of a number."""

    def __init__(self, api: KubernetesApi, name: str, metadata: Callable[[int], Mapping[str, Any]]) -> None:
        self._api, self._name, self._metadata = api, name, metadata

    def read(self) -> list[LogPiece]:
        """All, in order. ApiError."""
        found, _ = self._api.list("ConfigMap", labels.of_component(self._name, labels.LOG))
        return sorted(_piece(each) for each in found)

    def get(self, number: int) -> LogPiece | None:
        """One, if it is there. ApiError."""
        found = self._api.get("ConfigMap", str(self._metadata(number)["name"]))
        return _piece(found) if found else None

    def write(self, piece: LogPiece) -> LogPiece:
        """Create one, or replace the version of it that `piece` names. Returns the new one. ApiError: 409 if there is
        another version."""
        metadata = {**self._metadata(piece.number)}
        metadata["annotations"] = {**metadata.get("annotations", {}), _NUMBER: str(piece.number)}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: piece.text}}
        if not piece.version:
            return _piece(self._api.create(made))
        metadata["resourceVersion"] = piece.version
        return _piece(self._api.replace(made))


def _piece(found: Mapping[str, Any]) -> LogPiece:
    metadata = found["metadata"]
    number = int(metadata.get("annotations", {}).get(_NUMBER, 0))
    return LogPiece(number, found.get("data", {}).get(KEY, ""), metadata["resourceVersion"])
