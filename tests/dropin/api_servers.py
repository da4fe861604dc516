"""An API server of the tests: it speaks the one call that a barrier needs, over HTTP or TLS, with or without tokens."""

from __future__ import annotations

import base64
import gzip
import http.server
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .tls_servers import Certificate, serving_http

NAME = "0fc91ea6e37625ea79fce7f32891d139"
PATH = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks/{NAME}"
Answer = tuple[int, dict[str, str], bytes]


def task(index: int, ip: str | None = "10.0.0.1", uid: str = "pod-uid", **fields: Any) -> dict[str, Any]:
    """The status of a task."""
    attempt = {"id": 0, "podUID": uid, "podIP": ip, "podHostIP": ip, "completionStatus": None}
    return {"index": index, "state": "AttemptPreparing", "deletionPending": False, "attemptStatus": attempt, **fields}


def framework(*, compressed: bool = False, numbers: dict[str, int] | None = None, **roles: list[Any]) -> dict[str, Any]:
    """A framework with the statuses of its roles. `numbers` are the tasks that roles shall have."""
    wanted = {role: len(tasks) for role, tasks in roles.items()} | (numbers or {})
    statuses = [{"name": role, "taskStatuses": tasks} for role, tasks in roles.items()]
    attempt: dict[str, Any] = {"taskRoleStatuses": statuses}
    if compressed:
        packed = base64.b64encode(gzip.compress(json.dumps(statuses).encode())).decode()
        attempt = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": packed}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": NAME, "annotations": {"jobName": "test", "config": "name: test\n"}},
        "spec": {"taskRoles": [{"name": role, "taskNumber": number} for role, number in wanted.items()]},
        "status": {"state": "AttemptPreparing", "attemptStatus": attempt},
    }


def status(code: int, message: str, **headers: str) -> Answer:
    """A failure, as API servers describe it."""
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
    return code, {name.replace("_", "-"): value for name, value in headers.items()}, body.encode()


class Api:
    """What the server answers: the last of `answers` again and again, after all others once. `requests` holds the path
    and the header Authorization of all requests."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[dict[str, Any] | Answer | Callable[[], Any]] = []
        self.requests: list[tuple[str, str | None]] = []

    def next(self) -> Answer:
        answer: Any = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer()
        return answer if isinstance(answer, tuple) else (200, {}, json.dumps(answer).encode())


@contextmanager
def serving_api(own: Certificate | None = None, clients: Certificate | None = None) -> Iterator[Api]:
    """An API server that ends with the context."""
    api = Api()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            api.requests.append((self.path, self.headers["Authorization"]))
            code, headers, body = api.next()
            self.send_response(code)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print no log."""

    with serving_http(Handler, own, clients) as api.url:
        yield api
