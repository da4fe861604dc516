"""One pull of an image and its progress, from the lines that the container engine sends."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import closing
from typing import Any

from kedge.engines.container.api.client import Client, JsonLines
from kedge.engines.container.api.engine_answers import EngineRefused

# Statuses of a layer that the registry has not sent completely.
_INCOMPLETE = frozenset({"Pulling fs layer", "Waiting", "Downloading"})
_NO_PROGRESS = "Retrying"


class PullProgress:
    """The progress of a pull. Each line of the engine has a status and often a layer's id and its bytes."""

    def __init__(self) -> None:
        self._bytes: dict[str, tuple[int, int]] = {}
        self._status: dict[str, str] = {}
        self._seen: set[tuple[str, str, int]] = set()

    def add(self, line: Mapping[str, Any]) -> bool:
        """Add a line. Returns whether it shows progress: it is new, and not about a retry."""
        layer, status, detail = line.get("id", ""), line.get("status", ""), line.get("progressDetail") or {}
        if detail.get("total") and status == "Downloading":
            self._bytes[layer] = detail.get("current", 0), detail["total"]
        elif status.endswith("complete") and layer in self._bytes:
            self._bytes[layer] = self._bytes[layer][1], self._bytes[layer][1]
        if layer:
            self._status[layer] = status
        key = layer, status, detail.get("current", 0)
        is_progress = key not in self._seen and not status.startswith(_NO_PROGRESS)
        self._seen.add(key)
        return is_progress

    @property
    def done(self) -> int:
        """The bytes received of the layers whose size is known."""
        return sum(done for done, _ in self._bytes.values())

    @property
    def total(self) -> int:
        """The total bytes of those layers; 0 if no size is known."""
        return sum(total for _, total in self._bytes.values())

    @property
    def waits_for_registry(self) -> bool:
        """Whether the registry still has to send something. Once it has not, layers are unpacked without messages."""
        return not self._status or any(status in _INCOMPLETE for status in self._status.values())


class Pull(threading.Thread):
    """A thread that pulls an image. `ended` receives the error, if any; `moved` is the time (time.monotonic) of the
    last progress."""

    def __init__(self, client: Client, name: str, auth: Mapping[str, str] | None) -> None:
        super().__init__(name="pull", daemon=True)  # the engine may take long to answer
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
        """Close the connection, upon which the engine aborts the pull."""
        self._closed = True
        if self._lines:
            self._lines.close()
