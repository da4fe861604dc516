"""One pull of an image: how far it is, by what the container engine tells of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import closing
from typing import Any

from kedge.engines.container.client import Client, EngineRefused, JsonLines

# Statuses of a layer for which something is still to come from the registry.
_TO_COME = frozenset({"Pulling fs layer", "Waiting", "Downloading"})
_NO_PROGRESS = "Retrying"


class PullProgress:
    """What the lines of an engine say; each has a status and often a layer's id and its bytes."""

    def __init__(self) -> None:
        self._bytes: dict[str, tuple[int, int]] = {}
        self._status: dict[str, str] = {}
        self._seen: set[tuple[str, str, int]] = set()

    def add(self, line: Mapping[str, Any]) -> bool:
        """Whether a line tells of progress: one that was not there before, and not that something is tried again."""
        layer, status, detail = line.get("id", ""), line.get("status", ""), line.get("progressDetail") or {}
        if detail.get("total") and status == "Downloading":
            self._bytes[layer] = detail.get("current", 0), detail["total"]
        elif status.endswith("complete") and layer in self._bytes:
            self._bytes[layer] = self._bytes[layer][1], self._bytes[layer][1]
        if layer:
            self._status[layer] = status
        told = layer, status, detail.get("current", 0)
        is_new = told not in self._seen and not status.startswith(_NO_PROGRESS)
        self._seen.add(told)
        return is_new

    @property
    def done(self) -> int:
        """Bytes that are here, of the layers whose size is known."""
        return sum(done for done, _ in self._bytes.values())

    @property
    def total(self) -> int:
        """All bytes of those layers; 0 if no size is known."""
        return sum(total for _, total in self._bytes.values())

    @property
    def waits_for_registry(self) -> bool:
        """Whether something is still to come from the registry. What is here is then unpacked, in silence."""
        return not self._status or any(status in _TO_COME for status in self._status.values())


class Pull(threading.Thread):
    """A thread that pulls. `ended` gets the error, if there is one; `moved` is when (time.monotonic) it last got on."""

    def __init__(self, client: Client, name: str, auth: Mapping[str, str] | None) -> None:
        super().__init__(name="pull", daemon=True)  # the engine may not answer for long
        self._client, self._name, self._auth = client, name, auth
        self._lines: JsonLines | None = None
        self._closed = False
        self.ended: Future[None] = Future()
        self.progress = PullProgress()
        self.moved = time.monotonic()

    def run(self) -> None:
        try:
            self._lines = self._client.pull(self._name, self._auth)
            if self._closed:
                self._lines.close()
            with closing(iter(self._lines)) as lines:
                for line in lines:
                    self._take(line)
            self.ended.set_result(None)
        except BaseException as error:
            self.ended.set_exception(error)

    def _take(self, line: Mapping[str, Any]) -> None:
        if error := line.get("error"):
            raise EngineRefused(str(error).strip(), 0)
        if self.progress.add(line):
            self.moved = time.monotonic()

    def close(self) -> None:
        """Let the engine give it up."""
        self._closed = True
        if self._lines:
            self._lines.close()
