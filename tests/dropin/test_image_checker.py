"""The image checker against servers that do what a real registry cannot be made to do, and its configuration."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kedge.dropin.registry import addresses, asking
from kedge.testing.raw_server import RawServer, serving

from .checking import Checking
from .phases import Phase, make_work, run_phase
from .tls_servers import Certificate, serving_http

USER, PASSWORD = "puller", "pass<&>word"
LOGIN = {"username": USER, "password": PASSWORD}
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SRC = Path(__file__).parents[2] / "src"
Answer = tuple[int, dict[str, str], bytes]


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, body


FOUND, MISSING = answer(200), answer(404)
DENIED = answer(401, WWW_Authenticate='Basic realm="here"')
BUSY = answer(429, Retry_After="0")


class Script(http.server.BaseHTTPRequestHandler):
    """Sends the next of `answers`. `requests` has method, path and Authorization of each request."""

    answers: list[Answer]
    requests: list[tuple[str, str, str | None]]

    def do_GET(self) -> None:
        self.requests.append((self.command, self.path, self.headers.get("Authorization")))
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        return


class Registry:
    """A server on loopback whose answers are set in their order."""

    def __init__(self, url: str, script: type[Script]) -> None:
        self.url, self._script = url, script
        self.host = url.partition("//")[2]
        self.image = f"{self.host}/team/image:1"

    def will_answer(self, *answers: Answer) -> None:
        self._script.answers[:] = answers
        self._script.requests.clear()

    @property
    def left(self) -> int:
        return len(self._script.answers)

    @property
    def requests(self) -> list[tuple[str, str, str | None]]:
        return self._script.requests


@contextlib.contextmanager
def scripted(own: Certificate | None = None) -> Iterator[Registry]:
    script = type("Script", (Script,), {"answers": [], "requests": []})
    with serving_http(script, own) as url:
        yield Registry(url, script)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with scripted() as found:
        yield found


@pytest.fixture
def other() -> Iterator[Registry]:
    with scripted() as found:
        yield found


@pytest.fixture
def server() -> Iterator[RawServer]:
    with serving() as running:
        yield running


@pytest.fixture
def checking(tmp_path: Path) -> Checking:
    return Checking(tmp_path)


def bearer(realm: str, more: str = "") -> Answer:
    return answer(401, WWW_Authenticate=f'Bearer realm="{realm}"{more}')


def token(text: object = "t0ken") -> Answer:
    return answer(200, json.dumps({"token": text}).encode())


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        # /v2/
        ([answer(404)], 0),
        ([answer(403)], 0),
        ([BUSY] * 3, 0),
        ([answer(503, Retry_After="0")] * 3, 0),
        # the manifest, without credentials
        ([FOUND, FOUND], 0),
        ([DENIED, FOUND], 0),
        ([FOUND, MISSING], 0),
        ([FOUND, answer(403)], 0),
        ([FOUND, *[BUSY] * 3], 0),
        ([FOUND, BUSY, answer(500, Retry_After="0"), FOUND], 0),
        ([FOUND, answer(401)], 1),
        ([FOUND, answer(401, WWW_Authenticate=" ")], 1),
        # with them
        ([DENIED, DENIED, FOUND], 0),
        ([DENIED, DENIED, MISSING], 1),
        ([DENIED, DENIED, DENIED], 1),
        ([DENIED, DENIED, answer(403)], 0),
        ([DENIED, DENIED, *[BUSY] * 3], 0),
        ([DENIED, DENIED, *[answer(502, Retry_After="0")] * 3], 0),
        ([DENIED, DENIED, BUSY, MISSING], 1),
        ([answer(401, WWW_Authenticate='bAsIc realm="x, y=z"')] * 2 + [MISSING], 1),
        # broken or unknown challenges
        ([DENIED, answer(401, WWW_Authenticate='Basic realm="x')], 0),
        ([DENIED, answer(401, WWW_Authenticate="Negotiate")], 0),
        ([DENIED, answer(401, WWW_Authenticate='Bearer service="x"')], 0),
        ([DENIED, bearer("/token")], 0),
        ([DENIED, bearer("ftp://127.0.0.1/token")], 0),
        ([DENIED, bearer("http://[::1/token")], 0),
        # HEAD refused
        ([answer(405), FOUND, answer(405), FOUND], 0),
        ([FOUND, answer(501), DENIED, answer(405), MISSING], 1),
    ],
)
def test_only_certain_answers_fail(answers: list[Answer], code: int, registry: Registry, checking: Checking) -> None:
    registry.will_answer(*answers)
    found = checking.check(registry.image, LOGIN)
    assert (found.code, registry.left) == (code, 0), found.log
    assert found.last.startswith("ERROR") == bool(code)
    assert "Traceback" not in found.log


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([answer(401)], 1),
        ([answer(403)], 0),
        ([answer(404)], 0),
        ([BUSY] * 3, 0),
        ([token(), FOUND], 0),
        ([token(), MISSING], 1),
        ([token(), DENIED], 1),
        ([token(), answer(403)], 0),
        ([BUSY, token(), FOUND], 0),
        ([answer(200, b'{"access_token": "t"}'), MISSING], 1),
        ([answer(200, b'{"token": null, "access_token": "t"}'), MISSING], 1),
        ([answer(200, b"no JSON")], 0),
        ([answer(200, b'["token"]')], 0),
        ([answer(200, b"[" * 100_000)], 0),
        ([token(5)], 0),
        ([token("")], 0),
        ([token("a\r\nHost: b")], 0),
        ([answer(200, b" " * (5 << 20))], 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("auth", [None, LOGIN])
def test_only_certain_answers_of_the_token_server_fail(
    auth: object, answers: list[Answer], code: int, registry: Registry, checking: Checking
) -> None:
    registry.will_answer(DENIED, bearer(f"{registry.url}/token", ',service="s"'), *answers)
    found = checking.check(registry.image, auth)
    assert (found.code, registry.left) == (code, 0), found.log
    assert registry.requests[2] == (
        "GET", "/token?scope=repository%3Ateam%2Fimage%3Apull&service=s", BASIC if auth else None,
    )  # fmt: skip


def test_bearer_is_preferred_and_its_fields_are_sent(registry: Registry, checking: Checking) -> None:
    challenge = f'Basic realm="x", bearer REALM="{registry.url}/t?a=b",scope="repository:x:pull,push",error="e"'
    registry.will_answer(DENIED, answer(401, WWW_Authenticate=challenge), token(), FOUND)
    assert checking.check(registry.image, LOGIN).last.endswith("has it")
    assert [(path, given) for _, path, given in registry.requests[2:]] == [
        ("/t?a=b&scope=repository%3Ax%3Apull%2Cpush", BASIC),
        ("/v2/team/image/manifests/1", "Bearer t0ken"),
    ]


def test_all_kinds_of_manifests_are_accepted(server: RawServer, checking: Checking) -> None:
    server.answer = b"HTTP/1.1 200 OK\r\n\r\n"
    checking.check(f"127.0.0.1:{server.port}/x")
    assert server.requests[1]["accept"].split(", ") == [
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    ]


# Who gets credentials


def test_a_registry_cannot_send_credentials_elsewhere_without_encryption(
    registry: Registry, checking: Checking
) -> None:
    registry.will_answer(DENIED, bearer("http://192.0.2.1/token"))
    found = checking.check(registry.image, LOGIN)
    assert found.code == 0
    assert "wants the credentials to be sent without encryption to 192.0.2.1" in found.last
    assert "GET" not in found.log


def test_a_registry_with_tls_cannot_ask_for_a_token_without_it(
    own_certificate: Certificate, other: Registry, checking: Checking
) -> None:
    script = "from kedge.dropin.programs import main; raise SystemExit(main('imageChecker'))"
    with scripted(own_certificate) as registry:
        registry.will_answer(DENIED, bearer(f"{other.url}/token"))
        checking.job(registry.image, LOGIN | {"registryuri": registry.url})
        trusted = {"SSL_CERT_FILE": str(own_certificate.file), "PYTHONPATH": str(SRC)}
        environment = os.environ | checking.environment | trusted
        done = subprocess.run([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert "wants the credentials to be sent without encryption" in done.stderr
    assert not other.requests


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_to_other_servers_get_no_credentials(
    status: int, registry: Registry, other: Registry, checking: Checking
) -> None:
    away = answer(status, Location=f"{other.url}/storage?signature=s3cret")
    for answers, code, end in (
        ([FOUND], 0, "has it"),
        ([MISSING], 0, "404 Not Found"),
        ([DENIED], 0, "401 Unauthorized"),
    ):
        registry.will_answer(DENIED, DENIED, away)
        other.will_answer(*answers)
        found = checking.check(registry.image, LOGIN)
        assert (found.code, other.left) == (code, 0), found.log
        assert found.last.endswith(end)
        assert [given for *_, given in other.requests] == [None]
        assert "s3cret" not in found.log
        assert f"redirected to {other.host}: " in found.log


def test_a_challenge_of_another_server_is_not_answered(registry: Registry, other: Registry, checking: Checking) -> None:
    registry.will_answer(DENIED, answer(302, Location=f"{other.url}/x"))
    other.will_answer(DENIED)
    found = checking.check(registry.image, LOGIN)
    assert found.code == 0
    assert found.last.endswith(f"{registry.host} leads to {other.host}, which answers 401 Unauthorized")


def test_a_registry_that_leads_to_another_is_not_one(registry: Registry, other: Registry, checking: Checking) -> None:
    registry.will_answer(answer(302, Location=f"{other.url}/v2/"))
    other.will_answer(FOUND)
    found = checking.check(registry.image, LOGIN)
    assert f"leads to another server, {other.host}" in found.last
    assert len(other.requests) == 1


def test_a_token_server_that_leads_elsewhere_keeps_the_credentials(
    registry: Registry, other: Registry, checking: Checking
) -> None:
    registry.will_answer(DENIED, bearer(f"{registry.url}/token"), answer(302, Location=f"{other.url}/token"))
    other.will_answer(answer(401))
    found = checking.check(registry.image, LOGIN)
    assert (found.code, [given for *_, given in other.requests]) == (0, [None]), found.log


def test_the_log_repeats_nothing_that_a_server_sends(registry: Registry, server: RawServer, checking: Checking) -> None:
    hostile = f'HTTP/1.1 401 {BASIC}\r\nWWW-Authenticate: Basic realm="{PASSWORD}"\r\nX: {BASIC}\r\n\r\n'
    server.answer = hostile.encode()
    found = checking.check(f"127.0.0.1:{server.port}/x", LOGIN)
    assert found.code == 1
    assert server.requests[2]["authorization"] == BASIC
    assert PASSWORD not in found.log
    assert BASIC.removeprefix("Basic ") not in found.log
    registry.will_answer(DENIED, bearer(f"{registry.url.replace('//', f'//u:{PASSWORD}@')}/t?p={PASSWORD}"), DENIED)
    found = checking.check(registry.image, LOGIN)
    assert found.code == 1
    assert PASSWORD not in found.log


# Limits


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_a_server_that_hangs_is_a_doubt(before: int, checking: Checking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REQUEST_SEC", 0.2)
    with serving() as server:
        url = f"127.0.0.1:{server.port}"
        answers = [
            b"HTTP/1.1 401 Unauthorized\r\n\r\n",
            f'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm="http://{url}/t"\r\n\r\n'.encode(),
            b'HTTP/1.1 200 OK\r\n\r\n{"token": "x"}',
        ][:before]

        def respond(connection: socket.socket, _: dict[str, str]) -> None:
            if len(server.requests) <= len(answers):
                connection.sendall(answers[len(server.requests) - 1])
            else:
                connection.recv(1)  # until the other side gives up

        server.answer = respond
        found = checking.check(f"{url}/x", LOGIN | {"registryuri": f"http://{url}"})
    assert found.code == 0, found.log
    assert "within 0.2 seconds" in found.last
    assert len(server.requests) == before + 1


def test_slow_bytes_are_a_doubt(server: RawServer, checking: Checking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REQUEST_SEC", 0.3)

    def respond(connection: socket.socket, _: dict[str, str]) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(b"X")
            connection.settimeout(0.02)
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1):
                    return

    server.answer = respond
    url = f"127.0.0.1:{server.port}"
    found = checking.check(f"{url}/x", {"registryuri": f"http://{url}"})
    assert (found.code, "within 0.3 seconds" in found.last) == (0, True), found.log


def test_the_whole_check_has_a_limit(registry: Registry, checking: Checking, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is always busy, and wants long pauses."""
    monkeypatch.setattr(asking.Asker.__init__, "__defaults__", (0.3,))
    registry.will_answer(*[answer(429, Retry_After="5")] * 3)
    found = checking.check(registry.image, {"registryuri": registry.url})
    assert (found.code, registry.left) == (0, 2), found.log
    assert "the check has not finished within 0.3 seconds" in found.last


def test_a_server_that_is_not_there_is_a_doubt(checking: Checking) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"127.0.0.1:{unused.getsockname()[1]}"
    found = checking.check(f"{url}/x")
    assert found.code == 0
    assert found.last.endswith("Connection refused")
    assert f"http://{url}/v2/" in found.last
    assert f"https://{url}/v2/" in found.last


def test_a_defect_is_a_doubt(checking: Checking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(addresses, "of_image")
    found = checking.check("127.0.0.1:1/x")
    assert found.code == 0
    assert "imageChecker has a defect\nTraceback" in found.log
    assert found.last == "AttributeError: module 'kedge.dropin.registry.addresses' has no attribute 'of_image'"


# In the init phase


def init_phase(work: Path, image: str, **auth: str) -> Phase:
    """The phase with the checker as the specification of the proposal starts it."""
    (work / "runtime.d").mkdir(exist_ok=True)
    job = {"prerequisites": [{"name": "i", "type": "dockerimage", "uri": image, "auth": auth}]}
    roles = {"taskRoles": {"taskrole_1": {"dockerImage": "i"}}}
    (work / "runtime.d" / "job_config.yaml").write_text(yaml.safe_dump(job | roles))
    (work / "runtime.d" / "kedge-task.json").write_text("{}")  # what other programs have made
    row = {"name": "imageChecker", "command": "python imageChecker.py"}
    return run_phase(work, INIT_CONFIG=yaml.safe_dump({"initPlugins": [row]}), FC_TASKROLE_NAME="taskrole1")


def test_401_after_the_first_request_ends_the_container_with_254(registry: Registry, tmp_path: Path) -> None:
    registry.will_answer(DENIED, bearer(f"{registry.url}/token"), token(), bearer(f"{registry.url}/token"))
    done = init_phase(make_work(tmp_path / "work"), registry.image)
    assert (done.code, registry.left) == (254, 0), done.log
    assert "child process is DOCKER_IMAGE_CHECKER, exit code is 1" in done.messages
    assert "refuses access to it, and the job gives no credentials for it" in done.log


def test_429_does_not_end_the_container(registry: Registry, tmp_path: Path) -> None:
    registry.will_answer(DENIED, bearer(f"{registry.url}/token"), token(), BUSY, BUSY, BUSY)
    done = init_phase(make_work(tmp_path / "work"), registry.image, **LOGIN)
    assert (done.code, registry.left) == (0, 0), done.log
    assert done.log.count("429 Too Many Requests") == 4
    assert PASSWORD not in done.log


# Configuration


@pytest.mark.parametrize("uri", ["localhost:5000/~repo", "localhost/user@name/repo:tag", "PyTorch/x", "", "x:\n"])
def test_invalid_names_fail(uri: str, checking: Checking) -> None:
    found = checking.check(uri)
    assert (found.code, len(found.log.splitlines())) == (1, 1), found.log
    assert "cannot be pulled, because its name is not valid" in found.log


def test_a_missing_secret_fails(checking: Checking) -> None:
    found = checking.check("127.0.0.1:1/x", LOGIN | {"password": "<% $secrets.pasword %>"})
    assert found.code == 1
    assert "<% $secrets.pasword %>: no secret is named 'pasword'" in found.last
    checking.secrets.write_text("password: x\n")
    found = checking.check("127.0.0.1:1/x", LOGIN | {"password": "<% $secrets.pasword %>"})
    assert "did you mean 'password'" in found.last


def test_secrets_that_cannot_be_read_are_not_shown(checking: Checking) -> None:
    checking.secrets.write_text("password: 'hunter2\n  : [\n")
    found = checking.check("127.0.0.1:1/x", LOGIN | {"password": "<% $secrets.password %>"})
    assert found.code == 0
    assert "is not valid YAML" in found.last
    assert "hunter2" not in found.log


def test_values_keep_their_spelling(registry: Registry, checking: Checking) -> None:
    checking.secrets.write_text("pin: 0010\nfloat: 1.0\n")
    registry.will_answer(DENIED, DENIED, FOUND)
    checking.check(registry.image, {"username": "<% $secrets.float %>", "password": "<% $secrets.pin %>"})
    expected = base64.b64encode(b"1.0:0010").decode()
    assert registry.requests[-1][2] == f"Basic {expected}"


def test_the_arguments_name_other_files(registry: Registry, checking: Checking, tmp_path: Path) -> None:
    checking.job(registry.image, LOGIN | {"password": "<% $secrets.p %>"})
    job, secrets = tmp_path / "job.yaml", tmp_path / "other.yaml"
    checking.job_config.rename(job)
    secrets.write_text(f"p: {PASSWORD}\n")
    registry.will_answer(DENIED, DENIED, FOUND)
    assert checking.run(str(job), str(secrets)).last.endswith("has it")
    assert registry.requests[-1][2] == BASIC


@pytest.mark.parametrize("place", ["variable", "file"])
def test_a_runtime_specification_names_the_image(place: str, registry: Registry, checking: Checking) -> None:
    (checking.config / "secrets.yaml").write_text(f"p: {PASSWORD}\n")
    image = {"uri": registry.image, "auth": LOGIN | {"password": "<% $secrets.p %>"}}
    text = yaml.safe_dump({"commands": ["true"], "image": image})
    if place == "file":
        (checking.config / "runtime_plugin.yaml").write_text(text)
    else:
        checking.environment["RUNTIME_CONFIG"] = text
    registry.will_answer(DENIED, DENIED, FOUND)
    assert checking.run().last.endswith("has it")
    assert registry.requests[-1][2] == BASIC


@pytest.mark.parametrize("text", ["commands: [ls]\n", "", "image: {}\n"])
def test_without_an_image_there_is_nothing_to_check(text: str, checking: Checking) -> None:
    checking.environment["RUNTIME_CONFIG"] = text
    found = checking.run()
    assert (found.code, found.last.startswith("INFO")) == (0, True)
    assert found.last.endswith("the configuration names no image; there is nothing to check")


def test_a_short_form_of_the_image(registry: Registry, checking: Checking) -> None:
    checking.environment["RUNTIME_CONFIG"] = f"image: {registry.image}\n"
    registry.will_answer(FOUND, FOUND)
    assert checking.run().last.endswith("has it")


@pytest.mark.parametrize(
    ("config", "role", "reason"),
    [
        ("[", "a", "job_config.yaml:1: "),
        ("taskRoles: {a: {dockerImage: x}}", "b", "has no task role b"),
        ("taskRoles: {a: {dockerImage: x}}", "a", "has no prerequisite of type dockerimage with the name x"),
        ("taskRoles: {a: {dockerImage: x}}", "", "the variable FC_TASKROLE_NAME is not set"),
        ("taskRoles: [a]", "a", "is not a job's configuration: taskRoles is missing"),
        ("taskRoles: {a: }", "a", "has no prerequisite of type dockerimage"),
    ],
)
def test_what_is_not_known_is_a_doubt(config: str, role: str, reason: str, checking: Checking) -> None:
    checking.job_config.write_text(config)
    checking.environment["FC_TASKROLE_NAME"] = role
    found = checking.run()
    assert (found.code, found.last.startswith("WARNING")) == (0, True), found.log
    assert reason in found.last


def test_wrong_mirrors_are_ignored(registry: Registry, checking: Checking) -> None:
    checking.environment["PAI_IMAGE_MIRRORS"] = "docker.io=ftp://u:p4ss@mirror"
    registry.will_answer(FOUND, FOUND)
    found = checking.check(registry.image)
    assert found.last.endswith("has it")
    assert "the mirrors of registries are ignored: the mirror 'mirror' is not valid" in found.log
    assert "p4ss" not in found.log


# Addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://index.docker.io/v1/", "https://index.docker.io/v2/"),
        ("docker.io", "https://docker.io/v2/"),
        ("reg.io/v2/", "https://reg.io/v2/"),
        (" reg.io ", "https://reg.io/v2/"),
        ("http://localhost:5000", "http://localhost:5000/v2/"),
        ("https://reg.io/prefix/v2", "https://reg.io/prefix/v2/"),
        ("https://v2", "https://v2/v2/"),
        ("user:secret@REG.io:443/", "https://reg.io/v2/"),
    ],
)
def test_the_address_of_a_registry(text: str, expected: str) -> None:
    assert addresses.normal(text) == expected


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        (None, ("https://index.docker.io/v2/",)),
        ("docker.io", ("https://index.docker.io/v2/",)),
        ("registry.domain:5000", ("https://registry.domain:5000/v2/",)),
        ("test.azurecr.io", ("https://test.azurecr.io/v2/",)),
        ("localhost", ("http://localhost/v2/", "https://localhost/v2/")),
        ("127.1.2.3:80", ("http://127.1.2.3:80/v2/", "https://127.1.2.3:80/v2/")),
        ("[::1]:5000", ("http://[::1]:5000/v2/", "https://[::1]:5000/v2/")),
    ],
)
def test_where_an_image_is_looked_for(registry: str | None, expected: tuple[str, ...]) -> None:
    assert addresses.of_image(registry) == expected


@pytest.mark.parametrize(
    ("uri", "registry", "expected"),
    [
        ("https://index.docker.io/v1/", None, ("https://index.docker.io/v2/",)),
        ("docker.io", None, ("https://index.docker.io/v2/",)),
        ("reg.io", None, ()),
        ("docker.io", "reg.io", ()),
        ("reg.io", "reg.io", ("https://reg.io/v2/",)),
        ("http://reg.io", "reg.io", ("http://reg.io/v2/",)),
        ("https://REG.io:443/v1/", "reg.io", ("https://reg.io/v2/",)),
        ("https://reg.io/a", "reg.io:443", ("https://reg.io/a/v2/",)),
        ("reg.io:5000", "reg.io", ()),
        ("reg.io", "reg.io:5000", ()),
        ("reg.io.evil", "reg.io", ()),
        ("https://reg.io@evil", "reg.io", ()),
        ("localhost:5000", "localhost:5000", ("http://localhost:5000/v2/", "https://localhost:5000/v2/")),
        ("https://[::1]:5000", "[::1]:5000", ("https://[::1]:5000/v2/",)),
    ],
)
def test_credentials_are_for_one_registry(uri: str, registry: str | None, expected: tuple[str, ...]) -> None:
    assert addresses.of_credentials(uri, registry) == expected
