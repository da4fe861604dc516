"""Volumes of a namespace: what all its nodes share, and what jobs keep there."""

from __future__ import annotations

from .namespaces import Namespace


def test_pods_of_both_nodes_share_a_claim(namespace: Namespace) -> None:
    folder = namespace.claim("shared")
    claim = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
    container = {"name": "app", "image": "localhost/kedge/busybox:1"}
    for node in ("node1", "node2"):
        script = f"id -u > /shared/{node}"
        mounts = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
        command = {"command": ["sh", "-c", script], "securityContext": {"runAsUser": 1234}}
        namespace.run(f"on-{node}", "", nodeName=node, volumes=[claim], containers=[{**container, **command, **mounts}])
    for node in ("node1", "node2"):
        namespace.wait_for_phase(f"on-{node}", "Succeeded")
        assert (folder / node).read_text() == "1234\n"
