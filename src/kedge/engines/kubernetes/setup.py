"""What an administrator of a namespace applies once, so that users can run jobs there."""

from __future__ import annotations

from collections.abc import Sequence

from kedge.engines.kubernetes import manifest_text, permissions
from kedge.engines.kubernetes.transport import kubeconfig
from kedge.engines.kubernetes.transport.endpoint import NotConfigured


def manifests(
    namespace: str | None, account: str, users: Sequence[str], groups: Sequence[str], kubeconfig_file: str | None,
    context: str | None, *, queues: bool = False, network: bool = False, frameworks: str | None = None,
    priorities: bool = False,
) -> str:  # fmt: skip
    """The YAML for `kubectl apply -f -`: the driver's ServiceAccount, Role and RoleBinding, and for users and groups
    the Role of those who submit jobs. `queues` and `network`: with what they need for Kueue, and for network policies.
    `frameworks` names the account of the pods of Frameworks, if there shall be any; `priorities`: each has a priority
    class. Without a namespace, the one of the kubeconfig file's context. InputError."""
    named = namespace or _current(kubeconfig_file, context)
    objects = permissions.driver_objects(named, account, queues=queues)
    objects += permissions.framework_objects(named, frameworks) if frameworks else []
    if users or groups:
        objects += permissions.user_objects(
            named, users, groups, queues=queues, network=network, frameworks=bool(frameworks)
        )
        objects += permissions.priority_objects(named, users, groups) if frameworks and priorities else []
    return "".join(map(manifest_text.text, objects))


def _current(kubeconfig_file: str | None, context: str | None) -> str:
    try:
        return kubeconfig.endpoint(kubeconfig_file, context).endpoint.namespace
    except NotConfigured as error:
        raise NotConfigured(f"name the namespace with --namespace: {error}") from None
