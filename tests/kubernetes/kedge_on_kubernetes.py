"""kedge as a user of a namespace starts it."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import time
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Loaded

from kedge.runs import copies
from kedge.runs.folder import Run

from . import image_names
from .namespaces import Namespace

_SECRET_FILES = ("cluster/secrets.json", "cluster/link.json", "cluster/ssh.json")
CLEANING_SEC = 60.0  # for the driver and the kubelets, after the end of a job
_SETTINGS = {"pending": "60s", "unreachable": "60s", "lost-node": "30s"}


class OnKubernetes(Loaded):
    """Jobs run in a namespace. What is seen of them is a copy, which is made fresh whenever a test looks at it."""

    def __init__(self, folder: Path, namespace: Namespace, cache: Path) -> None:
        super().__init__(folder, "kubernetes", image=image_names.busybox())
        self.namespace = namespace
        self.environment |= {"KUBECONFIG": str(namespace.kubeconfig), "XDG_CACHE_HOME": str(cache)}
        self.site()

    def site(self, **settings: object) -> None:
        """Have the site set options of the engine, in addition to those of all tests."""
        own = {"image": image_names.runtime(), "image-pull-policy": "IfNotPresent"}
        lines = [f"{key} = {json.dumps(value)}" for key, value in (_SETTINGS | own | settings).items()]
        file = self.folder / "site.toml"
        file.write_text("\n".join(["[engines.kubernetes]", *lines, ""]))
        self.environment["KEDGE_SITE_FILE"] = str(file)

    def task_log(self, task: str = "worker-0", attempt: int = 0) -> str:
        self.fetch()
        return super().task_log(task, attempt)

    def events(self) -> list[dict[str, Any]]:
        self.fetch()
        return super().events()

    def fetch(self) -> None:
        """Make the copies of all runs fresh, as far as they can be reached."""
        for run in self.runs():
            copies.fetch(Run(run), logs=True)

    def pods(self, component: str = "task") -> list[dict[str, Any]]:
        """The pods of all runs that are tasks or drivers."""
        found: list[dict[str, Any]] = self.namespace.get("pod", labels={"kedge.io/component": component})
        return found

    def leftovers(self) -> list[str]:
        """Processes of tasks, their pods, and secrets. When a job has ended, its driver and kubelets still clean up."""
        end = time.monotonic() + CLEANING_SEC
        while (found := self._leftovers()) and time.monotonic() < end and all(map(_has_ended, self.runs())):
            time.sleep(0.2)
        print(*found, sep="\n")
        return found

    def _leftovers(self) -> list[str]:
        pods = [f"pod {pod['metadata']['name']}" for pod in self.pods()]
        secrets = self.namespace.get("secret", labels={"app.kubernetes.io/managed-by": "kedge"})
        return super().leftovers() + pods + [name for each in secrets for name in _secrets_in(each)]


def _secrets_in(secret: dict[str, Any]) -> list[str]:
    """What is secret in a Secret. The seed of a driver stays; with the job's end its secrets go."""
    name = secret["metadata"]["name"]
    if "seed.tar.gz" not in secret["data"]:
        return [f"secret {name}"]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(secret["data"]["seed.tar.gz"]))) as seed:
        return [f"{member} in secret {name}" for member in seed.getnames() if member in _SECRET_FILES]


def _has_ended(run: Path) -> bool:
    """Whether the run's end is recorded."""
    file = run / "events.jsonl"
    return file.exists() and b'"job-completed"' in file.read_bytes()
