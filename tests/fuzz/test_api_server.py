"""Whatever an API server answers, the barrier passes, waits or fails with a reason in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.dropin.cluster import framework_files, framework_request, framework_status
from kedge.dropin.cluster.access import ApiServer
from kedge.dropin.cluster.credentials import Credentials
from kedge.dropin.cluster.framework_request import FrameworkName, ReadFailed
from kedge.dropin.cluster.framework_status import OwnTask
from kedge.dropin.net.http_connections import Tls
from kedge.testing.raw_server import RawServer, serving

from .test_http_answers import answers
from .values import as_json, changes_of, edited, edits, replaced

NAME = FrameworkName("default", "f")
OWN = OwnTask("worker1", 0, "uid")
STATUS = {"name": "worker1", "taskStatuses": [{"index": 0, "attemptStatus": {"podUID": "uid", "podIP": "10.0.0.1"}}]}
FRAMEWORK = {
    "kind": "Framework",
    "metadata": {"annotations": {"taskRoleNames": '{"worker1": "worker_1"}'}},
    "spec": {"taskRoles": [{"name": "worker1", "taskNumber": 1}, {"name": "ps", "taskNumber": 0}]},
    "status": {"attemptStatus": {"taskRoleStatuses": [STATUS], "taskRoleStatusesCompressed": None}},
}


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with serving() as running:
        yield running


def asked(server: RawServer, answer: bytes) -> dict[str, Any] | ReadFailed:
    server.answer = answer
    try:
        return framework_request.get(ApiServer(server.url, Tls(), Credentials(), {}), NAME, 20.0)
    except ReadFailed as failed:
        assert str(failed).isprintable()
        assert failed.advice is None or failed.advice.isprintable()
        return failed


def with_length(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body


@given(answers)
@settings(max_examples=150)
def test_any_answer(server: RawServer, answer: bytes) -> None:
    asked(server, answer)


@given(st.sampled_from([401, 403, 404, 429, 500]), edits)
@settings(max_examples=60)
def test_any_refusal(server: RawServer, code: int, changes: list[tuple[float, int, str]]) -> None:
    body = edited('{"message": "x is forbidden: User \\"me\\" cannot"}', changes).encode("utf-8", "surrogatepass")
    failed = asked(server, with_length(body).replace(b"200 OK", f"{code} X".encode(), 1))
    assert isinstance(failed, ReadFailed)
    assert failed.status == code


@given(changes_of(FRAMEWORK))
@settings(max_examples=150)
def test_any_framework(
    server: RawServer, tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    sent = as_json(replaced(FRAMEWORK, changes)).encode("utf-8", "surrogatepass")
    if isinstance(found := asked(server, with_length(sent)), ReadFailed):
        return
    ready, total, _ = framework_status.readiness(found, OWN)
    assert 0 <= ready <= total
    found = framework_files.with_role_names(found, {"PAI_TASK_ROLE_LIST": "worker_1,ps"})
    folder = tmp_path_factory.getbasetemp()
    framework_files.write(found, str(folder / "framework.json"))
    framework_files.write_injector(found, str(folder / "injector.sh"))
    check_script(folder / "injector.sh")
    assert json.loads((folder / "framework.json").read_bytes().decode("utf-8", "surrogatepass")) is not None


def check_script(script: Path) -> None:
    """Only assignments are in it, and no value can run anything."""
    for line in script.read_text().splitlines()[1:]:
        name, _, value = line.removeprefix("export ").partition("=")
        assert name.replace("_", "").isalnum()
        assert not set(value.replace(f"${{{name.removesuffix('_ADDRESSES')}_PORT}}", "")) & set("$`\\;&|")
