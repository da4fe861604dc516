"""Objects of a namespace in memory, for tests of who may write what: every answer can be lost or refused."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NoReturn

from kedge.engines.kubernetes.api import ApiError


class Left(Exception):
    """A driver has left."""


def leaves(why: str) -> NoReturn:
    raise Left(why)


class MemoryApi:
    """What a driver calls of KubernetesApi. `before` is called with the method before a call has an effect, `after`
    when its answer is on the way: both may raise an error."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.before: Callable[[str], object] = lambda method: None
        self.after: Callable[[str], object] = lambda method: None
        self.calls: list[str] = []
        self._versions = count(1)
        self._lock = threading.Lock()

    def _call(self, method: str, act: Callable[[], Any]) -> Any:
        self.before(method)
        with self._lock:
            self.calls.append(method)
            found = copy.deepcopy(act())
        self.after(method)
        return found

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._call("get", lambda: self.objects.get((kind, name)))
        return found

    def list(self, kind: str, labels: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        def act() -> list[dict[str, Any]]:
            mine = [each for (of, _), each in self.objects.items() if of == kind]
            return [each for each in mine if labels.items() <= each["metadata"].get("labels", {}).items()]

        return self._call("list", act), ""

    def create(self, made: Mapping[str, Any]) -> dict[str, Any]:
        def act() -> dict[str, Any]:
            key = made["kind"], made["metadata"]["name"]
            if key in self.objects:
                raise ApiError(409, "AlreadyExists", "it is there")
            return self._store(made)

        found: dict[str, Any] = self._call("create", act)
        return found

    def replace(self, made: Mapping[str, Any]) -> dict[str, Any]:
        def act() -> dict[str, Any]:
            found = self.objects.get((made["kind"], made["metadata"]["name"]))
            if found is None:
                raise ApiError(404, "NotFound", "it is not there")
            if made["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "it was changed")
            return self._store(made)

        found: dict[str, Any] = self._call("replace", act)
        return found

    def _store(self, made: Mapping[str, Any]) -> dict[str, Any]:
        stored = copy.deepcopy(dict(made))
        stored["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[made["kind"], made["metadata"]["name"]] = stored
        return stored


class Unreachable:
    """The API server does not answer for the next `times` calls of a method."""

    def __init__(self, times: int, method: str = "") -> None:
        self.left, self._method = times, method

    def __call__(self, method: str) -> None:
        if self.left and self._method in ("", method):
            self.left -= 1
            raise ApiError(0, "Unreachable", "no answer")
