"""Hands a run over to FrameworkController: the secrets and the priority class first, then the Framework."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from kedge.contract import timestamp
from kedge.engines.kubernetes import refusals
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.framework import job_config, job_objects
from kedge.engines.kubernetes.framework.job_objects import FrameworkObjects, FrameworkOrder
from kedge.engines.kubernetes.framework.render import VERSION
from kedge.engines.kubernetes.framework.submitted import ENGINE, remove_addons
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run

_EXISTS = 409
_SECRETS = ("document", "texts")


def submit(run: Run, plan: Plan, options: KubernetesOptions) -> None:
    """Submit a run whose secrets are in its folder. CannotRun: the cluster refuses it; nothing of it is left then. The
    values of secrets are in the cluster alone from then on."""
    if run.info().with_job_dir:
        raise CannotRun("--with-job-dir: a job that FrameworkController runs has no job folder; leave the option out")
    api = KubernetesApi.connect(options.kubeconfig, options.context, options.namespace)
    try:
        order = _order(run, plan, options, api.namespace)
        _create(api, run, order, job_objects.made(order))
    finally:
        api.close()
    run.cluster.remove_secrets()


def _order(run: Run, plan: Plan, options: KubernetesOptions, namespace: str) -> FrameworkOrder:
    name, now = job_objects.name_of(plan.user, run.id), time.time_ns() // 1_000_000
    secrets = Secrets(**{key: run.cluster.object(run.cluster.secrets).get(key, {}) for key in _SECRETS})
    config, extras = job_config.text(run), job_config.extras(run)
    return FrameworkOrder(plan, options, namespace, name, run.id, config, extras, secrets, now)


def _create(api: KubernetesApi, run: Run, order: FrameworkOrder, objects: FrameworkObjects) -> None:
    files, has_priority = run.cluster, order.options.framework_priorities
    job: dict[str, Any] = {
        "engine": ENGINE, "server": api.server, "kubeconfig": api.kubeconfig or None, "context": api.context or None,
        "namespace": api.namespace, "name": order.name, "uid": None, "priority": has_priority,
        "submitted": timestamp(time.time_ns()), "time": time.time(),
    }  # fmt: skip
    files.write(files.job, job)  # first: it says what may be left if this process is killed
    try:
        for each in objects.addons:
            _created(api, each)
        made = _created(api, objects.framework)
        uid = str(made["metadata"]["uid"])
        files.write(files.job, job | {"uid": uid})
        _own(api, objects, uid)
    except BaseException:
        with suppress(ApiError):
            api.delete("Framework", order.name)
        remove_addons(api, order.name, priority=has_priority)
        raise


def _created(api: KubernetesApi, obj: dict[str, Any]) -> dict[str, Any]:
    """Create an object whose name no other run has: one that is there is of this submission, whose answer was lost."""
    kind = obj["kind"]
    try:
        return api.create(obj)
    except ApiError as error:
        if error.status == _EXISTS and (found := api.get(kind, obj["metadata"]["name"])):
            return found
        raise CannotRun(refusals.explained(error, kind, api)) from None


def _own(api: KubernetesApi, objects: FrameworkObjects, uid: str) -> None:
    """Let the secrets go with the Framework. A priority class belongs to the whole cluster, and has no owner."""
    name = objects.framework["metadata"]["name"]
    owner = {"apiVersion": VERSION, "kind": "Framework", "name": name, "uid": uid, "controller": False,
             "blockOwnerDeletion": False}  # fmt: skip
    for each in objects.addons:
        if each["kind"] == "Secret":
            api.patch("Secret", each["metadata"]["name"], {"metadata": {"ownerReferences": [owner]}})
