"""The objects of a run's tasks, as its driver makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.engines.base import Task, TaskAttempt
from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.in_driver import leaving
from kedge.engines.kubernetes.in_driver.attempt_pod import PodKey
from kedge.engines.kubernetes.in_driver.driver_pod import DriverPod
from kedge.engines.kubernetes.in_driver.outputs_volume import OutputsVolume
from kedge.engines.kubernetes.objects import labels, run_objects
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.plan.model import Plan

OUTPUTS = 100 << 20  # bytes that travel by the link, for each task


class RunPodPlans:
    """It is a PodPlans. The folder that all tasks share begins as a copy of that of the run whose objects are called
    `old`, if one is; `left_out` are the paths of what was not copied. CannotRun."""

    def __init__(self, plan: Plan, options: KubernetesOptions, place: PodPlace, old: str = "") -> None:
        self._plan, self._options, self._place = plan, options, place
        self._volume = OutputsVolume(place.owner.name, options.outputs_volume) if options.outputs_volume else None
        self.left_out = self._volume.prepare(old) if self._volume else ()

    def name(self, key: PodKey) -> str:
        """The name of the pod of a task attempt."""
        return RunNames(self._place.owner.name).pod(key.attempt, *key.task, key.task_attempt)

    def pod(self, key: PodKey) -> dict[str, Any]:
        """The pod of a task attempt, whose folders on the site's volume are there. CannotRun."""
        if self._volume:
            self._volume.make(TaskAttempt(key.task, key.attempt, key.task_attempt))
        return task_pod(self._plan, key.task, key.attempt, key.task_attempt, self._options, self._place)

    def secret(self, attempt: int, tokens: Mapping[Task, str]) -> dict[str, Any]:
        """The Secret with the tokens of a job attempt."""
        roles = {role.name: [tokens[Task(role.name, n)] for n in range(role.instances)] for role in self._plan.roles}
        return run_objects.tokens_secret(self._place.owner, attempt, roles)


def place_of(here: DriverPod, plan: Plan, options: KubernetesOptions, port: int, certificate: str) -> PodPlace:
    """What all pods of tasks have in common. Their runtime's image is that of this pod."""
    image, pieces = _asked(here)
    names = here.names
    return PodPlace(
        owner=here.owner,
        image=image,
        addresses=(here.ip, f"driver.{names.service}.{here.api.namespace}.svc"),
        port=port,
        certificate=certificate,
        mirrored=0 if options.outputs_volume else OUTPUTS,
        code_pieces=pieces,
        code_on_volume=bool(options.code_volume and not pieces and any(role.code for role in plan.roles)),
    )


def _asked(here: DriverPod) -> tuple[str, int]:
    """The image of this pod, and the number of pieces of the job's code."""
    while True:
        here.lease.check()
        try:
            pod = here.api.get("Pod", here.pod) or {}
            pieces, _ = here.api.list("ConfigMap", labels.of_component(here.owner.name, labels.CODE))
            return str(pod["spec"]["containers"][0]["image"]), len(pieces)
        except ApiError as error:
            leaving.wait_for_api(error)
