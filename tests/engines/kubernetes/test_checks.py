"""What is asked before a job is submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kedge.engines.kubernetes import checks, job_folder_use, permissions
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.engine import KubernetesEngine
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.engines.kubernetes.transport.kinds import KINDS
from kedge.errors import CannotRun, InputError
from kedge.testing.kubernetes_api.kueue import FakeKueue
from kedge.testing.kubernetes_api.server import FakeKubernetes

from .jobs import planned, role

OPTIONS = KubernetesOptions(image="registry.example.org/kedge/kedge-runtime:1")
SETUP = "kedge kubernetes setup --namespace team"


@pytest.fixture
def prepared(api: KubernetesApi) -> None:
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "kedge"}})


@pytest.mark.usefixtures("prepared")
def test_a_prepared_namespace_is_fine(api: KubernetesApi) -> None:
    checks.check_namespace(api, OPTIONS, SETUP)


def test_a_namespace_that_is_not_there(kubernetes: FakeKubernetes) -> None:
    api = KubernetesApi.connect(str(kubernetes.kubeconfig), namespace="gone")
    with pytest.raises(CannotRun, match=r"has no namespace 'gone': .*kubectl create namespace gone"):
        checks.check_namespace(api, OPTIONS, SETUP)
    api.close()


@pytest.mark.usefixtures("prepared")
def test_what_one_may_not_do_is_named_with_the_role_that_gives_it(
    api: KubernetesApi, kubernetes: FakeKubernetes
) -> None:
    kubernetes.rules.deny("create", "secrets")
    kubernetes.rules.deny("create", "pods/exec")
    kubernetes.rules.deny("get", "namespaces")
    with pytest.raises(CannotRun) as error:
        checks.check_namespace(api, OPTIONS, SETUP)
    assert "you lack create secrets, create pods/exec. An" in str(error.value)
    assert f"the Role kedge-user: {SETUP} --user NAME prints it" in str(error.value)


@pytest.mark.usefixtures("prepared")
def test_what_only_some_jobs_need_is_asked_for_these(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    kubernetes.rules.deny("create", "networkpolicies")
    kubernetes.rules.deny("list", "localqueues")
    checks.check_namespace(api, OPTIONS, SETUP)
    with pytest.raises(CannotRun, match=f"you lack create networkpolicies.*: {SETUP} --user NAME"):
        checks.check_namespace(api, OPTIONS._replace(network_policy="ingress"), SETUP)
    with pytest.raises(CannotRun, match=f"you lack list localqueues.*: {SETUP} --queues --user NAME"):
        checks.check_namespace(api, OPTIONS._replace(queue="q"), SETUP)


def test_a_driver_needs_its_service_account(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    with pytest.raises(CannotRun, match=f"no service account 'kedge'.*{SETUP} | kubectl apply"):
        checks.check_namespace(api, OPTIONS, SETUP)
    kubernetes.rules.deny("get", "serviceaccounts")
    checks.check_namespace(api, OPTIONS, SETUP)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"outputs_volume": "gone"}, "no PersistentVolumeClaim 'gone', which engines.kubernetes.outputs-volume names"),
        ({"pull_secrets": ["gone"]}, "no Secret 'gone'"),
        ({"priority_class": "gone"}, "no priority class 'gone'"),
        ({"queue": "gone"}, "has no Kueue, so there is no queue 'gone'"),
    ],
)
def test_what_the_options_name_must_be_there(api: KubernetesApi, options: dict[str, Any], told: str) -> None:
    with pytest.raises(CannotRun, match=told):
        checks.check_namespace(api, OPTIONS._replace(**options), SETUP)


@pytest.mark.usefixtures("prepared")
def test_a_queue_must_be_there(api: KubernetesApi, kubernetes: FakeKubernetes) -> None:
    kueue = FakeKueue(kubernetes, "v1beta2")
    with pytest.raises(CannotRun, match=r"no queue 'gone': it has none, which an administrator makes"):
        checks.check_namespace(api, OPTIONS._replace(queue="gone"), SETUP)
    kueue.add_queue("b", 1)
    kueue.add_queue("a", 1)
    with pytest.raises(CannotRun, match=r"the namespace team has no queue 'gone': it has a, b$"):
        checks.check_namespace(api, OPTIONS._replace(queue="gone"), SETUP)
    checks.check_namespace(api, OPTIONS._replace(queue="a"), SETUP)


@pytest.mark.usefixtures("prepared")
def test_the_queue_of_a_virtual_cluster_is_taken_where_there_is_one(kubernetes: FakeKubernetes) -> None:
    job = planned({"worker": role(1, 1, 100)}, more={"defaults": {"virtualCluster": "vision"}})

    def queue(**options: Any) -> Any:
        engine = KubernetesEngine(image=OPTIONS.image, kubeconfig=str(kubernetes.kubeconfig), **options)
        engine.check(job)
        return engine.options["queue"]

    assert queue() is None
    kueue = FakeKueue(kubernetes)
    assert queue() is None
    kueue.add_queue("vision", 1)
    kueue.add_queue("other", 1)
    assert queue() == "vision"
    assert queue(queue="other") == "other"
    assert queue(fixed=["queue"]) is None
    kubernetes.rules.deny("get", "localqueues")
    assert queue() is None, "one may not look"


def test_the_roles_of_a_gang_in_a_queue_have_few_shapes() -> None:
    many = {f"r{number}": role(1, number, 100) for number in range(1, 20)}
    checks.check_plan(planned(many), OPTIONS)
    queued = OPTIONS._replace(queue="q")
    with pytest.raises(CannotRun, match="ask for 19 different sets of resources, and Kueue admits at most 18 together"):
        checks.check_plan(planned(many), queued)
    checks.check_plan(planned(many, {"gangAllocation": False}), queued)
    checks.check_plan(planned({f"r{number}": role(1, 1, 100) for number in range(30)}), queued)


def test_an_old_server_is_refused(tmp_path: Path) -> None:
    with FakeKubernetes.serving(tmp_path, version=("1", "19+")) as old:
        api = KubernetesApi.connect(str(old.kubeconfig))
        with pytest.raises(CannotRun, match=r"is Kubernetes 1\.19, and kedge needs at least 1\.20"):
            checks.check_namespace(api, OPTIONS, SETUP)
        api.close()


def test_a_job_needs_the_image_of_the_runtime() -> None:
    with pytest.raises(CannotRun, match=r"no runtime image is named.*kedge bundle --oci"):
        checks.check_plan(planned({"worker": role(1, 1, 100)}), KubernetesOptions())


@pytest.mark.parametrize(
    ("own", "place"),
    [
        ({"commands": ["cd $KEDGE_JOB_DIR"]}, "the commands of worker"),
        ({"commands": ["python -c 'os.environ[\"KEDGE_JOB_DIR\"]'"]}, "the commands of worker"),
        ({"commands": ["echo KEDGE_JOB_DIRECTORY MY_KEDGE_JOB_DIR"]}, ""),
        ({}, ""),
    ],
)
def test_a_job_folder_that_all_tasks_share_needs_a_volume(own: dict[str, Any], place: str) -> None:
    plan = planned({"worker": role(1, 1, 100) | own})
    assert job_folder_use.places(plan) == ([place] if place else [])
    checks.check_plan(plan, OPTIONS._replace(outputs_volume="shared"))
    if place:
        with pytest.raises(CannotRun, match=r"the commands of worker use \$KEDGE_JOB_DIR.*outputs-volume"):
            checks.check_plan(plan, OPTIONS)


def test_hooks_and_variables_use_the_job_folder_too() -> None:
    hooks = {"preCommands": ["touch $KEDGE_JOB_DIR/a"]}
    plan = planned(
        {"worker": role(1, 1, 100)},
        {
            "com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "parameters": {"callbacks": [
                {"event": "taskStarts", "commands": hooks["preCommands"]},
            ]}}],
            "kedge": {"env": {"CHECKPOINTS": "$KEDGE_JOB_DIR/c"}},
        },
    )  # fmt: skip
    found = job_folder_use.places(plan)
    assert "the variable CHECKPOINTS of worker" in found
    assert len(found) == 2


def test_the_role_of_users_has_what_is_asked_for() -> None:
    """And what is asked for are known kinds and verbs."""
    allowed = {(verb, rule.kind, rule.subresource) for rule in permissions.USER_RULES for verb in rule.verbs}
    assert set(permissions._NEEDED) <= allowed
    assert {kind for _, kind, _ in permissions._NEEDED} <= KINDS.keys()


def test_a_patch_for_pods_travels_as_json(tmp_path: Path) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text("spec:\n  schedulerName: volcano\n")
    engine = KubernetesEngine(pod_patch=str(patch))
    assert engine.options["pod_patch"] == '{"spec": {"schedulerName": "volcano"}}'
    assert KubernetesEngine(**engine.options).options == engine.options
    with pytest.raises(InputError, match=r"engines\.kubernetes\.pod-patch: .*No such file"):
        KubernetesEngine(pod_patch=str(tmp_path / "gone"))
