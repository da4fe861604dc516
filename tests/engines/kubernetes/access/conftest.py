"""A run that was submitted to a fake of the API, whose driver's pod has its folder in a folder of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from contextlib import suppress

import pytest
from tests.engines.kubernetes.access.copying import SERVE

from kedge.engines.kubernetes.access import submitted
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.objects import driver_job, labels, pod_paths, run_objects
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.runs import liveness
from kedge.runs.folder import Run, RunInfo
from kedge.runs.output_lists import OUTPUTS_CLAIM
from kedge.testing.kubernetes_api.server import FakeKubernetes

RUN_ID = "train-abc234"


class ClusterScene:
    """The run `run` here, its original in `there`, and its objects in `server`."""

    def __init__(self, folder, server: FakeKubernetes) -> None:
        self.server, self.there = server, folder / "driver" / RUN_ID
        (self.there / "cluster").mkdir(parents=True)
        self.jobs = folder / "state" / "kedge" / "jobs"
        self.run = Run(self.jobs / RUN_ID)
        self.run.path.mkdir(parents=True)
        self.api = KubernetesApi.connect(str(server.kubeconfig))
        self.names = RunNames.of(RUN_ID)
        self.processes: list[subprocess.Popen] = []
        server.commands = self._command
        for each in (self.run.path, self.there):
            (each / "events.jsonl").write_text(event("job-submitted", roles={"worker": 1}))
            (each / "plan.json").write_text("{}")
        self.run.save(RunInfo(RUN_ID, "train", "me", "kubernetes", "2026-01-01T00:00:00.000000Z", "1", "/job.yaml"))

    def submit(self, **options) -> None:
        owner = ObjectOwner(RUN_ID, "", RUN_ID, "me", "train")
        anchor = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": labels.metadata(owner, RUN_ID, labels.ANCHOR)}
        made = self.api.create(anchor)
        owner = owner._replace(uid=made["metadata"]["uid"])
        self.api.create(run_objects.driver_secret(owner, b"seed"))
        self.api.create(driver_job.driver_job(owner, KubernetesOptions(**options), "image:1"))
        self.run.cluster.make()
        job = {
            "engine": "kubernetes", "kubeconfig": str(self.server.kubeconfig), "context": None, "namespace": None,
            "name": RUN_ID, "uid": owner.uid, "time": time.time(),
            OUTPUTS_CLAIM: options.get("outputs_volume") or "",
        }  # fmt: skip
        self.run.cluster.write(self.run.cluster.job, job)

    @property
    def anchor(self):
        return self.server.find("ConfigMap", RUN_ID)

    def driver_pod(self):
        return next(pod for pod in self.server.listed("Pod") if pod["metadata"]["labels"][labels.COMPONENT] == "driver")

    def happens(self, name: str, **facts) -> None:
        """The driver records an event."""
        with (self.there / "events.jsonl").open("a") as log:
            log.write(event(name, **facts))

    def ends(self, state="succeeded", code=0) -> None:
        self.happens("job-completed", state=state, code=0, text=state, exit_code=code)
        (self.there / "report.json").write_text("{}")
        ended = json.dumps({"state": state, "exit_code": code})
        self.api.patch("ConfigMap", RUN_ID, {"metadata": {"annotations": {labels.ENDED: ended}}})

    def forget_word(self) -> None:
        """The next question is asked."""
        (self.run.cluster.scheduler).unlink(missing_ok=True)

    def _command(self, call) -> int:
        assert call.argv == [*pod_paths.SERVE_COMMAND, f"{pod_paths.JOBS}/{RUN_ID}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        process = subprocess.Popen([*SERVE, str(self.there)], **pipes)
        self.processes.append(process)

        def forward() -> None:
            with suppress(ValueError, OSError):  # the client has gone
                while data := call.read():
                    process.stdin.write(data)
            process.stdin.close()

        threading.Thread(target=forward, daemon=True).start()
        with process.stdout:
            while data := os.read(process.stdout.fileno(), 1 << 15):
                call.write(data)
        return process.wait()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        submitted.close_connections()
        self.api.close()


def event(name: str, **facts) -> str:
    return json.dumps({"time": "2026-01-01T00:00:00.000000Z", "event": name, **facts}) + "\n"


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(liveness, "CACHED_SEC", 0.0)
    monkeypatch.setattr(liveness, "LONGEST_CACHED_SEC", 0.0)
    with FakeKubernetes.serving(tmp_path, namespace="team", version=("1", "20")) as server:
        server.nodes.automatic = True
        found = ClusterScene(tmp_path, server)
        yield found
        found.close()
