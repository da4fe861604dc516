"""The options of etcd, the API server, the controller manager and the scheduler of a test cluster."""

from __future__ import annotations

from pathlib import Path

from .addresses import Addresses
from .programs import minor

GRACE_SEC = 20  # until a node that is not heard of is called unreachable; much less is too little for a busy machine
TOLERATION_SEC = 5  # until the pods of such a node are deleted


def etcd(folder: Path, addresses: Addresses) -> list[str]:
    """etcd, which need not survive the machine."""
    url = f"http://{addresses.server}"
    return [
        "etcd", f"--data-dir={folder}/etcd", "--unsafe-no-fsync",
        f"--listen-client-urls={url}:2379", f"--advertise-client-urls={url}:2379", f"--listen-peer-urls={url}:2380",
    ]  # fmt: skip


def api_server(folder: Path, addresses: Addresses) -> list[str]:
    """The API server, which asks kubelets as admin. What deletes the pods of lost nodes does so soon."""
    certificates = folder / "certificates"
    return [
        "kube-apiserver", f"--etcd-servers=http://{addresses.server}:2379",
        f"--bind-address={addresses.server}", f"--advertise-address={addresses.server}", "--secure-port=443",
        f"--service-cluster-ip-range={addresses.services}", "--endpoint-reconciler-type=none",
        f"--client-ca-file={certificates}/ca.crt",
        f"--tls-cert-file={certificates}/apiserver.crt", f"--tls-private-key-file={certificates}/apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates}/accounts.pub",
        f"--service-account-signing-key-file={certificates}/accounts.key",
        f"--kubelet-client-certificate={certificates}/admin.crt", f"--kubelet-client-key={certificates}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC", "--allow-privileged=true",
        f"--default-not-ready-toleration-seconds={TOLERATION_SEC}",
        f"--default-unreachable-toleration-seconds={TOLERATION_SEC}",
    ]  # fmt: skip


def controller_manager(folder: Path, addresses: Addresses) -> list[str]:
    """The controller manager, which notices soon that a node is lost."""
    certificates = folder / "certificates"
    return [
        "kube-controller-manager", *_common(folder, addresses, "kube-controller-manager"),
        f"--service-account-private-key-file={certificates}/accounts.key", f"--root-ca-file={certificates}/ca.crt",
        "--use-service-account-credentials", "--node-monitor-period=1s", f"--node-monitor-grace-period={GRACE_SEC}s",
        # More is asked for in a second than a usual cluster of two nodes would need.
        "--kube-api-qps=200", "--kube-api-burst=400",
    ]  # fmt: skip


def scheduler(folder: Path, addresses: Addresses) -> list[str]:
    """The scheduler."""
    return ["kube-scheduler", *_common(folder, addresses, "kube-scheduler")]


def _common(folder: Path, addresses: Addresses, name: str) -> list[str]:
    kubeconfig = folder / "certificates" / f"{name}.kubeconfig"
    options = [f"--{kind}kubeconfig={kubeconfig}" for kind in ("", "authentication-", "authorization-")]
    insecure = ["--port=0"] if minor() < 23 else []
    return [*options, *insecure, "--leader-elect=false", f"--bind-address={addresses.server}"]
