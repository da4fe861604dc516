"""From a request to its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kedge.testing.kubernetes_api import access, deletion, selectors, watching, writes
from kedge.testing.kubernetes_api.access import AccessRules
from kedge.testing.kubernetes_api.deletion import DeleteOptions
from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json
from kedge.testing.kubernetes_api.resources import ACCESS_REVIEW, FakePlace, KnownKinds, ResourceKind
from kedge.testing.kubernetes_api.store import LogTexts, ObjectStore

_MERGE = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_LINES_SECOND = "2026-01-01T00:00:00"  # in which all lines of logs are printed
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


Webhook = Callable[[ResourceKind, Json], Json]  # a mutating admission webhook


class FakeRequest(NamedTuple):
    """What a client asks. `body` is empty if there is none."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: Json


class FakeCall(NamedTuple):
    """A request as a test counts it. `name` is empty for a list."""

    verb: str
    kind: str
    namespace: str
    name: str
    subresource: str


class FakeAnswer(NamedTuple):
    """`lines`: a watch, sent as it comes, instead of `body`. `text`: a log."""

    code: int
    body: Json = {}  # noqa: RUF012  # never changed
    lines: Iterator[bytes] | None = None
    text: str | None = None
    retry_after: int | None = None


class ApiRoutes:
    """Answers requests from a store. `logs` holds the texts of containers by (namespace, pod, container); `calls` is
    what was asked so far. `bookmark_sec` is how often a watch sends its position."""

    def __init__(
        self, store: ObjectStore, resources: KnownKinds, rules: AccessRules, version: tuple[str, str],
        webhooks: Sequence[Webhook] = (),
    ) -> None:  # fmt: skip
        self.calls: list[FakeCall] = []
        self.logs: LogTexts = {}
        self.bookmark_sec = 60.0
        self.closing = False
        self.watches = 0  # raised to end the watches that run
        self._store, self._resources, self._rules, self._version = store, resources, rules, version
        self._webhooks = webhooks

    def answer(self, request: FakeRequest) -> FakeAnswer:
        """FakeRefusal."""
        if found := self._discovery(request.path):
            return FakeAnswer(200, found)
        place = self._resources.place(request.path)
        verb = _verb(request, place)
        self.calls.append(FakeCall(verb, place.kind.kind, place.namespace, place.name, place.subresource))
        if failure := self._rules.failure(verb, place.kind.kind):
            raise FakeRefusal(failure.code, failure.message, retry_after=failure.retry_after)
        if place.kind == ACCESS_REVIEW:
            return FakeAnswer(201, access.review(self._rules, request.body))
        self._rules.check_permission(verb, place)
        return self._act(verb, place, request)

    def _act(self, verb: str, place: FakePlace, request: FakeRequest) -> FakeAnswer:
        kind, store = place.kind, self._store
        if verb == "create":
            return self._create(place, request)
        if verb == "update":
            return FakeAnswer(200, writes.replace(store, place, request.body))
        if verb == "patch":
            if request.content_type not in _MERGE:
                raise FakeRefusal(415, f"this server knows only merge patches, not {request.content_type}")
            return FakeAnswer(200, writes.patch(store, place, request.body))
        if verb == "delete":
            options = deletion.default_propagation(kind, DeleteOptions.read(request.body, request.query))
            return FakeAnswer(200, deletion.delete(store, kind, place.namespace, place.name, options))
        match = selectors.matcher(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        if verb == "watch":
            running = self.watches
            lines = watching.events(
                store, place, request.query, match, self.bookmark_sec, lambda: self.closing or self.watches != running
            )
            return FakeAnswer(200, lines=lines)
        if verb == "list":
            return FakeAnswer(200, self._list(place, request, match))
        if verb == "deletecollection":
            return self._delete_all(place, request, match)
        if place.subresource == "log":
            store.get(kind, place.namespace, place.name)
            return FakeAnswer(200, text=self._log(place, request))
        return FakeAnswer(200, store.get(kind, place.namespace, place.name))

    def _create(self, place: FakePlace, request: FakeRequest) -> FakeAnswer:
        if place.subresource:
            raise FakeRefusal(405, f"this server does not know {place.kind.plural}/{place.subresource}")
        with self._store.lock:  # so that a quota is not passed by two at once
            body = {**request.body, "metadata": {**request.body.get("metadata", {})}}
            if place.kind.namespaced:
                body["metadata"].setdefault("namespace", place.namespace)
            for webhook in self._webhooks:
                body = webhook(place.kind, body)
            self._rules.check_admission(self._store, place.kind, body)
            return FakeAnswer(201, writes.create(self._store, place, body))

    def _list(self, place: FakePlace, request: FakeRequest, match: selectors.Match) -> Json:
        """All, or `limit` of them and where to continue: after how many, at which version."""
        items, version = self._store.matching(place.kind, place.namespace, match)
        start, _, at = request.query.get("continue", "0:").partition(":")
        most = int(request.query.get("limit") or 0) or len(items)
        page, left = items[int(start) : int(start) + most], len(items) - int(start) - most
        meta: Json = {"resourceVersion": at or str(version)}
        if left > 0:
            meta |= {"continue": f"{int(start) + most}:{at or version}", "remainingItemCount": left}
        kind = place.kind
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta, "items": page}

    def _delete_all(self, place: FakePlace, request: FakeRequest, match: selectors.Match) -> FakeAnswer:
        options = deletion.default_propagation(place.kind, DeleteOptions.read(request.body, request.query))
        for item in self._store.matching(place.kind, place.namespace, match)[0]:
            deletion.delete(self._store, place.kind, item["metadata"]["namespace"], item["metadata"]["name"], options)
        return FakeAnswer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _log(self, place: FakePlace, request: FakeRequest) -> str:
        text = self.logs.get((place.namespace, place.name, request.query.get("container", "app")), "")
        if request.query.get("timestamps") != "true":
            return text
        lines = text.splitlines(keepends=True)
        return "".join(f"{_LINES_SECOND}.{number:09d}Z {line}" for number, line in enumerate(lines))

    def _discovery(self, path: str) -> Json | None:
        parts = path.strip("/").split("/")
        if parts == ["version"]:
            major, minor = self._version
            return {"major": major, "minor": minor, "gitVersion": f"v{major}.{minor.rstrip('+')}.0"}
        if parts in (["healthz"], ["readyz"], ["livez"]):
            return {"status": "ok"}
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*g) for g in self._groups()]}
        if parts == ["api", "v1"]:
            return _resource_list(self._resources.listed("", "v1"), "v1")
        if parts[0] == "apis" and len(parts) == 3 and (kinds := self._resources.listed(parts[1], parts[2])):
            return _resource_list(kinds, f"{parts[1]}/{parts[2]}")
        return None

    def _groups(self) -> list[tuple[str, list[str]]]:
        return [(group, sorted(versions)) for group, versions in self._resources.groups().items()]


def _verb(request: FakeRequest, place: FakePlace) -> str:
    if request.method == "DELETE":
        return "delete" if place.name else "deletecollection"
    if request.method == "GET":
        watched = request.query.get("watch") in ("true", "1")
        return "watch" if watched else "get" if place.name else "list"
    return _VERBS[request.method]


def _group(group: str, versions: list[str]) -> Json:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[-1]}


def _resource_list(kinds: list[ResourceKind], version: str) -> Json:
    verbs = list(access.verbs())
    listed = [{"name": k.plural, "namespaced": k.namespaced, "kind": k.kind, "verbs": verbs} for k in kinds]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": listed}
