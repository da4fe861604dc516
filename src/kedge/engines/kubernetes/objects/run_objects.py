"""The objects of a run besides its pods: the anchor that owns all others, the Service, Secrets and ConfigMaps."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence

from kedge.engines.kubernetes.objects import labels, pod_paths
from kedge.engines.kubernetes.objects.labels import ObjectOwner, metadata
from kedge.engines.kubernetes.objects.names import RunNames, token_key
from kedge.errors import CannotRun
from kedge.light.types import Any
from kedge.plan.model import Plan

LARGEST = 1 << 20  # bytes of all values of a ConfigMap or Secret: a rule of the API server
PLAN_KEY = "plan.json"
ADDRESS_KEY = pod_paths.ADDRESS_FILE.rpartition("/")[2]
SEED_KEY = pod_paths.SEED.rpartition("/")[2]
_LARGEST_PLAN = LARGEST - (64 << 10)  # the decoded values; keys and annotations count elsewhere


def anchor(owner: ObjectOwner, plan: Plan) -> dict[str, Any]:
    """The ConfigMap that owns all other objects of a run, with its masked plan: compressed if it is large, and left out
    if it does not fit even then. `owner.uid` is empty: the API server gives it one."""
    text = json.dumps(plan.to_json(), indent=1)
    made = _config_map(owner, RunNames(owner.name).anchor, labels.ANCHOR)
    if len(text.encode()) <= _LARGEST_PLAN:
        return made | {"data": {PLAN_KEY: text}}
    packed = gzip.compress(text.encode(), mtime=0)
    return made | ({"binaryData": {f"{PLAN_KEY}.gz": encoded(packed)}} if len(packed) <= _LARGEST_PLAN else {})


def service(owner: ObjectOwner) -> dict[str, Any]:
    """The headless Service that gives the pods their names in DNS, before they are ready, too."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, RunNames(owner.name).service, labels.SERVICE),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels.of_run(owner.name),
        },
    }


def driver_secret(owner: ObjectOwner, seed: bytes) -> dict[str, Any]:
    """The Secret of the driver: `seed` is a tar.gz of what it needs in its run folder. CannotRun: it is too large."""
    if len(seed) > LARGEST:
        raise CannotRun(
            f"the plan of this job, its rules and secrets are {len(seed) / LARGEST:.1f} MiB compressed, and a Secret "
            "of Kubernetes holds 1 MiB: make the commands or the secrets of the job shorter, for example by moving "
            "them into files beside the job"
        )
    return _secret(owner, RunNames(owner.name).driver_secret, labels.DRIVER, {SEED_KEY: encoded(seed)})


def address(owner: ObjectOwner, content: Mapping[str, Any]) -> dict[str, Any]:
    """The ConfigMap with the driver's address, which all agents mount and a new driver changes."""
    made = _config_map(owner, RunNames(owner.name).address, labels.ADDRESS)
    return made | {"data": {ADDRESS_KEY: json.dumps(content)}}


def tokens_secret(owner: ObjectOwner, job_attempt: int, tokens: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The Secret with one token for each task of a job attempt: `tokens` has one for each index of every role. The
    token of a later task attempt takes the place of that before."""
    data = {
        token_key(role, index): encoded(token.encode())
        for role, of_role in tokens.items()
        for index, token in enumerate(of_role)
    }
    return _secret(owner, RunNames(owner.name).tokens(job_attempt), labels.TOKENS, data)


def encoded(data: bytes) -> str:
    """Data as it stands in Secrets and in `binaryData`."""
    return base64.b64encode(data).decode()


def _config_map(owner: ObjectOwner, name: str, component: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(owner, name, component)}


def _secret(owner: ObjectOwner, name: str, component: str, data: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(owner, name, component),
        "type": "Opaque",
        "data": dict(data),
    }
