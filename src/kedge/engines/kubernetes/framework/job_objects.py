"""All objects of a job that FrameworkController runs: what stands beside the Framework, and the Framework."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from kedge.engines.kubernetes import manifest_text
from kedge.engines.kubernetes.framework import addons, hived, render, site_options
from kedge.engines.kubernetes.framework.addons import AddonNames
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets

FRAMEWORK = "framework"  # the component, in labels


class FrameworkOrder(NamedTuple):
    """What the objects are made of: `config` is the job's text with its secrets masked, `extras` are those in it."""

    plan: Plan
    options: KubernetesOptions
    namespace: str
    name: str
    run_id: str
    config: str
    extras: Mapping[str, Any]
    secrets: Secrets
    submitted_ms: int


class FrameworkObjects(NamedTuple):
    """The Framework, and what is made before it."""

    addons: tuple[dict[str, Any], ...]
    framework: dict[str, Any]


def name_of(user: str, run_id: str) -> str:
    """The name of the Framework of a run, in the form of OpenPAI's. A job may run many times, so it is the run's."""
    return hashlib.md5(f"{user}~{run_id}".encode(), usedforsecurity=False).hexdigest()


def made(order: FrameworkOrder) -> FrameworkObjects:
    """All of them. CannotRun: the job is too large."""
    plan, options = order.plan, order.options
    site = site_options.site(options, order.namespace)
    names = AddonNames(
        order.name, bool(order.secrets.document), options.framework_priorities, options.priority_class or ""
    )
    found = []
    if names.has_secrets:
        document = manifest_text.text(order.secrets.document).removeprefix("---\n")
        found.append(addons.job_secret(names, document, site))
    if registry := addons.registry_secret(names, plan, order.secrets.texts, site):
        found.append(registry)
    if options.framework_priorities:
        level = hived.priority(order.extras) if options.hived else 0
        found.append(addons.priority_class(names, order.submitted_ms, level))
    framework = render.framework(plan, order.config, site, names, order.extras)
    return FrameworkObjects(tuple(_marked(each, order) for each in found), _marked(framework, order))


def _marked(obj: dict[str, Any], order: FrameworkOrder) -> dict[str, Any]:
    """The object with the labels and annotations by which kedge finds it again."""
    head = obj["metadata"]
    texts = {labels.RUN_ID: order.run_id, labels.USER: order.plan.user, labels.JOB: order.plan.job}
    own = labels.of_component(order.name, FRAMEWORK)
    marks = {"labels": {**head.get("labels", {}), **own}, "annotations": {**head.get("annotations", {}), **texts}}
    return {**obj, "metadata": {**head, **marks}}
