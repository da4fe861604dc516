"""The addresses of a test cluster. Several clusters on one machine differ in a number, their slot."""

from __future__ import annotations

from typing import NamedTuple

NODES = ("node1", "node2")
SLOTS = 64


class Addresses(NamedTuple):
    """Addresses are from 198.18.0.0/15, which RFC 2544 keeps for tests in closed networks. The programs of a cluster
    share a bridge, and each node has a bridge of its own for its pods."""

    slot: int

    @property
    def services(self) -> str:
        """The range of the services' addresses; there is no kube-proxy, so only the first is of use."""
        return f"198.18.{self.slot}.0/25"

    @property
    def server(self) -> str:
        """Of the API server, and of etcd. It is the first of the services' range, where pods look for the server."""
        return f"198.18.{self.slot}.1"

    def node(self, name: str) -> str:
        """Of a node's kubelet."""
        return f"198.18.{self.slot}.{201 + NODES.index(name)}"

    def pods(self, name: str) -> str:
        """The range of the addresses of a node's pods."""
        return f"198.19.{self.slot * len(NODES) + NODES.index(name)}.0/24"

    @property
    def bridge(self) -> str:
        """The bridge that has the addresses of the programs."""
        return f"kedgetest{self.slot}"

    def pod_bridge(self, name: str) -> str:
        """The bridge of a node's pods."""
        return f"{self.bridge}n{1 + NODES.index(name)}"

    def cgroup(self, name: str = "") -> str:
        """The control group of all nodes, or that of one."""
        return f"/kedge-test-{self.slot}" + (f"/{name}" if name else "")
