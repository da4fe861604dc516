"""The calls of the Kubernetes API that kedge needs. Objects are plain dicts, as in YAML."""

from __future__ import annotations

import importlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlencode

import httpx

from kedge import __version__
from kedge.engines.kubernetes.transport import api_errors, service_account, watches, web_socket
from kedge.engines.kubernetes.transport.api_errors import ApiError, Expired
from kedge.engines.kubernetes.transport.connections import ApiAnswer, ConnectionPool, NotSent
from kedge.engines.kubernetes.transport.endpoint import ServerEndpoint
from kedge.engines.kubernetes.transport.exec_stream import PROTOCOLS, V4, V5, ExecStream
from kedge.engines.kubernetes.transport.kinds import KINDS, Kind
from kedge.engines.kubernetes.transport.pod_log import PodLog
from kedge.engines.kubernetes.transport.watches import ApiWatch

__all__ = ["ApiError", "ApiWatch", "ExecStream", "Expired", "KubernetesApi"]

Objects = list[dict[str, Any]]
CALL_SEC = 30.0  # the deadline of a call, with its retries
_QUIET_SEC = 24 * 3600.0  # of a log that is followed: a task may print nothing for long
_SECONDS = len("2026-01-01T00:00:00")  # a time without its fractions, which are UTC
_PAGE = 500  # objects of one answer
_TRIES = 4
_VERSION = re.compile(r"(\d+)\.(\d+)")
_MERGE = "application/merge-patch+json"
_JSON = "application/json"
_FOR_A_WHILE = (429, 500, 502, 503, 504)


class KubernetesApi:
    """One server and one namespace, for all threads. Each call raises ApiError and takes at most CALL_SEC."""

    def __init__(self, endpoint: ServerEndpoint, context: str = "", kubeconfig: str = "") -> None:
        self._endpoint = endpoint
        self._pool = ConnectionPool(endpoint)
        self.namespace, self.server = endpoint.namespace, endpoint.server
        self._versions: dict[str, str] = {}  # by group, where another one is used than KINDS says
        self.context, self.kubeconfig = context, kubeconfig  # with which `connect` finds the same again

    @classmethod
    def connect(
        cls, kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None
    ) -> KubernetesApi:
        """With kubeconfig files: those that are named (several with colons between them), those of KUBECONFIG, or the
        usual one; in a pod without any, as its service account. NotConfigured. Nothing is asked yet."""
        files = importlib.import_module("kedge.engines.kubernetes.transport.kubeconfig")  # a driver needs no YAML
        named = kubeconfig or context or any(map(os.path.isfile, files.paths(None)))
        if not named and service_account.is_here():
            found = service_account.endpoint()
            return cls(found._replace(namespace=namespace or found.namespace))
        endpoint, name = files.endpoint(kubeconfig, context, namespace)
        return cls(endpoint, name, os.pathsep.join(files.paths(kubeconfig)))

    @classmethod
    def in_cluster(cls) -> KubernetesApi:
        """As the service account of this pod. NotConfigured."""
        return cls(service_account.endpoint())

    def close(self) -> None:
        """Close the connections that no call uses."""
        self._pool.close()

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object and return it as the server has it. 409 AlreadyExists if there is one with its name."""
        kind, name = _kind(obj), _name(obj)
        return self._object("POST", kind.path(self._of(obj)), f"create {self._what(kind.name, name)}", obj)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object; None: there is none."""
        try:
            return self._object("GET", self._known(kind).path(self.namespace, name), f"get {self._what(kind, name)}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, labels: Mapping[str, str] | None = None) -> tuple[Objects, str]:
        """All objects with these labels, and the resource version to watch from."""
        items: Objects = []
        more, doing = "", f"list {self._what(kind)}"
        while True:
            query = {"labelSelector": _selector(labels), "limit": str(_PAGE), "continue": more}
            try:
                page = self._object("GET", self._known(kind).path(self.namespace), doing, query=query)
            except Expired:  # while it was read in pages
                if not more:
                    raise
                items, more = [], ""
                continue
            items += [{"apiVersion": self._known(kind).api, "kind": kind, **item} for item in page.get("items") or ()]
            head = page.get("metadata", {})
            more = head.get("continue") or ""
            if not more:
                return items, str(head.get("resourceVersion", ""))

    def replace(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object; 409 Conflict if it has changed since its `metadata.resourceVersion`."""
        kind, name = _kind(obj), _name(obj)
        return self._object("PUT", kind.path(self._of(obj), name), f"update {self._what(kind.name, name)}", obj)

    def patch(self, kind: str, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change fields of an object (merge patch: None removes one). With `metadata.resourceVersion` in it, 409
        Conflict if it has changed."""
        path = self._known(kind).path(self.namespace, name)
        return self._object("PATCH", path, f"change {self._what(kind, name)}", changes, content=_MERGE)

    def delete(
        self, kind: str, name: str, *, grace_sec: int | None = None, uid: str | None = None, foreground: bool = False
    ) -> bool:
        """Delete an object, and what it owns (`foreground`: before it). False: it is not there, or has another uid.
        `grace_sec`: the grace of a pod; 0 gives up to know that it has ended."""
        options: dict[str, Any] = {"propagationPolicy": "Foreground" if foreground else "Background"}
        if grace_sec is not None:
            options["gracePeriodSeconds"] = grace_sec
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self._object(
                "DELETE", self._known(kind).path(self.namespace, name), f"delete {self._what(kind, name)}", options
            )
        except ApiError as error:
            if error.status == 404 or (error.status == 409 and uid):
                return False
            raise
        return True

    def watch(
        self, kind: str, *, labels: Mapping[str, str] | None = None, name: str | None = None, resource_version: str,
        timeout_sec: float = 300,
    ) -> ApiWatch:  # fmt: skip
        """The changes since a resource version, for about this long. Expired: they are not known any more, list again.
        Also yields ("BOOKMARK", object) for a newer resource version alone."""
        query = {
            "watch": "true", "resourceVersion": resource_version, "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(timeout_sec))), "labelSelector": _selector(labels),
            "fieldSelector": f"metadata.name={name}" if name else "",
        }  # fmt: skip
        doing = f"watch {self._what(kind, name or '')}"
        path = _with_query(self._known(kind).path(self.namespace), query)
        response = self._open(path, {}, timeout_sec + watches.MARGIN_SEC)
        if response.status_code != 200:
            with closing(response):
                raise _refused(response, doing)
        return ApiWatch(response, doing)

    def _open(self, path: str, headers: Mapping[str, str], quiet_sec: float) -> httpx.Response:
        """A request whose answer goes on; with a new proof if the old one is refused."""
        deadline = time.monotonic() + CALL_SEC
        response = self._pool.stream(path, self._headers() | dict(headers), deadline, quiet_sec)
        if response.status_code != 401:
            return response
        response.close()
        self._renew()
        return self._pool.stream(path, self._headers() | dict(headers), deadline, quiet_sec)

    def _renew(self) -> None:
        self._endpoint.proof.headers(renew=True)
        self._pool.renew()

    def can(self, verb: str, kind: str, subresource: str = "") -> bool:
        """Whether this user may do that in this namespace, as the server says. `*` stands for every verb or kind."""
        group, resource = ("*", "*") if kind == "*" else (KINDS[kind].group, KINDS[kind].plural)
        about = {"namespace": self.namespace, "verb": verb, "group": group, "resource": resource}
        spec = {"resourceAttributes": about | ({"subresource": subresource} if subresource else {})}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        path = KINDS["SelfSubjectAccessReview"].path("")
        answer = self._object("POST", path, "ask what you may do", review, safe=True)
        return bool(answer.get("status", {}).get("allowed"))

    def version(self) -> tuple[int, int]:
        """The version of the server: (1, 20). (0, 0): it does not say, as one that was built by hand."""
        found = self._object("GET", "/version", "tell its version")
        text = f"{found.get('major') or ''}.{found.get('minor') or ''}"
        match = _VERSION.match(text) or _VERSION.match(str(found.get("gitVersion", "")).lstrip("v"))
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def prefer_served(self, group: str) -> None:
        """Ask once which version of a group the server prefers, and use that for its kinds from now on."""
        if group not in self._versions and (version := self.groups().get(group)):
            self._versions[group] = f"{group}/{version}"

    def _known(self, kind: str) -> Kind:
        known = KINDS[kind]
        return known._replace(api=self._versions[known.group]) if known.group in self._versions else known

    def groups(self) -> dict[str, str]:
        """The API groups of the server, with the version of each that it prefers, such as v1."""
        found = self._object("GET", "/apis", "ask which APIs there are")
        return {group["name"]: group["preferredVersion"]["version"] for group in found.get("groups") or ()}

    def events_of(self, uid: str, name: str = "") -> Objects:
        """The events about the object with this uid, the latest last. With its `name` also those that lack the uid:
        that a node's taint has removed a pod is such a one."""
        query = {"fieldSelector": f"involvedObject.name={name}" if name else f"involvedObject.uid={uid}"}
        found = self._object("GET", KINDS["Event"].path(self.namespace), "list events", query=query)
        about = [each for each in found.get("items") or () if (each["involvedObject"].get("uid") or uid) == uid]
        return sorted(about, key=_event_time)

    def logs(self, pod: str, container: str, tail: int = 100) -> str:
        """The last lines that a container printed."""
        query = {"container": container, "tailLines": str(tail), "limitBytes": str(1 << 20)}
        path = _with_query(KINDS["Pod"].path(self.namespace, pod, "log"), query)
        return self._call("GET", path, f"read the log of {self._what('Pod', pod)}").body.decode(errors="replace")

    def printed(self, pod: str, container: str, *, follow: bool = False, since: str = "") -> PodLog:
        """What a container has printed since a time (as `PrintedLine` has it, of which the whole seconds count), with
        `follow` until it ends."""
        query = {"container": container, "timestamps": "true", "sinceTime": f"{since[:_SECONDS]}Z" if since else ""}
        path = KINDS["Pod"].path(self.namespace, pod, "log")
        asked = _with_query(path, query | ({"follow": "true"} if follow else {}))
        response = self._open(asked, {}, _QUIET_SEC if follow else CALL_SEC)
        if response.status_code != 200:
            with closing(response):
                raise _refused(response, f"read the log of {self._what('Pod', pod)}")
        return PodLog(response)

    def exec(
        self, pod: str, container: str, argv: Sequence[str], *, stdin: bool = False, terminal: bool = False
    ) -> ExecStream:
        """Start a program in a container. With a terminal there is no stderr of its own."""
        doing = f"start {argv[0]} in {self._what('Pod', pod)}"
        given = [("container", container), *(("command", word) for word in argv), ("stdout", "true")]
        given += [("stdin", "true")] if stdin else []
        given += [("tty", "true")] if terminal else [("stderr", "true")]
        path = f"{KINDS['Pod'].path(self.namespace, pod, 'exec')}?{urlencode(given)}"
        handshake = web_socket.Handshake()
        wanted = {**handshake.headers, "Sec-WebSocket-Protocol": PROTOCOLS, "Accept": "*/*"}  # a kubelet has no JSON
        response = self._open(path, wanted, CALL_SEC)
        if not handshake.is_accepted(response):
            with closing(response):
                raise _refused(response, doing)
        protocol = response.headers.get("Sec-WebSocket-Protocol", V4)
        if protocol not in (V4, V5):
            response.close()
            raise ApiError(101, "Protocol", f"the Kubernetes API server {self.server} does not know {V4}")
        return ExecStream(web_socket.WebSocket(response), protocol, self.server, f"{argv[0]} in {pod}")

    def _object(
        self, method: str, path: str, doing: str, body: Mapping[str, Any] | None = None, *,
        query: Mapping[str, str] | None = None, content: str = _JSON, safe: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        answer = self._call(method, _with_query(path, query), doing, body, content=content, safe=safe)
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise api_errors.unreachable(self.server, "what answers there is no API server of Kubernetes")
        return found

    def _call(
        self, method: str, path: str, doing: str, body: Mapping[str, Any] | None = None, *, content: str = _JSON,
        safe: bool = False,
    ) -> ApiAnswer:  # fmt: skip
        """One call, repeated where that cannot do a thing twice: if it only asks, if the server was not reached, or if
        it says when to try again."""
        deadline = time.monotonic() + CALL_SEC
        data = None if body is None else json.dumps(body).encode()
        renewed = False
        for number in range(1, _TRIES + 1):
            headers = self._headers() | ({} if data is None else {"Content-Type": content})
            try:
                answer = self._pool.call(method, path, data, headers, deadline)
                if 200 <= answer.status < 300:
                    return answer
                raise api_errors.refused(answer.status, answer.body, doing, answer.retry_after)
            except ApiError as error:
                if error.status == 401 and not renewed:
                    renewed = True
                    self._renew()
                    continue
                pause = _pause(error, number, safe or method == "GET")
                if pause is None or number == _TRIES or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _headers(self) -> dict[str, str]:
        agent = {"Accept": _JSON, "User-Agent": f"kedge/{__version__}"}
        return agent | self._endpoint.proof.headers()

    def _of(self, obj: Mapping[str, Any]) -> str:
        return obj["metadata"].get("namespace") or self.namespace

    def _what(self, kind: str, name: str = "") -> str:
        where = f" in the namespace {self.namespace}" if KINDS[kind].namespaced else ""
        return f"{kind} {name}{where}" if name else f"the {kind} objects{where}"


def _pause(error: ApiError, number: int, only_asks: bool) -> float | None:
    """After how many seconds to try again; None: never."""
    if error.status in (429, 503) and error.retry_after is not None:
        return min(error.retry_after, 10.0)
    if isinstance(error, NotSent) or (only_asks and error.unreachable):
        return 0.3 * (1 << number)
    return None


def _refused(response: httpx.Response, doing: str) -> ApiError:
    """The error for an answer that was to go on."""
    try:
        body = response.read()
    except httpx.HTTPError:
        body = b""
    return api_errors.refused(response.status_code, body, doing, response.headers.get("Retry-After", ""))


def _kind(obj: Mapping[str, Any]) -> Kind:
    """The kind of an object, in the version that the object names."""
    return KINDS[obj["kind"]]._replace(api=obj.get("apiVersion") or KINDS[obj["kind"]].api)


def _name(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("name", ""))


def _selector(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (labels or {}).items())


def _with_query(path: str, query: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> str:
    given = {key: value for key, value in dict(query or {}).items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _event_time(event: dict[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
