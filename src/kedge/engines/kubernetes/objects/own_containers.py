"""What kedge's own containers have in common: they comply with the level *restricted* of the Pod Security Standards."""

from __future__ import annotations

from kedge.engines.kubernetes.objects.quantities import cpu, memory
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.light.types import Any, Mapping, Sequence

USER = 65532  # usual for images without a root user; the runtime's image has no users of its own


def own_container(
    name: str, image: str, command: Sequence[str], options: KubernetesOptions, resources: Mapping[str, Any]
) -> dict[str, Any]:
    """A container of the runtime's image. Its variables and volumes are to be added."""
    pull = {"imagePullPolicy": options.image_pull_policy} if options.image_pull_policy else {}
    return {
        "name": name,
        "image": image,
        **pull,
        "command": [literal(part) for part in command],
        "resources": dict(resources),
        "securityContext": security(options),
    }


def security(options: KubernetesOptions) -> dict[str, Any]:
    """The security context of a container of kedge's own."""
    return {
        "runAsNonRoot": True,
        "runAsUser": own_user(options),
        "runAsGroup": own_group(options),
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def own_user(options: KubernetesOptions) -> int:
    return USER if options.run_as_user is None else options.run_as_user


def own_group(options: KubernetesOptions) -> int:
    return USER if options.run_as_group is None else options.run_as_group


def fixed(cpus: float, memory_mb: int, devices: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Resources whose requests are their limits, so that a pod gets them for sure and is the last to be evicted."""
    amounts: dict[str, Any] = {
        "cpu": cpu(cpus),
        "memory": memory(memory_mb),
        **{k: str(n) for k, n in (devices or {}).items()},
    }
    return {"requests": amounts, "limits": dict(amounts)}


def literal(text: str) -> str:
    """A text for a command or a variable, in which Kubernetes would replace `$(NAME)`."""
    return text.replace("$(", "$$(")


def field(path: str) -> dict[str, Any]:
    """The value of a variable that the kubelet takes from the pod."""
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
