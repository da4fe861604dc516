"""Runs with a driver and a fake cluster: real agents and supervisors, the real link, the controller's own loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.objects import labels, run_objects
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.jobs import link_keys
from kedge.plan.lossless import to_lossless
from kedge.plan.model import Plan
from kedge.runs import events, status
from kedge.runs.folder import Run, RunInfo
from kedge.runs.job_events import JobEvent
from kedge.testing.kubernetes_api.server import FakeKubernetes
from kedge.testing.wait import wait_until

from .process_kubelet import ProcessKubelet

PROGRAM = Path(__file__).with_name("driver_program.py")
NAME = "j-1"


class DriverScene:
    """One run. `nodes` is what its driver pods leave: a folder for each."""

    def __init__(self, folder: Path, fake: FakeKubernetes, plan: Plan, options: dict[str, Any]) -> None:
        self.folder, self.fake, self.plan = folder, fake, plan
        self.shared = folder / "shared"
        self.shared.mkdir()
        (self.shared / "nodes").mkdir()
        self.api = KubernetesApi.connect(kubeconfig=str(fake.kubeconfig))
        made = self.api.create(run_objects.anchor(ObjectOwner(NAME, "", NAME, "me", "j"), plan))
        self.owner = ObjectOwner(NAME, made["metadata"]["uid"], NAME, "me", "j")
        self.seed = self._seed(options)
        variables = {"TEST_SHARED": str(self.shared), "TMPDIR": str(self.shared / "nodes")}
        self.kubelet = ProcessKubelet(fake, NAME, folder, variables)
        self.pods = 0
        self.drivers: list[subprocess.Popen[bytes]] = []

    @classmethod
    @contextmanager
    def made(cls, folder: Path, plan: Plan, **options: Any) -> Iterator[Self]:
        with FakeKubernetes.serving(folder) as fake:
            scene = cls(folder, fake, plan, options)
            try:
                yield scene
            finally:
                for driver in scene.drivers:
                    driver.kill()
                    driver.wait(30)
                scene.kubelet.close()
                scene.api.close()

    def _seed(self, options: dict[str, Any]) -> Path:
        run = Run(self.folder / "submitted" / NAME)
        run.path.mkdir(parents=True)
        run.job_dir.mkdir()
        run.cluster.make()
        run.save(RunInfo(NAME, "j", "me", "kubernetes", "2026-01-01T00:00:00.000000Z", "1", "job.yaml"))
        files = run.cluster
        files.write(files.orders, {"engine": "kubernetes", "options": options, "plan": to_lossless(self.plan)})
        files.write(files.secrets, {"document": {}, "texts": {}})
        files.write(files.link, link_keys.made().to_json())
        with events.EventLog(run.events) as log:
            log.append(JobEvent.JOB_SUBMITTED, roles={role.name: role.instances for role in self.plan.roles})
        path = self.folder / "seed.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for each in sorted(run.path.rglob("*")):
                archive.add(each, each.relative_to(run.path), recursive=False)
        return path

    def said(self) -> str:
        """What all drivers have printed."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("pod-*.log")))

    def kill(self, driver: subprocess.Popen[bytes]) -> None:
        """A driver ends without a word."""
        driver.kill()
        driver.wait(30)

    def leaves(self, driver: subprocess.Popen[bytes], why: str) -> bool:
        """Whether a driver ends, for this reason, and so that it is started again."""
        return driver.wait(60) == 1 and why in self.said()

    def new_pod(self) -> Path:
        """A pod for a driver, with an empty volume: the folder of the run there."""
        self.pods += 1
        name = f"{RunNames(NAME).driver}-{self.pods}"
        container = {"name": "driver", "image": "runtime:1", "command": ["driver"]}
        metadata = labels.metadata(self.owner, name, labels.DRIVER)
        self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
        volume = self.folder / f"pod-{self.pods}"
        volume.mkdir()
        return volume / NAME

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        """The container of the driver in a pod, started for the first time or again."""
        pod = folder.parent.name
        variables = {
            "KEDGE_NAMESPACE": "default", "KEDGE_POD": f"{RunNames(NAME).driver}-{pod.removeprefix('pod-')}",
            "KEDGE_POD_IP": "127.0.0.1", "KEDGE_POD_UID": pod, "KEDGE_SEED": str(self.seed),
        }  # fmt: skip
        with open(self.folder / f"{pod}.log", "ab") as log:
            driver = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(self.fake.kubeconfig), str(folder)],
                env={**os.environ, **variables},
                stderr=log,
            )
        self.drivers.append(driver)
        return driver

    def fetched(self) -> None:
        """The client has everything."""
        self.annotate(labels.FETCHED, "true")

    def annotate(self, key: str, value: str) -> None:
        self.api.patch("ConfigMap", NAME, {"metadata": {"annotations": {key: value}}})

    def ask(self, identity: str, kind: str, by: str = "me") -> None:
        """What a command of the owner does."""
        self.annotate(labels.REQUESTS, json.dumps([{"id": identity, "kind": kind, "by": by}]))

    def annotation(self, key: str) -> Any:
        found = self.fake.find("ConfigMap", NAME)
        text = found["metadata"]["annotations"].get(key) if found else None
        return json.loads(text) if text else None

    def log_text(self) -> str:
        """The decision log."""
        found = [each for each in self.fake.listed("ConfigMap") if each["metadata"]["name"].startswith(f"{NAME}-log-")]
        found.sort(key=lambda each: int(each["metadata"]["name"].rpartition("-")[2]))
        return "".join(each["data"]["events.jsonl"] for each in found)

    def recorded(self) -> list[dict[str, Any]]:
        """The events of the decision log."""
        lines = [json.loads(line) for line in self.log_text().splitlines()]
        return [line for line in lines if "event" in line]

    def count(self, event: str) -> int:
        return sum(each["event"] == event for each in self.recorded())

    def wait_for_more(self, driver: subprocess.Popen[bytes], count: int) -> None:
        """Wait until so many more lines are recorded, or the driver has ended."""
        wanted = len(self.recorded()) + count
        wait_until(lambda: driver.poll() is not None or len(self.recorded()) >= wanted, 60)

    def finish(self, driver: subprocess.Popen[bytes]) -> status.JobStatus:
        """Wait for the end of the driver, and return that of the job, as the decision log has it."""
        self.fetched()
        assert driver.wait(90) == 0, self.said()
        return status.fold(iter(self.recorded()))

    def wait_for_log(self, folder: Path, role: str, index: int, text: str, task_attempt: int = 0) -> None:
        """Wait until a task has printed it, and the driver knows."""
        path = Run(folder).task(role, index, 0, task_attempt) / "user-all" / "current"
        wait_until(lambda: path.exists() and text in path.read_text(), 60)
