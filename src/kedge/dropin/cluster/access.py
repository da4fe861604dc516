"""Where the API server is and how to be let in, as the init phase of OpenPAI decides it: a kubeconfig file, an address,
or the pod's service account."""

from __future__ import annotations

import os

from kedge import user_files
from kedge.dropin.cluster.credentials import Credentials
from kedge.dropin.net.http_connections import Tls
from kedge.light.types import Mapping, NamedTuple

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_LARGEST_FILE = 4 << 20  # bytes


class CannotReachCluster(Exception):
    """There is no API server, or a file about it cannot be used."""


class ApiServer(NamedTuple):
    """`url` has no slash at its end. `environment` has the variables for proxies."""

    url: str
    tls: Tls
    credentials: Credentials
    environment: Mapping[str, str]


def find(environment: Mapping[str, str], service_account: str = SERVICE_ACCOUNT) -> ApiServer:
    """The API server. A kubeconfig file comes first; a pod with a service account ignores KUBE_APISERVER_ADDRESS.
    CannotReachCluster."""
    token = f"{service_account}/token"
    address = None if os.path.exists(token) else environment.get("KUBE_APISERVER_ADDRESS") or None
    if file := kubeconfig_file(environment):
        from kedge.dropin.cluster import kubeconfig

        return kubeconfig.api_server(file, address, environment)
    if address:
        return ApiServer(with_scheme(address), Tls(), Credentials(), environment)
    return _own_cluster(environment, service_account)


def kubeconfig_file(environment: Mapping[str, str]) -> str | None:
    """The kubeconfig file: the first of $KUBECONFIG that exists, or ~/.kube/config if it exists."""
    if named := [file for file in environment.get("KUBECONFIG", "").split(":") if file]:
        return next((file for file in named if os.path.exists(file)), named[0])
    usual = f"{environment.get('HOME') or '/root'}/.kube/config"
    return usual if os.path.exists(usual) else None


def with_scheme(address: str) -> str:
    """An address with its scheme, which is http without one, as for kubectl."""
    return (address if "://" in address else f"http://{address}").rstrip("/")


def read(path: str) -> bytes:
    """A file that belongs to the access. CannotReachCluster."""
    try:
        return user_files.read(path, _LARGEST_FILE)
    except (OSError, ValueError) as error:
        raise CannotReachCluster(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _own_cluster(environment: Mapping[str, str], folder: str) -> ApiServer:
    """The API server of the cluster that this pod runs in."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    if not host or not port:
        raise CannotReachCluster(
            "no API server is known: set KUBE_APISERVER_ADDRESS or KUBECONFIG, or run in a pod with a service account"
        )
    if not os.path.exists(f"{folder}/token"):
        raise CannotReachCluster(
            f"{folder}/token does not exist: set serviceAccountName of the pod, and do not set "
            "automountServiceAccountToken to false"
        )
    authorities = read(f"{folder}/ca.crt") if os.path.exists(f"{folder}/ca.crt") else None
    url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return ApiServer(url, Tls(ca=authorities), Credentials(token_file=f"{folder}/token"), environment)
