"""The Kubernetes engine: runs the whole job in one namespace, with its controller in a driver pod."""

from __future__ import annotations

import importlib
import os
import shlex
from typing import Any, ClassVar

from kedge.engines.base import EngineRequest, ExecRequest, JobOutcome, Note, Task, TaskAttempt
from kedge.engines.kubernetes import notes, pod_patch_file
from kedge.engines.kubernetes.options import ACCEPTS, KubernetesOptions
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
        self._options = given
        self.options = given._asdict()

    @classmethod
    def load(cls) -> None:
        return

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        return tuple(map(Note, notes.of(plan, self._options)))

    def check(self, plan: Plan) -> None:
        checks = importlib.import_module("kedge.engines.kubernetes.checks")
        api = importlib.import_module("kedge.engines.kubernetes.api")
        checks.check_plan(plan, self._options)
        given = self._options
        connected = api.KubernetesApi.connect(given.kubeconfig, given.context, given.namespace)
        try:
            checks.check_namespace(connected, given, _setup(connected.namespace))
        finally:
            connected.close()

    def requests(self, plan: Plan, task: Task | None = None) -> tuple[EngineRequest, ...]:
        manifests = importlib.import_module("kedge.engines.kubernetes.plan_manifests")
        found: tuple[EngineRequest, ...] = manifests.requests(plan, self._options, task)
        return found

    def secrets_dir(self, run: Run) -> str:
        return str(run.path / "cluster")

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        raise CannotRun("a job of the kubernetes engine runs in its driver, which is started there")

    def submit(self, run: Run, plan: Plan) -> None:
        importlib.import_module("kedge.engines.kubernetes.submission").submit(run, plan, self._options)

    def stop(self, run: Run, kill: bool) -> tuple[str, ...]:
        for_user: tuple[str, ...] = _requests().stop(run, kill)
        return for_user

    def forward(self, run: Run, number: int) -> None:
        _requests().forward(run, number)

    def suspended(self, run: Run) -> int | None:
        return None

    def exec(self, run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
        code: int = importlib.import_module("kedge.engines.kubernetes.access.exec").run(run, attempt, request)
        return code

    def forget(self, run: Run) -> None:
        _requests().forget(run)


def _requests() -> Any:
    """Loaded late: most commands ask nothing of a running job."""
    return importlib.import_module("kedge.engines.kubernetes.access.requests")


def _setup(namespace: str) -> str:
    """The command that prints what the namespace needs."""
    return shlex.join(["kedge", "kubernetes", "setup", "--namespace", namespace])
