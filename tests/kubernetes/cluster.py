"""A real Kubernetes cluster of two nodes on this machine, or one that is there already."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.transport.kinds import KINDS

from . import programs

_KINDS = {name.lower(): name for name in KINDS}
DEADLINE = 120.0  # seconds, for anything that Kubernetes does


class Cluster:
    """A cluster that a kubeconfig file names. Its user may do everything, or at least make namespaces and roles."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._apis: dict[str, KubernetesApi] = {}

    def kubectl(
        self,
        *args: object,
        namespace: str = "",
        given: object = None,
        check: bool = True,
        kubeconfig: Path | None = None,
    ) -> str:
        """What kubectl prints. `given` is an object, or a text, for its standard input."""
        options = [
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            *([f"--namespace={namespace}"] if namespace else []),
        ]
        text = given if isinstance(given, str) or given is None else json.dumps(given)
        done = subprocess.run(
            ["kubectl", *options, *map(str, args)], input=text, stdin=None if text else subprocess.DEVNULL,
            env=environment(), cwd="/", capture_output=True, text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"kubectl {args}: {done.stdout}{done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def get(self, kind: str, name: str = "", namespace: str = "", labels: Mapping[str, str] | None = None) -> Any:
        """An object, or None if it does not exist; without a name the list of all."""
        if known := _KINDS.get(kind):  # kubectl would take a third of a second of a processor
            api = self.api(namespace)
            return api.get(known, name) if name else api.list(known, labels or {})[0]
        chosen = [f"--selector={','.join(f'{key}={value}' for key, value in labels.items())}"] if labels else []
        names = [name] if name else []
        said = self.kubectl(
            "get", kind, *names, *chosen, "--output=json", "--ignore-not-found", namespace=namespace, check=True
        )
        if name:
            return json.loads(said) if said else None
        return json.loads(said)["items"] if said else []

    def api(self, namespace: str) -> KubernetesApi:
        """The API of a namespace, as the administrator of the cluster. It is kept until `forget`."""
        if namespace not in self._apis:
            self._apis[namespace] = KubernetesApi.connect(str(self.kubeconfig), namespace=namespace or None)
        return self._apis[namespace]

    def forget(self, namespace: str) -> None:
        """Nothing more is asked of a namespace."""
        if api := self._apis.pop(namespace, None):
            api.close()

    def forget_all(self) -> None:
        """Nothing more is asked of any."""
        for namespace in list(self._apis):
            self.forget(namespace)

    def apply(self, *objects: object, namespace: str = "") -> None:
        """Create or change objects."""
        given = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--filename=-", given=given, namespace=namespace)

    def pod(self, name: str, namespace: str) -> dict[str, Any]:
        """A pod, {} if there is none."""
        return self.get("pod", name, namespace) or {}

    def phase(self, name: str, namespace: str) -> str:
        """The phase of a pod, "" if there is none."""
        return str(self.pod(name, namespace).get("status", {}).get("phase", ""))

    def waiting(self, name: str, namespace: str) -> list[str]:
        """Why the containers of a pod wait, such as ErrImagePull."""
        statuses = self.pod(name, namespace).get("status", {}).get("containerStatuses", [])
        return [each["state"]["waiting"].get("reason", "") for each in statuses if "waiting" in each["state"]]

    def logs(self) -> str:
        """What helps when a test fails."""
        return self.kubectl("get", "pods,events", "--all-namespaces", check=False)


def environment() -> dict[str, str]:
    """The environment of the cluster's programs."""
    return {"PATH": programs.path(), "HOME": os.environ.get("HOME", "/")}
