"""Frameworks on a cluster: their definition, the rights of a namespace, and FrameworkController's part in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kedge.engines.kubernetes import setup
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.testing.framework_controller import FrameworkController
from kedge.testing.wait import wait_until

from .cluster import DEADLINE
from .namespaces import ACCOUNT, Namespace

POD_ACCOUNT = "runtime-account"
_GROUP = "frameworkcontroller.microsoft.com"
# The shape of the real one: names as it allows them, and everything else as it comes.
_SCHEMA = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "required": ["executionType", "retryPolicy", "taskRoles"],
            "properties": {
                "executionType": {"type": "string", "enum": ["Create", "Start", "Stop"]},
                "taskRoles": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "required": ["name", "taskNumber", "task"],
                        "properties": {
                            "name": {"type": "string", "pattern": "^[a-z0-9]{1,63}$"},
                            "taskNumber": {"type": "integer", "minimum": 0, "maximum": 10000},
                        },
                    },
                },
            },
        }
    },
}
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"frameworks.{_GROUP}"},
    "spec": {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {"plural": "frameworks", "singular": "framework", "kind": "Framework", "listKind": "FrameworkList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}],
    },
}


def prepare(namespace: Namespace) -> None:
    """What the administrators of a cluster and of a namespace do once."""
    cluster = namespace.cluster
    cluster.apply(_DEFINITION)
    wait_until(lambda: "True" in _established(namespace), DEADLINE, "the kind Framework")
    users = [f"user-{namespace.name}"]
    namespace.kubectl(
        "apply", "--filename=-",
        given=setup.manifests(namespace.name, ACCOUNT, users, (), None, None, frameworks=POD_ACCOUNT),
    )  # fmt: skip
    wait_until(lambda: namespace.get("serviceaccount", POD_ACCOUNT).get("secrets"), DEADLINE, "the token of the pods")


@contextmanager
def controller(namespace: Namespace) -> Iterator[None]:
    """FrameworkController runs in one namespace."""
    api = KubernetesApi.connect(str(namespace.cluster.kubeconfig), None, namespace.name)
    played = FrameworkController(api)
    played.run()
    try:
        yield
    finally:
        played.close()
        api.close()


def _established(namespace: Namespace) -> str:
    path = "jsonpath={.status.conditions[?(@.type=='Established')].status}"
    return namespace.kubectl("get", "crd", _DEFINITION["metadata"]["name"], f"--output={path}", check=False)  # type: ignore[index]
