"""Whether a plan can run in a namespace: what the plan asks for, and what the namespace has."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.engines.base import Task
from kedge.engines.kubernetes import job_folder_use, permissions, queues
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.objects import task_pod
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan

OLDEST = (1, 20)  # the version of the server
_CLAIMS = ("run_volume", "outputs_volume", "code_volume")
_UID = "00000000-0000-0000-0000-000000000000"


def check_plan(plan: Plan, options: KubernetesOptions) -> None:
    """CannotRun: no namespace could run the plan as this site is set up. Asks nothing of a cluster."""
    if not options.image:
        raise CannotRun(
            "no runtime image is named, which brings kedge's runtime into pods: make it with kedge bundle --oci DIR, "
            "push it to a registry of the cluster, and set registry or engines.kubernetes.image in the site's file"
        )
    if not options.outputs_volume and (used := job_folder_use.places(plan)):
        raise CannotRun(
            f"{used[0]} use{'s' if used[0].startswith('the variable') else ''} $KEDGE_JOB_DIR, which all tasks share, "
            "and this site has no volume for that: set engines.kubernetes.outputs-volume in the site's file to a "
            "PersistentVolumeClaim (ReadWriteMany) of the namespace"
        )
    place = example_place(plan, options)
    for role in plan.roles:
        task_pod.task_pod(plan, Task(role.name, 0), 0, 0, options, place)
    queues.check_shapes(plan, options, place)


def example_place(plan: Plan, options: KubernetesOptions, owner: ObjectOwner | None = None) -> PodPlace:
    """A place with placeholders for what is known only once a run has been submitted."""
    known = owner or ObjectOwner(RunNames.of("run-id").name, _UID, "run-id", plan.user, plan.job)
    return PodPlace(
        owner=known, image=options.image or "kedge-runtime", addresses=("DRIVER-ADDRESS",), port=0,
        certificate="CERTIFICATE", code_pieces=int(bool(plan.code)),
    )  # fmt: skip


def check_namespace(api: KubernetesApi, options: KubernetesOptions, setup: str) -> None:
    """CannotRun, ApiError: jobs cannot run in the namespace, with what is missing and who can change that."""
    version = api.version()
    if (0, 0) < version < OLDEST:
        shown = ".".join(map(str, version))
        raise CannotRun(f"{api.server} is Kubernetes {shown}, and kedge needs at least {'.'.join(map(str, OLDEST))}")
    _check_exists(api)
    permissions.check(api, options, setup)
    permissions.check_service_account(api, options.service_account, setup)
    for problem in _missing(api, options):
        raise CannotRun(problem)


def _check_exists(api: KubernetesApi) -> None:
    try:
        found = api.get("Namespace", api.namespace)
    except ApiError as error:
        if error.status == 403:  # most users may not look
            return
        raise
    if found is None:
        raise CannotRun(
            f"{api.server} has no namespace {api.namespace!r}: name another one with --kubernetes namespace=NAME, or "
            f"make it with kubectl create namespace {api.namespace}"
        )
    if found.get("status", {}).get("phase") == "Terminating":
        raise CannotRun(f"the namespace {api.namespace} of {api.server} is being deleted: use another one")


def _missing(api: KubernetesApi, options: KubernetesOptions) -> Iterator[str]:
    """What the options name and the namespace does not have, as far as one may look."""
    for option in _CLAIMS:
        name = getattr(options, option)
        if name and not permissions.is_there(api, "PersistentVolumeClaim", name):
            setting = f"engines.kubernetes.{option.replace('_', '-')}"
            yield (
                f"the namespace {api.namespace} has no PersistentVolumeClaim {name!r}, which {setting} names: make it, "
                "or use another namespace"
            )
    for name in options.pull_secrets:
        if not permissions.is_there(api, "Secret", name):
            yield (
                f"the namespace {api.namespace} has no Secret {name!r}, with which nodes are to pull images "
                "(engines.kubernetes.pull-secrets)"
            )
    if options.priority_class and not permissions.is_there(api, "PriorityClass", options.priority_class):
        yield f"the cluster has no priority class {options.priority_class!r}: see kubectl get priorityclasses"
    if options.queue:
        yield from queues.missing(api, options.queue)
