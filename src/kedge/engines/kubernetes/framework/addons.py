"""What stands beside a Framework: secrets, and the priority class that keeps the order of submission."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kedge.contract import render_text
from kedge.engines.kubernetes.framework.site import FrameworkSite
from kedge.plan.model import Plan

MINIMAL_PRIORITY = "pai-job-minimal-priority"  # made by whoever installs OpenPAI
_PERIOD_MS = 16_000
_TIMES = 1 << 24
_HIGHEST = 126
_DOCKER_HUB = "https://index.docker.io/v1/"


class AddonNames(NamedTuple):
    """The names of the objects beside the Framework of this name. `has_secrets`: the job has some. `own_priority`: it
    has a priority class of its own, which takes the right to make them, as they belong to the whole cluster.
    `usual_priority`: the class of a job without one of its own; empty for none."""

    framework: str
    has_secrets: bool = False
    own_priority: bool = True
    usual_priority: str = MINIMAL_PRIORITY

    @property
    def job_secret(self) -> str:
        return f"{self.framework}-configcred"

    @property
    def registry_secret(self) -> str:
        return f"{self.framework}-regcred"

    @property
    def priority_class(self) -> str:
        return f"{self.framework}-priority" if self.own_priority else self.usual_priority


def names(plan: Plan, *, has_secrets: bool, own_priority: bool = True) -> AddonNames:
    """The names for a plan."""
    return AddonNames(plan.environment["FC_FRAMEWORK_NAME"], has_secrets, own_priority)


def job_secret(found: AddonNames, document: str, site: FrameworkSite) -> dict[str, Any]:
    """The secret with the values of the job's secrets; `document` is YAML."""
    return _secret(found.job_secret, {"secrets.yaml": document.encode()}, site)


def registry_secret(
    found: AddonNames, plan: Plan, secrets: Mapping[str, str], site: FrameworkSite
) -> dict[str, Any] | None:
    """The secret with which nodes pull the job's images; None if no image needs one. Of two images from one registry
    the later one counts. KeyError names a secret that is missing."""
    auths = {}
    for role in plan.roles:
        if role.auth:
            value = {key: render_text(text, secrets) for key, text in role.auth.items()}
            pair = f"{value.get('username', '')}:{value.get('password', '')}"
            auths[value.get("registryuri") or _DOCKER_HUB] = {"auth": base64.b64encode(pair.encode()).decode()}
    if not auths:
        return None
    secret = _secret(found.registry_secret, {".dockerconfigjson": json.dumps({"auths": auths}).encode()}, site)
    return {**secret, "type": "kubernetes.io/dockerconfigjson"}


def priority_class(found: AddonNames, submitted_ms: int, priority: int = 0) -> dict[str, Any]:
    """The priority class of a job that was submitted so many milliseconds after 1970; `priority` is -1 to 126. Of two
    jobs with one priority the earlier one goes first, to 16 seconds."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": found.priority_class},
        "value": priority_value(submitted_ms, priority),
        "preemptionPolicy": "PreemptLowerPriority",
        "globalDefault": False,
    }


def priority_value(submitted_ms: int, priority: int = 0) -> int:
    """The value of that class. The time counts in whole seconds."""
    level = _HIGHEST - min(max(priority, -1), _HIGHEST)
    periods = submitted_ms // 1000 * 1000 // _PERIOD_MS % _TIMES
    return -((level << 24) + periods)


def _secret(name: str, data: Mapping[str, bytes], site: FrameworkSite) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": site.namespace},
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
