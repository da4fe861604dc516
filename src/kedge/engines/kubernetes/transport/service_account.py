"""The endpoint inside a pod, as its service account."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kedge.engines.kubernetes.transport.endpoint import KeptToken, NotConfigured, ServerEndpoint

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


def endpoint(environment: Mapping[str, str] = os.environ, folder: str = FOLDER) -> ServerEndpoint:
    """The API server of the cluster in which this process runs. NotConfigured: it runs in none."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NotConfigured("this process runs in no pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set")
    return ServerEndpoint(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=_content(os.path.join(folder, "namespace")).decode().strip(),
        proof=KeptToken(os.path.join(folder, "token")),
        ca=_content(os.path.join(folder, "ca.crt")),
        source=folder,
    )


def is_here(environment: Mapping[str, str] = os.environ, folder: str = FOLDER) -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and os.path.exists(os.path.join(folder, "token"))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise NotConfigured(f"{path}: {error.strerror}; the pod's service account has no token here") from None
