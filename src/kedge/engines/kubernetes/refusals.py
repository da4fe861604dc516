"""Why the API server refuses an object of a run, and what to do about it."""

from __future__ import annotations

import re

from kedge.engines.kubernetes.api import ApiError, KubernetesApi

_QUOTA = re.compile(r"exceeded quota: ([^,]+), (.*)")
_WEBHOOK = re.compile(r'admission webhook "([^"]+)" denied the request:? ?(.*)')
_POD_SECURITY = re.compile(r'violates PodSecurity "([^"]+)": (.*)')
_LIMIT_RANGE = re.compile(r"(?:maximum|minimum) \S+ usage per \S+ is .*")


def explained(error: ApiError, kind: str, api: KubernetesApi) -> str:
    """The refusal of an object of this kind, in words."""
    where = f"the namespace {api.namespace} of {api.server}"
    said = error.server_message
    if match := _QUOTA.search(said):
        name, numbers = match.groups()
        return (
            f"the quota {name} of {where} is used up ({numbers}): wait for other jobs, remove old runs with kedge rm, "
            "or ask its administrator for more"
        )
    if match := _WEBHOOK.search(said):
        name, why = match.groups()
        return f"{where} does not take the job's {kind}: its admission webhook {name} says: {why or 'nothing'}"
    if match := _POD_SECURITY.search(said):
        level, why = match.groups()
        return (
            f"{where} enforces the Pod Security standard {level}, which the job's {kind} does not fulfil: {why}. Set "
            "engines.kubernetes.restricted in the site's file, or remove what is too much from its pod-patch"
        )
    if match := _LIMIT_RANGE.search(said):
        return f"{where} limits what a pod may ask for: {match[0]}. Ask for less in resourcePerInstance"
    if "being terminated" in said:
        return f"{where} is being deleted: use another one with --kubernetes namespace=NAME"
    if error.status == 404 and "namespaces" in said:
        return (
            f"{api.server} has no namespace {api.namespace!r}: name another one with --kubernetes namespace=NAME, or "
            f"make it with kubectl create namespace {api.namespace}"
        )
    if error.status == 413 or "too large" in said or "Too long" in said:
        return f"the job's {kind} is too large for {api.server}: {said}"
    if error.status == 422:
        fields = "; ".join(f"{field}: {why}" for field, why in error.causes) or said
        return f"{where} does not take the job's {kind}: {fields}. If the site's pod-patch sets that, correct it"
    return str(error)
