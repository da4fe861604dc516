"""kedge kubernetes setup, and kedge plan for Kubernetes, as commands: what they print is applied to a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.engines.kubernetes import permissions
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.testing.kubernetes_api.server import FakeKubernetes

HELLO = Path(__file__).parents[3] / "examples" / "hello.yaml"


@pytest.fixture
def site(kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site's file, which may be changed."""
    path = tmp_path / "site.toml"
    path.write_text("registry = 'registry.example.org/kedge/'\n")
    monkeypatch.setenv("KEDGE_SITE_FILE", str(path))
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return path


def kedge(*argv: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "kedge", *argv], capture_output=True, text=True, env=os.environ, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


@pytest.mark.usefixtures("site")
def test_what_a_driver_needs_is_printed_for_the_namespace_of_the_context() -> None:
    found = documents(kedge("kubernetes", "setup").stdout)
    assert [each["kind"] for each in found] == ["ServiceAccount", "Role", "RoleBinding"]
    assert {(each["metadata"]["name"], each["metadata"]["namespace"]) for each in found} == {("kedge", "team")}
    assert found[2]["subjects"] == [{"kind": "ServiceAccount", "name": "kedge", "namespace": "team"}]
    rules = {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in found[1]["rules"]}
    assert "create" in rules["", "pods"]
    assert "update" in rules["coordination.k8s.io", "leases"]
    assert not any("exec" in resource for _, resource in rules), "the driver runs nothing in pods"


@pytest.mark.usefixtures("site")
def test_users_and_groups_get_the_role_of_submitters() -> None:
    found = documents(kedge("kubernetes", "setup", "--namespace", "n", "--user", "bob", "--group", "staff").stdout)
    role, binding = found[3:]
    assert role["metadata"] == {**role["metadata"], "name": permissions.USER_ROLE, "namespace": "n"}
    assert [(each["kind"], each["name"]) for each in binding["subjects"]] == [("User", "bob"), ("Group", "staff")]
    assert ["pods/exec"] in [rule["resources"] for rule in role["rules"]]


@pytest.mark.usefixtures("site")
def test_what_queues_need_is_printed_where_it_is_asked_for() -> None:
    """Whoever has no rights in Kueue cannot give them."""
    assert "kueue" not in kedge("kubernetes", "setup", "--user", "bob").stdout
    found = documents(kedge("kubernetes", "setup", "--queues", "--user", "bob").stdout)
    driver, user = ({rule["resources"][0]: rule["verbs"] for rule in found[at]["rules"]} for at in (1, 3))
    assert driver["workloads"] == ["get", "list", "delete"]
    assert user["localqueues"] == ["get", "list"]


def test_users_may_make_the_network_policies_that_the_site_wants(site: Path) -> None:
    site.write_text("[engines.kubernetes]\nnetwork-policy = 'ingress'\n")
    role = documents(kedge("kubernetes", "setup", "--user", "bob").stdout)[3]
    assert ["networkpolicies"] in [rule["resources"] for rule in role["rules"]]


def test_the_settings_name_account_and_namespace(site: Path) -> None:
    site.write_text("[engines.kubernetes]\nservice-account = 'drivers'\nnamespace = 'jobs'\n")
    found = documents(kedge("kubernetes", "setup").stdout)
    assert {(each["metadata"]["name"], each["metadata"]["namespace"]) for each in found} == {("drivers", "jobs")}


def test_without_a_context_the_namespace_must_be_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(site.with_name("gone")))
    done = kedge("kubernetes", "setup", code=2)
    assert "name the namespace with --namespace: there is no kubeconfig file" in done.stderr
    assert kedge("kubernetes", "setup", "--namespace", "n").stdout


@pytest.mark.usefixtures("site")
def test_what_the_plan_prints_can_be_created(api: KubernetesApi) -> None:
    done = kedge("plan", "--requests", "--engine", "kubernetes", HELLO)
    found = documents(done.stdout)
    assert [each["kind"] for each in found] == [
        "ConfigMap", "Service", "Secret", "ConfigMap", "Job", "Secret", "Pod",
    ]  # fmt: skip
    for each in found:
        each["metadata"].pop("ownerReferences", None)  # its uid is a placeholder, so it would be removed at once
        api.create(each)
    image = found[4]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.startswith("registry.example.org/kedge/kedge-runtime:")
    (task,) = documents(kedge("plan", "--requests", "--engine", "kubernetes", "--task", "worker:1", HELLO).stdout)
    assert task["metadata"]["labels"]["kedge.io/task-index"] == "1"
    values = json.loads(kedge("plan", "--requests", "--json", "--engine", "kubernetes", HELLO).stdout)
    assert [yaml.safe_load(each["command"])["kind"] for each in values] == [each["kind"] for each in found]


@pytest.mark.usefixtures("site")
def test_a_plan_says_what_the_namespace_lacks() -> None:
    done = kedge("plan", "--engine", "kubernetes", HELLO)
    assert "the job cannot run here: the namespace team has no service account 'kedge'" in done.stderr
    assert "kedge kubernetes setup --namespace team | kubectl apply -f -" in done.stderr


def test_a_job_file_names_a_namespace_and_no_kubeconfig(site: Path) -> None:
    text = HELLO.read_text()
    job = site.with_name("job.yaml")
    job.write_text(f"{text}\nextras: {{kubernetes: {{namespace: other}}}}\n")
    assert "no namespace 'other'" in kedge("plan", "--engine", "kubernetes", job).stderr
    job.write_text(f"{text}\nextras: {{kubernetes: {{kubeconfig: /tmp/stranger}}}}\n")
    assert "unknown key 'kubeconfig'" in kedge("plan", "--engine", "kubernetes", job, code=2).stderr


@pytest.mark.usefixtures("site")
def test_a_server_that_is_down_is_told_without_a_traceback(kubernetes: FakeKubernetes) -> None:
    kubernetes.stop()
    done = kedge("run", "--engine", "kubernetes", HELLO, code=4)
    assert f"the Kubernetes API server {kubernetes.url} cannot be reached: nothing listens there" in done.stderr
    assert "Traceback" not in done.stderr
    kubernetes.start()
