"""Measures the time from `kedge run` to the first line of the user's command on a Kubernetes cluster, and to the end of
`kedge run`, beside a bare pod of the same image and command that is created through the API and whose log is read.

    python benchmarks/kubernetes_start.py IMAGE [--rounds N]

Needs a cluster and a namespace that the kubeconfig names (KUBECONFIG), a site's file that names the runtime image
(KEDGE_SITE_FILE), and both images in the nodes, as tests/kubernetes/test_start.py brings them. Seconds, the median of
the rounds; `stages` are the moments of kedge's events in the last round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from kedge.engines.kubernetes.api import ApiError, KubernetesApi

COMMAND = "echo here"
JOB = """\
protocolVersion: 2
name: bench
type: job
prerequisites: [{{name: image, type: dockerimage, uri: {image}}}]
taskRoles:
  task:
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: ["{command}"]
"""
SHOWN = ("job-submitted", "attempt-started", "task-launched", "barrier-passed", "task-completed", "job-completed")
LOOK_SEC = 0.02


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("image")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    api = KubernetesApi.connect()
    bares, firsts, ends = [], [], []
    stages = ""
    for number in range(chosen.rounds):
        bares.append(bare(api, chosen.image, f"bench-{os.getpid()}-{number}"))
        with tempfile.TemporaryDirectory() as folder:
            first, end, stages = with_kedge(chosen.image, Path(folder))
        firsts.append(first)
        ends.append(end)
    api.close()
    pod, first, end = map(statistics.median, (bares, firsts, ends))
    print(f"{'':>10}{'first line s':>14}{'end s':>8}")
    print(f"{'bare pod':>10}{pod:>14.2f}{'':>8}")
    print(f"{'kedge':>10}{first:>14.2f}{end:>8.2f}")
    print(f"{'ratio':>10}{first / pod:>14.2f}")
    print(f"stages {stages}")


def bare(api: KubernetesApi, image: str, name: str) -> float:
    """Seconds from the request for a pod to its first line."""
    container = {"name": "app", "image": image, "command": ["sh", "-c", COMMAND]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    begin = time.time()
    api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    while True:
        try:
            if api.logs(name, "app"):
                break
        except ApiError:  # there is no container yet
            pass
        time.sleep(LOOK_SEC)
    found = time.time() - begin
    api.delete("Pod", name, grace_sec=0)
    return found


def with_kedge(image: str, folder: Path) -> tuple[float, float, str]:
    """Seconds to the first line that `kedge run` prints of the task, to its end, and the moments of its events."""
    job = folder / "bench.yaml"
    job.write_text(JOB.format(image=image, command=COMMAND))
    argv = [sys.executable, "-m", "kedge", "run", "--engine", "kubernetes", str(job)]
    first, begin = 0.0, time.time()
    with subprocess.Popen(
        argv, env=os.environ | {"XDG_STATE_HOME": str(folder)}, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout
        for line in run.stdout:
            if not first and line.endswith("| here\n"):
                first = time.time() - begin
    end = time.time() - begin
    assert run.returncode == 0
    return first, end, stages(folder, begin)


def stages(folder: Path, begin: float) -> str:
    """The moments of the events of the only run."""
    (file,) = (folder / "kedge" / "jobs").glob("*/events.jsonl")
    found = []
    for event in map(json.loads, file.read_text().splitlines()):
        if event["event"] in SHOWN:
            at = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp() - begin
            found.append(f"{event['event']} {at:.2f}")
    return ", ".join(found)


if __name__ == "__main__":
    main()
