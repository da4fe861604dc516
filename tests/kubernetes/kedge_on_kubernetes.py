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

from kedge.contract import OUTPUT_DIR
from kedge.engines.kubernetes.objects import task_volumes
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.runs import copies
from kedge.runs.folder import Run
from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from . import image_names
from .driver_kills import processes
from .namespaces import Namespace

_SECRET_FILES = ("cluster/secrets.json", "cluster/link.json", "cluster/ssh.json")
CLEANING_SEC = 60.0  # for the driver, after the end of a job
_REMOVING_SEC = 150.0  # the same, and for the kubelets of a busy machine
_REMOVED = "being deleted"
_SETTINGS = {"pending": "60s", "unreachable": "60s", "lost-node": "30s"}


class OnKubernetes(Loaded):
    """Jobs run in a namespace. What is seen of them is a copy, which is made fresh whenever a test looks at it."""

    keeps_code = False  # it goes with the pods

    def __init__(self, folder: Path, namespace: Namespace, cache: Path) -> None:
        super().__init__(folder, "kubernetes", image=image_names.busybox())
        self._outputs = folder  # where the site's claim of outputs is, once there is one
        self.namespace = namespace
        self.environment |= {"KUBECONFIG": str(namespace.kubeconfig), "XDG_CACHE_HOME": str(cache)}
        self.site()

    def site(self, **settings: object) -> None:
        """Have the site set options of the engine, in addition to those of all tests."""
        own = {"image": image_names.runtime(), "image-pull-policy": "IfNotPresent"}
        chosen = {key.replace("_", "-"): value for key, value in settings.items()}
        lines = [f"{key} = {json.dumps(value)}" for key, value in (_SETTINGS | own | chosen).items()]
        super().site_file("\n".join(["[engines.kubernetes]", *lines, ""]))

    def site_file(self, text: str) -> None:
        # What is below the folder of the test is at the same path in the nodes.
        self.site(**{"host-paths": [str(self.folder)]})
        super().site_file(f"{text}\n{(self.folder / 'site.toml').read_text()}")

    def claim_outputs(self) -> None:
        """Have the site keep outputs and the folders of jobs on a claim."""
        self._outputs = self.namespace.claim("outputs")
        self.site(**{"outputs-volume": "outputs"})

    def job_dir(self, run: str = "") -> Path:
        return self._outputs / task_volumes.job_folder(RunNames.of(run or self.only_run().name).name)

    def outputs(self, task: str = "worker-0", attempt: int = 0) -> Path:
        name = RunNames.of(self.only_run().name).name
        on_claim = self._outputs / task_volumes.kept_folder(name) / f"attempt-{attempt}" / task / OUTPUT_DIR
        return on_claim if on_claim.exists() else super().outputs(task, attempt)

    def task(self, task: str = "worker-0", attempt: int = 0) -> Path:
        self.fetch()
        return super().task(task, attempt)

    def controller(self) -> int:
        """The pid of the driver of the only run, which is a process of this machine, too."""
        (pod,) = self.pods("driver")
        (pid,) = processes(pod["metadata"]["uid"])
        return pid

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

    def pod_of(self, role: str, index: int = 0) -> dict[str, Any]:
        """The pod of a task that is not being deleted."""
        there = [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]
        (found,) = [pod for pod in there if _task_of(pod) == (role, str(index))]
        return found

    def evict(self, pod: str) -> None:
        """Have a pod evicted, as a drain of its node does."""
        eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction"}
        given = {**eviction, "metadata": {"name": pod, "namespace": self.namespace.name}}
        path = f"/api/v1/namespaces/{self.namespace.name}/pods/{pod}/eviction"
        self.namespace.kubectl("create", f"--raw={path}", "--filename=-", given=given)

    def wait_for_log(self, text: str, task: str = "worker-0", attempt: int = 0) -> None:
        """Wait until a task has printed this text. Its log may not be there yet."""
        wait_until(lambda: text in self._log_so_far(task, attempt), TIMEOUT, f"{text!r} from {task}")

    def _log_so_far(self, task: str, attempt: int) -> str:
        for process in self._started:
            assert process.poll() in (None, 0), "".join(process.communicate())
        return self.task_log(task, attempt) if self.runs() else ""

    def wait_for_show(self, *texts: str) -> str:
        """Wait until `kedge show` says all that of the only run. Returns what it shows then."""
        shown: list[str] = []

        def is_said() -> bool:
            shown.append(self("show", self.only_run().name).stdout)
            return all(text in shown[-1] for text in texts)

        try:
            wait_until(is_said, TIMEOUT, f"{texts} from kedge show")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{shown[-1]}") from None
        return shown[-1]

    def named(self, event: str) -> list[dict[str, Any]]:
        """The events of this name."""
        return [each for each in self.events() if each["event"] == event]

    def leftovers(self) -> list[str]:
        """Processes of tasks, their pods, and secrets. When a job has ended, its driver and kubelets still clean up."""
        began = time.monotonic()
        while (found := self._leftovers()) and all(map(_has_ended, self.runs())):
            are_removed = all(each.endswith(_REMOVED) for each in found)
            if time.monotonic() > began + (_REMOVING_SEC if are_removed else CLEANING_SEC):
                break
            time.sleep(0.2)
        print(*found, sep="\n")
        return found

    def _leftovers(self) -> list[str]:
        pods = [
            f"pod {meta['name']}" + (f": {_REMOVED}" if "deletionTimestamp" in meta else "")
            for meta in (pod["metadata"] for pod in self.pods())
        ]
        secrets = self.namespace.get("secret", labels={"app.kubernetes.io/managed-by": "kedge"})
        return super().leftovers() + pods + [name for each in secrets for name in _secrets_in(each)]


def _task_of(pod: dict[str, Any]) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata["annotations"]["kedge.io/role"], metadata["labels"]["kedge.io/task-index"]


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
