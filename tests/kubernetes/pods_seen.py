"""Every pod that was ever in the namespace of a test, from the first one on."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict

from kedge.engines.kubernetes.api import ApiError, Expired, KubernetesApi

from .namespaces import Namespace


class PodsSeen(contextlib.AbstractContextManager["PodsSeen"]):
    """A context in which a thread watches. `uids` are those of each name."""

    def __init__(self, namespace: Namespace) -> None:
        self.uids: dict[str, set[str]] = defaultdict(set)
        self._attempts: dict[str, set[str]] = defaultdict(set)
        self._api = KubernetesApi.connect(str(namespace.cluster.kubeconfig), namespace=namespace.name)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __exit__(self, *of_exception: object) -> None:
        self._over.set()
        self._thread.join(10.0)
        self._api.close()

    def of_tasks(self, run: str) -> dict[str, int]:
        """How many pods each task attempt of a run had, by the names of pods without that of the run."""
        return {
            name.removeprefix(f"{run}-"): len(uids)
            for name, uids in self.uids.items()
            if name.startswith(f"{run}-a") and "-driver" not in name
        }

    def _watch(self) -> None:
        version = ""
        while not self._over.is_set():
            with contextlib.suppress(ApiError):
                try:
                    version = self._follow(version or self._list())
                    continue
                except Expired:
                    version = ""
            self._over.wait(0.3)

    def _list(self) -> str:
        pods, version = self._api.list("Pod")
        for pod in pods:
            self._see(pod)
        return version

    def _follow(self, version: str) -> str:
        for change, pod in self._api.watch("Pod", resource_version=version, timeout_sec=2.0):
            version = pod["metadata"]["resourceVersion"]
            if change != "BOOKMARK":
                self._see(pod)
        return version

    def _see(self, pod: dict[str, dict[str, str]]) -> None:
        self.uids[pod["metadata"]["name"]].add(pod["metadata"]["uid"])
