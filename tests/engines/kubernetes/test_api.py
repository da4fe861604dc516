"""The calls of the API, against a small server over real HTTP."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest

from kedge.engines.kubernetes import api as api_module
from kedge.engines.kubernetes.api import ApiError, Expired, KubernetesApi
from kedge.engines.kubernetes.transport.api_errors import refused
from kedge.testing.kubernetes_api.exec import ExecCall
from kedge.testing.kubernetes_api.server import FakeKubernetes


def config_map(name: str = "c", **head: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **head}, "data": {"a": "1"}}


def pod(name: str = "p") -> dict[str, Any]:
    containers = [{"name": "app", "image": "i"}, {"name": "agent", "image": "r"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


def test_an_object_is_made_read_changed_and_deleted(api: KubernetesApi) -> None:
    assert api.get("ConfigMap", "c") is None
    made = api.create(config_map())
    assert made["metadata"]["namespace"] == api.namespace == "team"
    changed = api.patch("ConfigMap", "c", {"data": {"b": "2", "a": None}})
    assert changed["data"] == {"b": "2"}
    changed["data"]["c"] = "3"
    assert api.replace(changed)["data"] == {"b": "2", "c": "3"}
    assert api.delete("ConfigMap", "c", uid=made["metadata"]["uid"])
    assert not api.delete("ConfigMap", "c")


def test_a_name_is_given_once(api: KubernetesApi) -> None:
    api.create(config_map())
    with pytest.raises(ApiError, match="create ConfigMap c in the namespace team") as error:
        api.create(config_map())
    assert (error.value.status, error.value.reason) == (409, "AlreadyExists")


def test_nobody_overwrites_what_he_has_not_read(api: KubernetesApi) -> None:
    old = api.create(config_map())
    api.patch("ConfigMap", "c", {"data": {"a": "2"}})
    for change in (lambda: api.replace(old), lambda: api.patch("ConfigMap", "c", {"metadata": old["metadata"]})):
        with pytest.raises(ApiError) as error:
            change()
        assert (error.value.status, error.value.reason) == (409, "Conflict")


def test_another_object_of_the_same_name_is_not_deleted(api: KubernetesApi) -> None:
    uid = api.create(config_map())["metadata"]["uid"]
    api.delete("ConfigMap", "c")
    api.create(config_map())
    assert not api.delete("ConfigMap", "c", uid=uid)
    assert api.get("ConfigMap", "c")


def test_a_list_comes_in_pages(api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "_PAGE", 2)
    for number in range(5):
        api.create(config_map(f"c{number}", labels={"run": "a" if number else "b"}))
    found, version = api.list("ConfigMap", {"run": "a"})
    assert [each["metadata"]["name"] for each in found] == ["c1", "c2", "c3", "c4"]
    assert {each["kind"] for each in found} == {"ConfigMap"}
    assert int(version) > 0


def test_a_watch_tells_each_change(api: KubernetesApi) -> None:
    _, version = api.list("ConfigMap")
    watch = api.watch("ConfigMap", name="c", resource_version=version)
    api.create(config_map("another"))
    api.create(config_map())
    api.patch("ConfigMap", "c", {"data": {"a": "2"}})
    api.delete("ConfigMap", "c")
    found = [next(watch) for _ in range(3)]
    assert [kind for kind, _ in found] == ["ADDED", "MODIFIED", "DELETED"]
    assert {obj["metadata"]["name"] for _, obj in found} == {"c"}
    watch.close()


def test_a_watch_ends_at_its_time_and_by_another_thread(api: KubernetesApi) -> None:
    _, version = api.list("ConfigMap")
    assert {kind for kind, _ in api.watch("ConfigMap", resource_version=version, timeout_sec=1)} <= {"BOOKMARK"}
    watch = api.watch("ConfigMap", resource_version=version)
    threading.Timer(0.1, watch.close).start()
    assert {kind for kind, _ in watch} <= {"BOOKMARK"}


def test_a_watch_ends_with_its_connection(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    _, version = api.list("ConfigMap")
    watch = api.watch("ConfigMap", resource_version=version)
    kubernetes.stop()
    assert {kind for kind, _ in watch} <= {"BOOKMARK"}
    with pytest.raises(ApiError, match="nothing listens there") as error:
        api.watch("ConfigMap", resource_version=version)
    assert error.value.unreachable
    kubernetes.start()


def test_changes_that_are_forgotten_are_expired(kubernetes: FakeKubernetes, tmp_path: Any) -> None:
    with FakeKubernetes.serving(tmp_path, kept=2) as forgetful:
        api = KubernetesApi.connect(str(forgetful.kubeconfig))
        _, version = api.list("ConfigMap")
        for number in range(9):
            api.create(config_map(f"c{number}"))
        with pytest.raises(Expired):
            list(api.watch("ConfigMap", resource_version=version))
        api.close()


@pytest.mark.parametrize(("code", "again"), [(429, 0), (503, 0)])
def test_a_server_that_says_when_is_asked_again(
    api: KubernetesApi, kubernetes: FakeKubernetes, code: int, again: int
) -> None:
    kubernetes.rules.fail(code, times=2, verb="create", retry_after=again)
    api.create(config_map())
    assert api.get("ConfigMap", "c")


def test_only_what_asks_is_repeated_after_a_failure(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    kubernetes.rules.fail(500, verb="get")
    assert api.get("ConfigMap", "c") is None
    kubernetes.rules.fail(500, verb="create", message="the leader is away")
    with pytest.raises(ApiError, match=r"could not create ConfigMap c .*: the leader is away \(500\)"):
        api.create(config_map())


def test_a_server_that_does_not_answer_has_a_deadline(
    api: KubernetesApi, kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "CALL_SEC", 0.3)
    kubernetes.rules.fall_silent()
    with pytest.raises(ApiError, match="no answer in time") as error:
        api.get("ConfigMap", "c")
    assert error.value.status == 0
    with pytest.raises(ApiError, match="no answer in time"):
        api.watch("ConfigMap", resource_version="1")


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (401, "Unauthorized", "your certificate or token is not, or no longer, valid"),
        (403, 'User "system:anonymous" cannot list resource "pods"', "you show no credentials"),
    ],
)
def test_whom_the_server_does_not_know(status: int, said: str, why: str) -> None:
    text = str(refused(status, json.dumps({"message": said}).encode(), "list pods"))
    assert f"Kubernetes refused to list pods: it does not know you, as {why} ({status}). Log in again" in text


def test_who_may_not_is_told_what(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    kubernetes.rules.deny("create", "pods")
    assert not api.can("create", "Pod")
    assert api.can("get", "Pod")
    with pytest.raises(ApiError, match="may not create pods") as error:
        api.create(pod())
    assert error.value.status == 403


def test_a_wrong_token_is_told(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    kubernetes.token = "another"
    with pytest.raises(ApiError, match="it does not know you"):
        api.get("ConfigMap", "c")


def test_a_connection_that_the_server_has_closed_is_not_used(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    api.create(config_map())
    kubernetes.stop()
    kubernetes.start()
    assert api.delete("ConfigMap", "c")  # which is not repeated


def test_many_threads_ask_at_once(api: KubernetesApi) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            api.create(config_map(f"c{number}-{turn}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(api.list("ConfigMap")[0]) == 40


def test_versions_are_read(api: KubernetesApi) -> None:
    assert api.version() == (1, 30)


def _echo(call: ExecCall) -> int:
    while data := call.read():
        call.write(data)
    call.write_error(b"end")
    return 7


@pytest.fixture
def container(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    api.create(pod())
    kubernetes.nodes.run("p")
    kubernetes.commands = _echo


@pytest.mark.usefixtures("container")
def test_bytes_go_through_a_program_and_come_back(api: KubernetesApi) -> None:
    sent = os.urandom(300_000)
    got = {1: bytearray(), 2: bytearray()}
    with api.exec("p", "app", ["cat"], stdin=True) as stream:
        writer = threading.Thread(target=lambda: (stream.write(sent), stream.close_stdin()))
        writer.start()
        while frame := stream.read():
            got[frame.channel] += frame.data
        writer.join()
    assert got[1] == sent
    assert got[2] == b"end"
    assert stream.exit_code == 7


def test_a_silent_program_is_waited_for_so_long(
    api: KubernetesApi, kubernetes: FakeKubernetes, container: None
) -> None:
    kubernetes.commands = lambda call: len(call.read())
    with api.exec("p", "app", ["sleep"], stdin=True) as stream:
        assert stream.read(0.05) is None
        assert stream.exit_code is None
        stream.resize(80, 25)
        stream.write(b"x")
        assert stream.read() is None
    assert stream.exit_code == 1


def test_a_connection_that_breaks_is_no_end_of_a_program(
    api: KubernetesApi, kubernetes: FakeKubernetes, container: None
) -> None:
    def broken(call: ExecCall) -> int:
        call.write(b"some")
        call.drop()
        return 0

    kubernetes.commands = broken
    with api.exec("p", "app", ["cat"]) as stream:
        assert stream.read()
        with pytest.raises(ApiError, match="while cat in p ran"):
            stream.read()
    assert stream.exit_code is None


def test_another_thread_ends_a_stream(api: KubernetesApi, container: None) -> None:
    stream = api.exec("p", "app", ["cat"], stdin=True)
    threading.Timer(0.05, stream.close).start()
    with pytest.raises(ApiError, match="while cat in p ran"):
        stream.read()


def test_a_program_in_a_pod_that_is_not_there(api: KubernetesApi) -> None:
    with pytest.raises(ApiError) as error:
        api.exec("gone", "app", ["cat"])
    assert error.value.status == 404


def test_the_log_and_the_events_of_a_pod(api: KubernetesApi, kubernetes: FakeKubernetes, container: None) -> None:
    found = api.get("Pod", "p")
    assert found
    assert isinstance(api.logs("p", "app"), str)
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"uid": "other"}}
    api.create(event)
    uid = found["metadata"]["uid"]
    assert "other" not in {each["involvedObject"]["uid"] for each in api.events_of(uid)}
