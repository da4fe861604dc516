"""The certificates of a test cluster and of its users, and the kubeconfig files that name them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .addresses import NODES, Addresses

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS = ("-days", "30")
CLIENTS = {
    "admin": "/O=system:masters/CN=admin",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    **{node: f"/O=system:nodes/CN=system:node:{node}" for node in NODES},
}


def make(folder: Path, addresses: Addresses) -> None:
    """An authority, what the API server needs, and a kubeconfig of each client."""
    _openssl("req", "-x509", *_KEY, *_DAYS, "-subj", "/CN=ca", "-keyout", folder / "ca.key", "-out", folder / "ca.crt")
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    alternatives = ",".join([f"IP:{addresses.server}", "IP:127.0.0.1", *(f"DNS:{name}" for name in names)])
    sign(folder, "apiserver", "/CN=kube-apiserver", alternatives)
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", folder / "accounts.key")
    _openssl("pkey", "-in", folder / "accounts.key", "-pubout", "-out", folder / "accounts.pub")
    for name, subject in CLIENTS.items():
        sign(folder, name, subject)
        write_kubeconfig(folder / f"{name}.kubeconfig", folder, name, addresses)


def sign(folder: Path, name: str, subject: str, alternatives: str = "DNS:client") -> None:
    """A certificate NAME.crt for a new key NAME.key."""
    authority = ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key")
    # The authority's own extensions are not meant for what it signs.
    extensions = ("-addext", f"subjectAltName={alternatives}", "-addext", "basicConstraints=critical,CA:false")
    files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")
    _openssl("req", "-x509", *authority, *_KEY, *_DAYS, "-subj", subject, *extensions, *files)


def write_kubeconfig(file: Path, folder: Path, name: str, addresses: Addresses, namespace: str = "default") -> None:
    """A kubeconfig of the owner of a certificate."""
    cluster = {"server": f"https://{addresses.server}", "certificate-authority": str(folder / "ca.crt")}
    user = {"client-certificate": str(folder / f"{name}.crt"), "client-key": str(folder / f"{name}.key")}
    context = {"cluster": "test", "user": name, "namespace": namespace}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }
    file.write_text(json.dumps(content, indent=1))  # JSON is YAML
    file.chmod(0o600)


def _openssl(*args: object) -> None:
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {args}: {done.stderr}"
