"""The Pod Security Standards as a check of a pod's spec: what a namespace enforces that has these labels.

https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret", "image",
}  # fmt: skip
SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
}  # fmt: skip
SELINUX_TYPES = {None, "", "container_t", "container_init_t", "container_kvm_t"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*spec.get("initContainers", ()), *spec["containers"]]


def baseline(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Iterator[str]:
    """What violates the standard *baseline*."""
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    yield from (f"volume {volume['name']}: hostPath" for volume in spec["volumes"] if "hostPath" in volume)
    for key, value in annotations.items():
        if key.startswith(APPARMOR) and value != "runtime/default" and not value.startswith("localhost/"):
            yield f"annotation {key}"
    of_pod = spec.get("securityContext", {})
    yield from (f"sysctl {each['name']}" for each in of_pod.get("sysctls", ()) if each["name"] not in SAFE_SYSCTLS)
    yield from _confined("pod", of_pod)
    for container in containers(spec):
        context, name = container.get("securityContext", {}), container["name"]
        yield from _confined(name, context)
        yield from (f"{name}: {key}" for key in ("privileged",) if context.get(key))
        added = set(context.get("capabilities", {}).get("add", ()))
        yield from (f"{name}: adds {each}" for each in added - BASELINE_CAPABILITIES)
        yield from (f"{name}: host port" for port in container.get("ports", ()) if port.get("hostPort"))
        yield from (f"{name}: procMount" for each in [context.get("procMount")] if each not in (None, "Default"))


def _confined(name: str, context: Mapping[str, Any]) -> Iterator[str]:
    if context.get("seccompProfile", {}).get("type") == "Unconfined":
        yield f"{name}: seccomp"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield f"{name}: SELinux"


def restricted(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Iterator[str]:
    """What violates the standard *restricted*."""
    yield from baseline(spec, annotations)
    for volume in spec["volumes"]:
        if not volume.keys() - {"name"} <= RESTRICTED_VOLUMES:
            yield f"volume {volume['name']}"
    of_pod = spec.get("securityContext", {})
    if of_pod.get("runAsUser") == 0:
        yield "pod: root"
    for container in containers(spec):
        context, name = container.get("securityContext", {}), container["name"]
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: privilege escalation"
        if context.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
            yield f"{name}: perhaps root"
        if context.get("runAsUser") == 0:
            yield f"{name}: root"
        profile = context.get("seccompProfile") or of_pod.get("seccompProfile") or {}
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: no seccomp profile"
        capabilities = context.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()):
            yield f"{name}: does not drop all capabilities"
        yield from (f"{name}: adds {each}" for each in set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"})
