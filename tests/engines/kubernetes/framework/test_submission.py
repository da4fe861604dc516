"""A run is handed over to FrameworkController, refused, or half handed over."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
import yaml

from kedge.engines.kubernetes.framework.submitted import SubmittedFramework
from kedge.engines.kubernetes.setup import manifests
from kedge.errors import CannotRun
from kedge.jobs import submission as jobs
from kedge.testing.kubernetes_api.server import FakeKubernetes

from .conftest import FrameworkBench


def test_the_secrets_are_made_before_the_framework_which_owns_them(
    bench: FrameworkBench, frameworks: FakeKubernetes
) -> None:
    run = bench.submit().run
    name = hashlib.md5(f"ada~{run.id}".encode(), usedforsecurity=False).hexdigest()
    made = [call.kind for call in frameworks.calls if call.verb == "create" and "Review" not in call.kind]
    assert made == ["Secret", "Secret", "Framework"]
    found = bench.framework()
    assert found["metadata"]["name"] == name
    for secret in (f"{name}-configcred", f"{name}-regcred"):
        stored = frameworks.find("Secret", secret)
        assert stored
        assert [owner["uid"] for owner in stored["metadata"]["ownerReferences"]] == [found["metadata"]["uid"]]
    values = frameworks.find("Secret", f"{name}-configcred")
    assert values
    assert yaml.safe_load(base64.b64decode(values["data"]["secrets.yaml"])) == {"token": "hunter2hunter2"}


def test_no_secret_is_in_the_framework_or_stays_on_this_machine(bench: FrameworkBench) -> None:
    run = bench.submit().run
    assert "hunter2hunter2" not in json.dumps(bench.framework())
    assert not run.cluster.secrets.exists()
    assert not run.cluster.orders.exists()


def test_the_framework_carries_the_job_and_the_name_of_its_run(bench: FrameworkBench) -> None:
    run = bench.submit().run
    annotations = bench.framework()["metadata"]["annotations"]
    assert yaml.safe_load(annotations["config"])["taskRoles"]["work_er"]["instances"] == 2
    assert (annotations["jobName"], annotations["kedge.io/run-id"]) == ("fake", run.id)


def test_what_was_submitted_is_found_again(bench: FrameworkBench, frameworks: FakeKubernetes) -> None:
    found = SubmittedFramework(bench.submit().run)
    assert found.uid == bench.framework()["metadata"]["uid"]
    assert found.facts["namespace"] == "team"
    assert found.framework() == bench.framework()


def test_a_refused_framework_leaves_nothing(bench: FrameworkBench, frameworks: FakeKubernetes) -> None:
    submitted = jobs.submit(bench.prepared(), bench.engine())
    frameworks.rules.refuse("Framework", code=422, message="spec.taskRoles: Invalid value")
    with pytest.raises(CannotRun, match="does not take the job's Framework"):
        jobs.start(submitted)
    assert frameworks.listed("Secret") == []
    assert frameworks.listed("Framework") == []
    assert not submitted.run.path.exists()


def test_a_site_may_give_each_job_a_priority_class(bench: FrameworkBench, frameworks: FakeKubernetes) -> None:
    bench.submit({"framework_priorities": True})
    name = bench.framework()["metadata"]["name"]
    (found,) = frameworks.listed("PriorityClass")
    assert found["metadata"]["name"] == f"{name}-priority"
    pod = bench.framework()["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    assert pod["priorityClassName"] == f"{name}-priority"


def test_a_cluster_without_frameworks_is_named(bench: FrameworkBench, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    with FakeKubernetes.serving(folder, namespace="team") as plain:
        engine = bench.engine(kubeconfig=str(plain.kubeconfig))
        with pytest.raises(CannotRun, match=r"has no Frameworks .* leave --controller framework out"):
            jobs.submit(bench.prepared(), engine)


def test_missing_rights_are_named_with_the_command_that_gives_them(
    bench: FrameworkBench, frameworks: FakeKubernetes
) -> None:
    frameworks.rules.deny("create", "frameworks")
    frameworks.rules.deny("*")
    with pytest.raises(CannotRun, match=r"you lack create frameworks.*setup --namespace team --controller framework"):
        jobs.submit(bench.prepared(), bench.engine())


def test_setup_prints_the_roles_for_frameworks() -> None:
    text = manifests("team", "kedge", ["ada"], [], None, None, frameworks="runtime-account", priorities=True)
    found = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    pods = found["Role", "runtime-account"]["rules"]
    assert [(rule["resources"], rule["verbs"]) for rule in pods] == [(["frameworks"], ["get", "list", "watch"])]
    user = {rule["resources"][0]: rule["verbs"] for rule in found["Role", "kedge-user"]["rules"]}
    assert {"create", "patch", "delete"} <= set(user["frameworks"])
    cluster = found["ClusterRole", "kedge-priorities-team"]
    assert cluster["rules"][0]["resources"] == ["priorityclasses"]
    assert found["ClusterRoleBinding", "kedge-priorities-team"]["roleRef"]["kind"] == "ClusterRole"
    assert "frameworks" not in manifests("team", "kedge", ["ada"], [], None, None)


def test_a_namespace_without_the_account_of_the_pods_is_named(
    bench: FrameworkBench, frameworks: FakeKubernetes
) -> None:
    with pytest.raises(CannotRun, match="no service account 'others' for the pods of Frameworks"):
        jobs.submit(bench.prepared(), bench.engine(framework_account="others"))


def test_code_of_this_machine_is_refused(bench: FrameworkBench, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    with pytest.raises(CannotRun, match="carries no code"):
        jobs.submit(bench.prepared(workdir=str(code)), bench.engine())


def test_what_is_not_kept_is_said(bench: FrameworkBench) -> None:
    notes = [note.text for note in bench.engine().notes(bench.prepared().plan)]
    assert "retries by cause" in notes[0]
    assert "lost" in notes[1]
    kept = [note.text for note in bench.engine(framework_logs="/var/log/pai").notes(bench.prepared().plan)]
    assert "/var/log/pai" in kept[1]


def test_the_plan_prints_what_would_be_made(bench: FrameworkBench) -> None:
    requests = bench.engine().requests(bench.prepared().plan)
    documents = list(yaml.safe_load_all("".join(request.value or request.command for request in requests)))
    assert [each["kind"] for each in documents] == ["Secret", "Secret", "Framework"]
