"""The Kubernetes engine: runs the whole job in one namespace, with its controller in a driver pod."""

from __future__ import annotations

import importlib
import os
import shlex
from collections.abc import Callable
from typing import Any, ClassVar

from kedge.engines.base import EngineRequest, ExecRequest, JobOutcome, Note, Task, TaskAttempt
from kedge.engines.kubernetes import notes, pod_patch_file
from kedge.engines.kubernetes.framework import unsupported
from kedge.engines.kubernetes.options import ACCEPTS, FRAMEWORK, KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


class KubernetesEngine:
    """The keywords are those of KubernetesOptions; `pod_patch` is the path of the file, or its content as JSON."""

    name = "kubernetes"
    accepts: ClassVar = ACCEPTS
    in_cluster: ClassVar[bool] = True

    def __init__(self, **options: Any) -> None:
        given = KubernetesOptions(**options)
        if given.kubeconfig:  # the path counts from this folder, wherever later commands run
            given = given._replace(kubeconfig=os.path.abspath(os.path.expanduser(given.kubeconfig)))
        if given.pod_patch:
            given = given._replace(pod_patch=pod_patch_file.content(given.pod_patch))
        self._set(given)

    def _set(self, options: KubernetesOptions) -> None:
        self._options, self.options = options, options._asdict()

    @classmethod
    def load(cls) -> None:
        return

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        texts = unsupported.notes if self._options.by_framework else notes.of
        return tuple(map(Note, texts(plan, self._options)))

    def check(self, plan: Plan) -> None:
        checks = importlib.import_module("kedge.engines.kubernetes.checks")
        api = importlib.import_module("kedge.engines.kubernetes.api")
        given = self._options
        if given.by_framework:
            unsupported.check(plan, given)
            checks = importlib.import_module("kedge.engines.kubernetes.framework.checks")
        else:
            checks.check_plan(plan, given)
        connected = api.KubernetesApi.connect(given.kubeconfig, given.context, given.namespace)
        try:
            if not given.by_framework and (queue := checks.queues.of_plan(connected, plan, given)):
                self._set(given := given._replace(queue=queue))  # its driver must know
                checks.check_plan(plan, given)
            checks.check_namespace(connected, given, _setup(connected.namespace, given))
        finally:
            connected.close()

    def requests(self, plan: Plan, task: Task | None = None) -> tuple[EngineRequest, ...]:
        if self._options.by_framework:
            manifests = importlib.import_module("kedge.engines.kubernetes.framework.manifests")
        else:
            manifests = importlib.import_module("kedge.engines.kubernetes.plan_manifests")
        found: tuple[EngineRequest, ...] = manifests.requests(plan, self._options, task)
        return found

    def secrets_dir(self, run: Run) -> str:
        return str(run.path / "cluster")

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        raise CannotRun("a job of the kubernetes engine runs in its driver, which is started there")

    def submit(self, run: Run, plan: Plan, say: Callable[[str], object]) -> None:
        if self._options.by_framework:
            submission = importlib.import_module("kedge.engines.kubernetes.framework.submission")
            submission.submit(run, plan, self._options)
        else:
            submission = importlib.import_module("kedge.engines.kubernetes.submission")
            submission.submit(run, plan, self._options, say)

    def stop(self, run: Run, kill: bool) -> tuple[str, ...]:
        for_user: tuple[str, ...] = _requests(run).stop(run, kill)
        return for_user

    def forward(self, run: Run, number: int) -> None:
        _requests(run).forward(run, number)

    def suspended(self, run: Run) -> int | None:
        return None

    def exec(self, run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
        if _is_framework(run):
            pod = "kubectl exec -it POD -c app -- sh"
            raise CannotRun(f"{run.id} is run by FrameworkController, and kedge has no agent in its pods: use {pod}")
        code: int = importlib.import_module("kedge.engines.kubernetes.access.exec").run(run, attempt, request)
        return code

    def forget(self, run: Run) -> None:
        _requests(run).forget(run)


def _is_framework(run: Run) -> bool:
    """Whether FrameworkController runs it."""
    return run.cluster.object(run.cluster.job).get("engine") == FRAMEWORK


def _requests(run: Run) -> Any:
    """Loaded late: most commands ask nothing of a running job."""
    if _is_framework(run):
        return importlib.import_module("kedge.engines.kubernetes.framework.requests")
    return importlib.import_module("kedge.engines.kubernetes.access.requests")


def _setup(namespace: str, options: KubernetesOptions) -> str:
    """The command that prints what the namespace needs."""
    more = ["--controller", FRAMEWORK] if options.by_framework else []
    return shlex.join(["kedge", "kubernetes", "setup", "--namespace", namespace, *more])
