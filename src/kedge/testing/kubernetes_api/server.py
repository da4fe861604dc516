"""The HTTP side of the server."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kedge.testing.kubernetes_api import deletion, exec
from kedge.testing.kubernetes_api.access import AccessRules
from kedge.testing.kubernetes_api.nodes import ScriptedNodes
from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json
from kedge.testing.kubernetes_api.resources import KINDS, NAMESPACE, FakePlace, KnownKinds, ResourceKind
from kedge.testing.kubernetes_api.routes import ApiRoutes, FakeAnswer, FakeCall, FakeRequest, Webhook
from kedge.testing.kubernetes_api.store import ObjectStore

_TOKEN = "token-of-the-tester"  # of a server on loopback


class FakeKubernetes:
    """Listens at `url` and has written `kubeconfig`, with `namespace` in it.

    `rules` sets permissions, quota, refusals and failures; `nodes` plays the scheduler and the kubelets; `calls` is
    what was asked; `commands` answers `exec`; `webhooks` change what is created. `version` is what the server says of
    itself; `kept` how many changes a watch may still read. Objects can be read and written past HTTP by `find` and
    `listed`."""

    def __init__(
        self, folder: Path, *, namespace: str = "default", version: tuple[str, str] = ("1", "30"), kept: int = 5000
    ) -> None:
        self.namespace, self.store, self.rules = namespace, ObjectStore(kept), AccessRules()
        self.commands: exec.Command = exec.no_command
        self._resources, self._version = KnownKinds(KINDS), version
        self.webhooks: list[Webhook] = []
        self._routes = ApiRoutes(self.store, self._resources, self.rules, version, self.webhooks)
        self.nodes = ScriptedNodes(self.store, namespace, self._routes.logs)
        self.store.after.append(lambda change: deletion.collect_garbage(self.store, change))
        self.store.after.append(self.nodes.changed)
        for name in dict.fromkeys(("default", "kube-system", namespace)):
            self.store.add(NAMESPACE, {"metadata": {"name": name}, "status": {"phase": "Active"}})
        self._port = 0
        self._server: _HttpServer | None = None
        self.token = _TOKEN
        self.start()
        self.url = f"http://127.0.0.1:{self._port}"
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()))  # JSON is YAML

    @staticmethod
    @contextlib.contextmanager
    def serving(folder: Path, **settings: Any) -> Iterator[FakeKubernetes]:
        """A server that ends with the context."""
        server = FakeKubernetes(folder, **settings)
        try:
            yield server
        finally:
            server.rules.answer_again()
            server.stop()

    @property
    def calls(self) -> list[FakeCall]:
        """What was asked so far, in order."""
        return self._routes.calls

    def exec_host(self) -> exec.ExecHost:
        """What it says about commands."""
        return exec.ExecHost(self.store, self.rules, self.commands, int(self._version[1].rstrip("+")) >= 30)

    def add_kind(self, kind: ResourceKind) -> None:
        """Know one more kind, as with a CustomResourceDefinition."""
        self._resources.add(kind)

    def add_namespace(self, name: str) -> None:
        """Make a namespace."""
        self.store.add(NAMESPACE, {"metadata": {"name": name}, "status": {"phase": "Active"}})

    def find(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """An object as it is stored, or None. It must not be changed."""
        known = self._resources.of(kind)
        return self.store.find(known, (namespace or self.namespace) if known.namespaced else "", name)

    def listed(self, kind: str) -> list[Json]:
        """All objects of a kind, in order of their names. They must not be changed."""
        return self.store.matching(self._resources.of(kind), "", lambda _: True)[0]

    def start(self) -> None:
        """Listen again after `stop`, at the same address. What was stored is still there."""
        if self._server is None:
            self._routes.closing = False
            self._server = _HttpServer(("127.0.0.1", self._port), self)
            self._port = self._server.server_address[1]
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """End all connections and refuse new ones, like a server that is down."""
        if self._server is not None:
            self._routes.closing = True
            self._server.shutdown()
            self._server.server_close()
            self._server.break_connections()
            self._server = None

    def end_watches(self) -> None:
        """End the streams of all watches that run, as a server does now and then."""
        self._routes.watches += 1

    def bookmark_every(self, seconds: float) -> None:
        """How often a watch tells its position; 60 s unless set."""
        self._routes.bookmark_sec = seconds

    def place(self, path: str) -> FakePlace:
        """What a path names. FakeRefusal 404."""
        return self._resources.place(path)

    def answer(self, request: FakeRequest) -> FakeAnswer:
        """FakeRefusal."""
        return self._routes.answer(request)

    def _kubeconfig(self) -> Json:
        context = {"cluster": "fake", "user": "tester", "namespace": self.namespace}
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "tester", "user": {"token": self.token}}],
            "contexts": [{"name": "fake", "context": context}],
        }  # fmt: skip


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], fake: FakeKubernetes) -> None:
        self.fake = fake
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _FakeConnection)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def break_connections(self) -> None:
        """End all that are open."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients come and go; anything else is a defect of this server and shows."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _FakeConnection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: tests read `calls`."""

    def _serve(self) -> None:
        fake = self.server.fake
        try:
            request = self._request()
            fake.rules.wait()
            if self.headers.get("Authorization") != f"Bearer {fake.token}":
                raise FakeRefusal(401, "Unauthorized")
            if self.headers.get("Upgrade", "").lower() == "websocket":
                exec.serve(self, fake.exec_host(), fake.place(request.path))
                return
            answer = fake.answer(request)
        except FakeRefusal as refusal:
            answer = FakeAnswer(refusal.code, refusal.status(), retry_after=refusal.retry_after)
        if answer.lines is not None:
            self._stream(answer.lines)
        else:
            text = answer.text is not None
            body = (answer.text or "").encode() if text else json.dumps(answer.body).encode()
            self._send(answer, "text/plain" if text else "application/json", body)

    def _request(self) -> FakeRequest:
        split = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw) if raw else {}
        except ValueError as error:
            raise FakeRefusal(400, f"the body is not JSON: {error}") from error
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip()
        return FakeRequest(self.command, split.path, dict(parse_qsl(split.query, keep_blank_values=True)), kind, body)

    def _send(self, answer: FakeAnswer, content_type: str, body: bytes) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", content_type)
        if answer.retry_after is not None:
            self.send_header("Retry-After", str(answer.retry_after))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, lines: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")
