"""The objects of a run besides its pods."""

from __future__ import annotations

import base64
import gzip
import json
import os
from dataclasses import replace

import pytest

from kedge.engines.base import Task
from kedge.engines.kubernetes.objects import code_pieces, pull_secret, run_objects
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan

from ..jobs import planned, role
from .test_task_pod import OWNER, PLACE, container

SIMPLE = planned({"worker": role(1, 1, 100)})


def with_command(plan: Plan, text: str) -> Plan:
    return replace(plan, roles=(replace(plan.roles[0], command=(text,)),))


def test_the_anchor_holds_the_masked_plan() -> None:
    plan = planned(
        {"worker": role(1, 1, 100) | {"commands": ["echo <% $secrets.token %>"]}},
        more={"secrets": {"token": "hunter2"}},
        image={"auth": {"username": "puller", "password": "plain-password"}},
    )
    anchor = run_objects.anchor(OWNER._replace(uid=""), plan)
    text = anchor["data"]["plan.json"]
    assert json.loads(text)["roles"][0]["name"] == "worker"
    assert "<% $secrets.token %>" in text
    assert "hunter2" not in text
    assert "plain-password" not in text


def test_a_large_plan_is_compressed_and_one_that_is_too_large_is_left_out() -> None:
    large = with_command(SIMPLE, "echo 1\n" * 200_000)
    anchor = run_objects.anchor(OWNER, large)
    assert "data" not in anchor
    packed = base64.b64decode(anchor["binaryData"]["plan.json.gz"])
    assert json.loads(gzip.decompress(packed))["roles"][0]["command"].startswith("echo 1")
    assert anchor == run_objects.anchor(OWNER, large), "the same plan makes the same anchor"
    without = run_objects.anchor(OWNER, with_command(SIMPLE, os.urandom(1 << 20).hex()))
    assert without.keys() == {"apiVersion", "kind", "metadata"}


def test_the_drivers_secret_has_a_limit() -> None:
    seed = os.urandom(run_objects.LARGEST)
    found = run_objects.driver_secret(OWNER, seed)["data"]
    assert base64.b64decode(found["seed.tar.gz"]) == seed
    with pytest.raises(CannotRun, match=r"2\.0 MiB compressed, and a Secret of Kubernetes holds 1 MiB"):
        run_objects.driver_secret(OWNER, seed * 2)


def test_every_task_finds_its_token() -> None:
    plan = planned({"worker": role(2, 1, 100), "Chief": role(1, 1, 100)})
    secret = run_objects.tokens_secret(OWNER, 1, {"worker": ["w0", "w1"], "Chief": ["C0"]})
    found = {}
    for task in (Task("worker", 0), Task("worker", 1), Task("Chief", 0)):
        pod = task_pod(plan, task, 1, 0, KubernetesOptions(), PLACE)
        (volume,) = (each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "token")
        assert volume["secretName"] == secret["metadata"]["name"]
        (item,) = volume["items"]
        found[str(task)] = base64.b64decode(secret["data"][item["key"]]).decode()
    assert found == {"worker:0": "w0", "worker:1": "w1", "Chief:0": "C0"}


def test_a_later_task_attempt_finds_its_token_in_the_same_place() -> None:
    plan, options = planned({"worker": role(2, 1, 100)}), KubernetesOptions()
    first, later = (task_pod(plan, Task("worker", 1), 0, attempt, options, PLACE) for attempt in (0, 2))
    for pod in (first, later):
        (volume,) = (each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "token")
        assert (volume["secretName"], volume["items"][0]["key"]) == ("train-abc2345-a0", "worker-1")
    orders = next(each["value"] for each in container(later, "agent")["env"] if each["name"] == "KEDGE_AGENT_ORDERS")
    assert json.loads(orders)["task_attempt"] == 2


def test_code_in_pieces_is_what_it_was() -> None:
    code = os.urandom(2 * code_pieces.LARGEST_PIECE + 1)
    made = code_pieces.code_pieces(OWNER, code)
    assert [each["metadata"]["name"] for each in made] == [f"train-abc2345-code-{n}" for n in range(3)]
    files = {name: base64.b64decode(data) for each in made for name, data in each["binaryData"].items()}
    assert b"".join(files[name] for name in sorted(files)) == code
    assert all(len(data) <= code_pieces.LARGEST_PIECE for data in files.values())
    assert code_pieces.code_pieces(OWNER, b"") == ()
    with pytest.raises(ValueError, match="too many"):
        code_pieces.code_pieces(OWNER, b"x" * (code_pieces.LARGEST_CODE + 1))


def test_only_the_init_container_has_the_code() -> None:
    plan = planned({"worker": role(1, 1, 100)}, workdir=os.path.dirname(__file__))
    pod = task_pod(plan, Task("worker", 0), 0, 0, KubernetesOptions(), PLACE)
    users = [
        name for name in ("prepare", "app", "agent")
        if "/kedge/code" in [each["mountPath"] for each in container(pod, name)["volumeMounts"]]
    ]  # fmt: skip
    assert users == ["prepare"]
    assert container(pod, "prepare")["command"][1:] == ["--code", plan.roles[0].code]
    (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "code")
    assert [each["configMap"]["name"] for each in volume["projected"]["sources"]] == [
        "train-abc2345-code-0", "train-abc2345-code-1",
    ]  # fmt: skip


def test_code_may_be_on_a_volume() -> None:
    plan = planned({"worker": role(1, 1, 100)}, workdir=os.path.dirname(__file__))
    place = PLACE._replace(code_pieces=0, code_on_volume=True)
    pod = task_pod(plan, Task("worker", 0), 0, 0, KubernetesOptions(code_volume="code-claim"), place)
    (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "claim-code-claim")
    assert volume["persistentVolumeClaim"] == {"claimName": "code-claim"}
    (mount,) = (each for each in container(pod, "prepare")["volumeMounts"] if each["mountPath"] == "/kedge/code")
    assert mount["subPath"] == "train-abc2345.code"


def test_passwords_of_registries() -> None:
    auth = {"username": "puller", "password": "<% $secrets.registry %>", "registryuri": "registry.example.org"}
    plan = planned({"worker": role(1, 1, 100)}, more={"secrets": {"registry": "hunter2"}}, image={"auth": auth})
    assert pull_secret.is_needed(plan)
    found = pull_secret.pull_secret(OWNER, plan, {"registry": "hunter2"})
    assert found["type"] == "kubernetes.io/dockerconfigjson"
    auths = json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))["auths"]
    assert auths == {"registry.example.org": {"auth": base64.b64encode(b"puller:hunter2").decode()}}
    pod = task_pod(plan, Task("worker", 0), 0, 0, KubernetesOptions(pull_secrets=["site"]), PLACE)
    assert pod["spec"]["imagePullSecrets"] == [{"name": "site"}, {"name": "train-abc2345-pull"}]
    assert "hunter2" not in json.dumps(pod)


def test_of_two_passwords_for_a_registry_the_last_counts_and_docker_hub_is_the_usual_one() -> None:
    two = planned({"first": role(1, 1, 100), "second": role(1, 1, 100)})
    logins: list[dict[str, tuple[str, ...]]] = [
        {"username": ("a",), "password": ("1",)}, {"username": ("b",), "password": ("2",)},
    ]  # fmt: skip
    plan = replace(two, roles=tuple(replace(r, auth=login) for r, login in zip(two.roles, logins, strict=True)))
    found = pull_secret.pull_secret(OWNER, plan, {})
    auths = json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))["auths"]
    assert auths == {"https://index.docker.io/v1/": {"auth": base64.b64encode(b"b:2").decode()}}


def test_a_job_without_passwords_needs_no_secret_for_them() -> None:
    assert not pull_secret.is_needed(SIMPLE)
    assert "imagePullSecrets" not in task_pod(SIMPLE, Task("worker", 0), 0, 0, KubernetesOptions(), PLACE)["spec"]
