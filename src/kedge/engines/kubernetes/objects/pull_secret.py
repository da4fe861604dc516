"""The Secret with which nodes pull the images of a job whose `auth` names a password."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from kedge.contract import render_text, show_text
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.labels import ObjectOwner, metadata
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.objects.run_objects import encoded
from kedge.light.types import Any
from kedge.plan.model import Plan, RolePlan

TYPE = "kubernetes.io/dockerconfigjson"
KEY = ".dockerconfigjson"
DOCKER_HUB = "https://index.docker.io/v1/"


def is_needed(plan: Plan) -> bool:
    """Whether an image of the job has `auth`."""
    return any(role.auth for role in plan.roles)


def registries(plan: Plan) -> tuple[str, ...]:
    """The registries whose passwords it holds, as the job file names them."""
    named = (show_text(role.auth.get("registryuri", ())) or DOCKER_HUB for role in plan.roles if role.auth)
    return tuple(dict.fromkeys(named))


def pull_secret(owner: ObjectOwner, plan: Plan, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The Secret with the passwords of all images with `auth`; of two for the same registry the last counts. `secrets`
    are the values of the job's secrets by their keys."""
    logins = (_login(role, secrets) for role in plan.roles if role.auth)
    return of_logins(owner, dict(logins))


def of_logins(owner: ObjectOwner, logins: Mapping[str, str]) -> dict[str, Any]:
    """The Secret with these logins by registry, each as it stands in a configuration of Docker."""
    auths = {registry: {"auth": login} for registry, login in logins.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(owner, RunNames(owner.name).pull_secret, labels.PULL),
        "type": TYPE,
        "data": {KEY: encoded(json.dumps({"auths": auths}).encode())},
    }


def _login(role: RolePlan, secrets: Mapping[str, str]) -> tuple[str, str]:
    """The registry of a role's image, and its login."""
    values = {key: render_text(text, secrets) for key, text in (role.auth or {}).items()}
    login = f"{values.get('username', '')}:{values.get('password', '')}"
    return values.get("registryuri") or DOCKER_HUB, base64.b64encode(login.encode()).decode()
