"""Where the Framework of a run is (RUN/cluster/job.json), and what the owner of the run may do with it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kedge.engines.kubernetes.access.submitted import SubmittedJob
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.framework.addons import AddonNames

ENGINE = "framework"  # in job.json, and in the registries of kedge.lazy_modules
POD_LABEL = "FC_FRAMEWORK_NAME"  # which FrameworkController gives all pods


class SubmittedFramework(SubmittedJob):
    """A run that FrameworkController controls."""

    engine = ENGINE

    def framework(self) -> dict[str, Any] | None:
        """The Framework, see `owner`."""
        return self.owner("Framework", self.name)

    def pods(self) -> list[dict[str, Any]]:
        """The pods that it has now."""
        return self.api.list("Pod", {POD_LABEL: self.name})[0]

    def stop(self) -> None:
        """Ask FrameworkController to stop it, which takes its pods away with their grace."""
        self.api.patch("Framework", self.name, {"spec": {"executionType": "Stop"}})

    def delete(self) -> None:
        """Delete it with all that belongs to it. CannotRun."""
        self.api.delete("Framework", self.name, uid=self.uid or None)
        remove_addons(self.api, self.name, priority=bool(self.facts.get("priority")))


def remove_addons(api: KubernetesApi, name: str, *, priority: bool) -> None:
    """Delete the secrets beside a Framework and its priority class, if there are any. What may not be deleted stays."""
    names = AddonNames(name)
    for secret in (names.job_secret, names.registry_secret):
        with suppress(ApiError):
            api.delete("Secret", secret)
    if priority:
        with suppress(ApiError):
            api.delete("PriorityClass", names.priority_class)
