"""A namespace for a test, as the administrator of a site would make it, and its user."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.kubernetes import setup
from kedge.engines.kubernetes.api import ApiError
from kedge.testing.wait import wait_until

from . import certificates, image_names
from .cluster import DEADLINE, Cluster
from .own_cluster import OwnCluster

ACCOUNT = "kedge"  # of the driver
UNTIL_TOLD = "until [ -e /tmp/go ]; do"  # a loop of a task that waits for `let_go_on`


class Namespace:
    """`kubeconfig` is the user's, who may do nothing elsewhere."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.name = f"kedge-test-{os.urandom(5).hex()}"
        self._volumes: list[str] = []
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.kubeconfig = self._user(folder)
        # Pods of an account that was made just now are refused until its token is there.
        for account in ("default", ACCOUNT):
            wait_until(lambda each=account: self._has_token(each), DEADLINE, f"the account {account}")  # type: ignore[misc]

    def kubectl(self, *args: object, given: object = None, check: bool = True, user: bool = False) -> str:
        """What kubectl prints, by the administrator or by the user."""
        kubeconfig = self.kubeconfig if user else None
        return self.cluster.kubectl(*args, namespace=self.name, given=given, check=check, kubeconfig=kubeconfig)

    def let_go_on(self, pod: str, *, check: bool = True) -> None:
        """End the loop UNTIL_TOLD of the task in a pod."""
        self.kubectl("exec", pod, "--container=app", "--", "touch", "/tmp/go", check=check)

    def get(self, kind: str, name: str = "", labels: dict[str, str] | None = None) -> Any:
        """An object, or None; without a name the list of all."""
        return self.cluster.get(kind, name, self.name, labels)

    def run(self, name: str, script: str, **spec: Any) -> None:
        """Start a pod of busybox with keys of its spec."""
        container = {
            "name": "app",
            "image": spec.pop("image", image_names.busybox()),
            "command": ["sh", "-c", script],
            "resources": spec.pop("resources", {}),
        }
        own = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": own}, namespace=self.name
        )

    def wait_for_phase(self, name: str, phase: str) -> None:
        """Wait until a pod is in this phase."""
        wait_until(lambda: self.phase(name) == phase, DEADLINE, f"pod {name} {phase}")

    def phase(self, name: str) -> str:
        """The phase of a pod, "" if there is none."""
        return self.cluster.phase(name, self.name)

    def pod(self, name: str) -> dict[str, Any]:
        """A pod, {} if there is none."""
        return self.cluster.pod(name, self.name)

    def log(self, pod: str) -> str:
        """What a pod has printed."""
        return self.kubectl("logs", pod)

    def describe(self) -> str:
        """What is in it, for whoever reads why a test has failed."""
        return self.kubectl("get", "pods,jobs,configmaps,events", "--output=wide", check=False)

    def claim(self, name: str, mode: int = 0o777) -> Path:
        """Make a claim of a volume that pods of all nodes share (ReadWriteMany). Returns its folder on this machine,
        which has this mode."""
        if not isinstance(self.cluster, OwnCluster):
            pytest.skip("the test needs a volume that pods of all nodes share, and only a cluster of its own has one")
        folder = self.cluster.volume(f"{self.name}-{name}", mode)
        head = {"metadata": {"name": f"{self.name}-{name}"}, "apiVersion": "v1", "kind": "PersistentVolume"}
        kept = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        own = {"claimRef": {"namespace": self.name, "name": name}, "capacity": {"storage": "1Gi"}}
        self.cluster.apply({**head, "spec": {**kept, **own, "hostPath": {"path": str(folder), "type": "Directory"}}})
        wanted = {**kept, "volumeName": f"{self.name}-{name}", "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}
        self.cluster.apply(claim, namespace=self.name)
        self._volumes.append(f"{self.name}-{name}")
        wait_until(lambda: self._is_bound(name), DEADLINE, f"the claim {name}")
        return folder

    def _is_bound(self, claim: str) -> bool:
        found = self.get("persistentvolumeclaim", claim) or {}
        return bool(found.get("status", {}).get("phase") == "Bound")

    def allow(self, *users: str) -> None:
        """What an administrator applies once so that users can run jobs."""
        self.kubectl("apply", "--filename=-", given=setup.manifests(self.name, ACCOUNT, users, (), None, None))

    def close(self) -> None:
        """End what runs in it, without grace. In a cluster of somebody else it is removed; one that the tests have
        started ends soon, and to remove a namespace costs its server a request for each kind of object."""
        api = self.cluster.api(self.name)
        with suppress(ApiError):
            for kind in ("Job", "Pod"):
                for each in api.list(kind)[0]:
                    api.delete(kind, each["metadata"]["name"], grace_sec=0)
        self.cluster.forget(self.name)
        if isinstance(self.cluster, OwnCluster):
            return
        self.cluster.kubectl("delete", "namespace", self.name, "--wait=false", check=False)
        if self._volumes:  # they go with their claims; their folders with the cluster
            self.cluster.kubectl("delete", "persistentvolume", *self._volumes, "--wait=false", check=False)

    def _has_token(self, account: str) -> bool:
        found = self.get("serviceaccount", account)
        secrets = self.get("secret")
        owners = [each["metadata"].get("annotations", {}).get("kubernetes.io/service-account.name") for each in secrets]
        return found is not None and (account in owners or not isinstance(self.cluster, OwnCluster))

    def _user(self, folder: Path) -> Path:
        if not isinstance(self.cluster, OwnCluster):  # its administrator, who uses the namespace
            file = folder / "kubeconfig"
            file.write_text(self.cluster.kubectl("config", "view", "--raw", "--minify", "--flatten"))
            self.cluster.kubectl("config", "set-context", "--current", f"--namespace={self.name}", kubeconfig=file)
            self.allow()
            return file
        name = f"user-{self.name}"
        place = self.cluster.folder / "certificates"
        certificates.sign(place, name, f"/CN={name}")
        file = place / f"{name}.kubeconfig"
        certificates.write_kubeconfig(file, place, name, self.cluster.addresses, self.name)
        self.allow(name)
        return file
