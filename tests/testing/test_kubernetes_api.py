"""The fake Kubernetes API server, through a real client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.core.resource import NamespacedResource
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Pod, Secret
from lightkube.types import CascadeType

from kedge.testing.kubernetes_api.exec import ExecCall
from kedge.testing.kubernetes_api.server import FakeKubernetes


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[FakeKubernetes]:
    with FakeKubernetes.serving(tmp_path, namespace="team") as server:
        yield server


@pytest.fixture
def client(kubernetes: FakeKubernetes) -> Iterator[Client]:
    found = Client(KubeConfig.from_file(str(kubernetes.kubeconfig)), trust_env=False)
    yield found
    found._client.close()


def pod(name: str = "p", **more: Any) -> Pod:
    spec = {"containers": [{"name": "app", "image": "i"}, {"name": "agent", "image": "r"}], **more.pop("spec", {})}
    return Pod.from_dict({"metadata": {"name": name, **more}, "spec": spec})


def config_map(name: str = "c", **more: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, **more), data={"a": "1"})


def refusal(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.status.code, error.value.status.reason


def refused(kind: type[NamespacedResource], name: str, client: Client, **how: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as error:
        client.delete(kind, name, **how)
    return refusal(error)


def test_a_second_object_of_a_name_is_refused(client: Client) -> None:
    made = client.create(config_map())
    assert made.metadata.uid
    assert made.metadata.namespace == "team"
    with pytest.raises(ApiError) as error:
        client.create(config_map())
    assert refusal(error) == (409, "AlreadyExists")
    with pytest.raises(ApiError) as error:
        client.create(config_map(), namespace="elsewhere")
    assert refusal(error) == (404, "NotFound")


@pytest.mark.parametrize(
    ("name", "labels", "size"), [("Upper", {}, 1), ("n", {"l": "x" * 64}, 1), ("n", {"l": "-"}, 1), ("n", {}, 1 << 21)]
)
def test_what_kubernetes_does_not_allow_is_refused(client: Client, name: str, labels: Any, size: int) -> None:
    with pytest.raises(ApiError) as error:
        client.create(ConfigMap(metadata=ObjectMeta(name=name, labels=labels), data={"a": "x" * size}))
    assert refusal(error) == (422, "Invalid")


def test_a_writer_who_read_an_old_version_is_refused(client: Client) -> None:
    first = client.create(config_map())
    first.data["b"] = "2"
    second = client.replace(first)
    with pytest.raises(ApiError) as error:
        client.replace(first)
    assert refusal(error) == (409, "Conflict")
    stale = {"metadata": {"resourceVersion": first.metadata.resourceVersion}, "data": {"b": None}}
    with pytest.raises(ApiError) as error:
        client.patch(ConfigMap, "c", stale)
    assert refusal(error) == (409, "Conflict")
    stale["metadata"]["resourceVersion"] = second.metadata.resourceVersion
    assert client.patch(ConfigMap, "c", stale).data == {"a": "1"}


def test_a_status_is_written_by_a_path_of_its_own(client: Client) -> None:
    client.create(pod())
    changed = client.patch(Pod, "p", {"status": {"phase": "Running"}, "metadata": {"annotations": {"a": "b"}}})
    assert (changed.status.phase, changed.metadata.annotations) == ("Pending", {"a": "b"})
    assert client.patch(Pod.Status, "p", {"status": {"phase": "Running"}}).status.phase == "Running"
    with pytest.raises(ApiError) as error:
        client.patch(Pod, "p", {"spec": {"hostname": "h"}})
    assert refusal(error) == (422, "Invalid")


def test_lists_are_selected_by_labels_and_fields(client: Client) -> None:
    for name, run in (("a", "x"), ("b", "x"), ("c", "y")):
        client.create(config_map(name, labels={"run": run, f"is-{name}": "1"}))
    found = [list(client.list(ConfigMap, labels=labels)) for labels in ({"run": "x"}, {"run": ["y"]}, {"is-a": None})]
    assert [[item.metadata.name for item in items] for items in found] == [["a", "b"], ["c"], ["a"]]
    (only,) = client.list(ConfigMap, fields={"metadata.name": "b"})
    assert only.metadata.name == "b"
    assert [item.metadata.name for item in client.list(ConfigMap, chunk_size=2)] == ["a", "b", "c"]


def watch(client: Client, version: str, **more: Any) -> Iterator[tuple[str, Any]]:
    return iter(client.watch(ConfigMap, resource_version=version, server_timeout=300, **more))


def test_a_watch_gives_what_changes_after_a_version(client: Client) -> None:
    before = client.create(config_map("a", labels={"run": "x"})).metadata.resourceVersion
    client.create(config_map("b", labels={"run": "y"}))
    client.patch(ConfigMap, "b", {"metadata": {"labels": {"run": "x"}}})
    client.patch(ConfigMap, "b", {"data": {"a": "2"}})
    client.patch(ConfigMap, "b", {"metadata": {"labels": {"run": "y"}}})
    client.delete(ConfigMap, "a")
    seen = watch(client, before, labels={"run": "x"})
    got = [(kind, obj.metadata.name) for kind, obj in (next(seen) for _ in range(4))]
    assert got == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b"), ("DELETED", "a")]
    threading.Timer(0.05, lambda: client.create(config_map("later", labels={"run": "x"}))).start()
    kind, obj = next(seen)
    assert (kind, obj.metadata.name) == ("ADDED", "later")


def test_a_watch_from_a_forgotten_version_is_refused(client: Client, kubernetes: FakeKubernetes) -> None:
    before = client.create(config_map("a")).metadata.resourceVersion
    client.create(config_map("b"))
    kubernetes.store.compact()
    with pytest.raises(ApiError) as error:
        next(watch(client, before))
    assert refusal(error) == (410, "Expired")


def test_a_watch_tells_its_position_and_ends_in_time(client: Client, kubernetes: FakeKubernetes) -> None:
    base, headers = f"{kubernetes.url}/api/v1/namespaces/team", {"Authorization": f"Bearer {kubernetes.token}"}
    query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "1", "allowWatchBookmarks": "true"}
    client.create(pod())
    with httpx.Client(trust_env=False) as http:
        *_, last = http.get(f"{base}/configmaps", params=query, headers=headers).text.splitlines()
    assert '"BOOKMARK"' in last
    assert f'"resourceVersion":"{kubernetes.store.version}"' in last


def test_a_pod_that_runs_goes_when_its_kubelet_says_so(client: Client, kubernetes: FakeKubernetes) -> None:
    client.create(pod())
    kubernetes.nodes.run("p")
    client.delete(Pod, "p", grace_period=20)
    left = client.get(Pod, "p")
    assert left.metadata.deletionTimestamp
    assert left.metadata.deletionGracePeriodSeconds == 20
    client.delete(Pod, "p", grace_period=5)
    assert client.get(Pod, "p").metadata.deletionGracePeriodSeconds == 5
    kubernetes.nodes.let_go("p")
    assert refused(Pod, "p", client) == (404, "NotFound")


@pytest.mark.parametrize(("scheduled", "grace"), [(False, 30), (True, 0)])
def test_a_pod_goes_at_once_without_a_node_or_by_force(
    client: Client, kubernetes: FakeKubernetes, scheduled: bool, grace: int
) -> None:
    client.create(pod())
    if scheduled:
        kubernetes.nodes.run("p")
    client.delete(Pod, "p", grace_period=grace)
    assert kubernetes.find("Pod", "p") is None


def test_a_deletion_may_name_the_object_it_means(kubernetes: FakeKubernetes, client: Client) -> None:
    uid = client.create(pod()).metadata.uid
    with httpx.Client(trust_env=False, headers={"Authorization": f"Bearer {kubernetes.token}"}) as http:
        url = f"{kubernetes.url}/api/v1/namespaces/team/pods/p"
        assert http.request("DELETE", url, json={"preconditions": {"uid": "other"}}).status_code == 409
        assert http.request("DELETE", url, json={"preconditions": {"uid": uid}}).status_code == 200


@pytest.mark.parametrize("cascade", [CascadeType.BACKGROUND, CascadeType.FOREGROUND])
def test_what_an_owner_owns_goes_with_it(client: Client, kubernetes: FakeKubernetes, cascade: CascadeType) -> None:
    owner = client.create(config_map())
    mine = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": owner.metadata.uid}]
    client.create(pod(ownerReferences=mine))
    kubernetes.nodes.run("p")
    client.create(Secret.from_dict({"metadata": {"name": "s", "ownerReferences": mine}, "stringData": {"k": "v"}}))
    client.delete(ConfigMap, "c", cascade=cascade)
    assert kubernetes.find("Secret", "s") is None
    assert "deletionTimestamp" in (kubernetes.find("Pod", "p") or {})["metadata"]
    assert (kubernetes.find("ConfigMap", "c") is not None) == (cascade == CascadeType.FOREGROUND)
    kubernetes.nodes.let_go("p")
    assert kubernetes.find("ConfigMap", "c") is None
    client.create(config_map("orphan", ownerReferences=Pod.from_dict({"metadata": {"ownerReferences": mine}})
                             .metadata.ownerReferences))  # fmt: skip
    assert kubernetes.find("ConfigMap", "orphan") is None


def test_a_finalizer_holds_an_object(client: Client, kubernetes: FakeKubernetes) -> None:
    client.create(config_map(finalizers=["example.com/hold"]))
    client.delete(ConfigMap, "c")
    assert kubernetes.find("ConfigMap", "c")
    client.patch(ConfigMap, "c", {"metadata": {"finalizers": None}})
    assert kubernetes.find("ConfigMap", "c") is None


def test_permissions_that_are_missing_are_told_and_enforced(client: Client, kubernetes: FakeKubernetes) -> None:
    kubernetes.rules.deny("create", "pods/exec")
    kubernetes.rules.deny("create", "configmaps")
    for resource, sub, allowed in (("pods", "", True), ("pods", "exec", False), ("configmaps", "", False)):
        asked = ResourceAttributes(namespace="team", verb="create", resource=resource, subresource=sub or None)
        answer = client.create(SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resourceAttributes=asked)))
        assert answer.status.allowed == allowed
    with pytest.raises(ApiError) as error:
        client.create(config_map())
    assert refusal(error) == (403, "Forbidden")
    assert 'cannot create resource "configmaps"' in str(error.value)


def test_quota_and_admission_refuse(client: Client, kubernetes: FakeKubernetes) -> None:
    kubernetes.rules.limit("Pod", 1)
    client.create(pod("a"))
    with pytest.raises(ApiError, match="exceeded quota"):
        client.create(pod("b"))
    kubernetes.nodes.finish("a")
    kubernetes.rules.refuse("Pod", 'admission webhook "w" denied the request: no', name="c-.*")
    client.create(pod("b"))
    kubernetes.rules.limit("Pod", None)
    with pytest.raises(ApiError, match="denied the request"):
        client.create(pod("c-1"))


def test_failures_come_on_request(client: Client, kubernetes: FakeKubernetes) -> None:
    client.create(config_map())
    kubernetes.rules.fail(503, times=2, verb="get", kind="ConfigMap", retry_after=1)
    for _ in range(2):
        with pytest.raises(ApiError):
            client.get(ConfigMap, "c")
    assert client.get(ConfigMap, "c").data == {"a": "1"}
    assert [call.verb for call in kubernetes.calls] == ["create", "get", "get", "get"]


def test_a_server_can_fall_silent_and_go_away(kubernetes: FakeKubernetes, client: Client) -> None:
    client.create(config_map())
    config = KubeConfig.from_file(str(kubernetes.kubeconfig))
    impatient = Client(config, trust_env=False, timeout=httpx.Timeout(0.2))
    kubernetes.rules.fall_silent()
    with pytest.raises(httpx.ReadTimeout):
        impatient.get(ConfigMap, "c")
    kubernetes.rules.answer_again()
    running = watch(client, "1")
    assert next(running)[0] == "ADDED"
    kubernetes.stop()
    with pytest.raises(httpx.HTTPError):
        impatient.get(ConfigMap, "c")
    with pytest.raises(httpx.HTTPError):
        list(running)
    kubernetes.start()
    assert impatient.get(ConfigMap, "c").data == {"a": "1"}
    impatient._client.close()


def test_an_automatic_cluster_runs_pods_and_lets_them_go(client: Client, kubernetes: FakeKubernetes) -> None:
    kubernetes.nodes.automatic = True
    template = {"spec": {"containers": [{"name": "driver", "image": "r"}]}}
    client.create(Job.from_dict({"metadata": {"name": "j"}, "spec": {"template": template}}))
    (running,) = client.list(Pod, labels={"job-name": "j"})
    assert (running.status.phase, running.status.containerStatuses[0].ready) == ("Running", True)
    client.delete(Job, "j", cascade=CascadeType.BACKGROUND)
    assert kubernetes.listed("Pod") == []


def test_a_pod_can_be_told_how_it_is(client: Client, kubernetes: FakeKubernetes) -> None:
    client.create(pod(spec={"initContainers": [{"name": "prepare", "image": "r"}]}))
    nodes = kubernetes.nodes
    nodes.unschedulable("p", "0/3 nodes are available: 3 Insufficient cpu.")
    assert client.get(Pod, "p").status.conditions[0].reason == "Unschedulable"
    nodes.schedule("p")
    nodes.wait("p", "ImagePullBackOff", 'Back-off pulling image "i"')
    assert client.get(Pod, "p").status.containerStatuses[0].state.waiting.reason == "ImagePullBackOff"
    nodes.run("p")
    nodes.end_container("p", 137, "OOMKilled")
    states = {s.name: s.state for s in client.get(Pod, "p").status.containerStatuses}
    assert (states["app"].terminated.exitCode, states["agent"].running is not None) == (137, True)
    nodes.finish("p", 1)
    nodes.condition("p", "DisruptionTarget", "True", "EvictionByEvictionAPI")
    assert client.get(Pod, "p").status.phase == "Failed"
    nodes.event("p", "FailedMount", "no")
    assert kubernetes.listed("Event")[0]["involvedObject"]["name"] == "p"
    nodes.log("p", "hello\n")
    assert list(client.log("p", container="app")) == ["hello\n"]


def test_commands_run_in_containers(client: Client, kubernetes: FakeKubernetes) -> None:
    def command(call: ExecCall) -> int:
        call.write(" ".join((call.pod, call.container, *call.argv)).encode() + call.read() * 100)
        call.write_error(b"e")
        return 3

    kubernetes.commands = command
    client.create(pod())
    kubernetes.nodes.run("p")
    done = client.exec(
        "p", command=["echo", "a b"], container="app", stdin=b"x" * 1000, stdout=True, stderr=True, decode=None
    )
    assert (done.stdout, done.stderr, done.exit_code) == (b"p app echo a b" + b"x" * 100_000, b"e", 3)
    kubernetes.nodes.finish("p")
    with pytest.raises(Exception, match=r"completed pod|500"):
        client.exec("p", command=["echo"], container="app", stdout=True)
