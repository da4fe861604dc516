"""Who may reach the pods of a run, in namespaces that deny traffic by default. What other policies allow stays allowed,
but a policy for a direction denies what no policy allows: a site says which directions it wants."""

from __future__ import annotations

from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.labels import ObjectOwner, metadata
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.options import BOTH, KubernetesOptions
from kedge.light.types import Any, Mapping

_API_PORTS = (443, 6443)  # of the Service of the API server, and of the server itself: policies see either
_DNS_PORT = 53


def network_policies(owner: ObjectOwner, options: KubernetesOptions) -> list[dict[str, Any]]:
    """The policies that the site wants for a run: one for all its pods, and with `both` one for its driver. The port of
    the driver is not named, since each driver takes another one."""
    if not options.network_policy:
        return []
    name, selector = RunNames(owner.name).network, labels.of_run(owner.name)
    peers = {"podSelector": {"matchLabels": selector}}
    spec: dict[str, Any] = {"podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"],
                            "ingress": [{"from": [peers]}]}  # fmt: skip
    if options.network_policy != BOTH:
        return [_policy(owner, name, spec)]
    dns = {"ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")]}
    spec |= {"policyTypes": ["Ingress", "Egress"], "egress": [{"to": [peers]}, dns]}
    return [_policy(owner, name, spec), _policy(owner, f"{name}-driver", _of_driver(owner))]


def _of_driver(owner: ObjectOwner) -> dict[str, Any]:
    """It may reach the API server."""
    return {
        "podSelector": {"matchLabels": labels.of_component(owner.name, labels.DRIVER)},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [{"protocol": "TCP", "port": port} for port in _API_PORTS]}],
    }


def _policy(owner: ObjectOwner, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(owner, name, labels.NETWORK),
        "spec": spec,
    }
