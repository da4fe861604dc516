"""Measures the driver of a job on Kubernetes with many tasks: the real program of a driver pod, before an API server
that is a small one in another process, and agents that are simulated by their own protocol code in a third one.

    python benchmarks/kubernetes_driver.py [TASKS]

The job has TASKS (1000) tasks in one role. All pods run as soon as they are created; each leaves the ten files of a
short task, which come to the driver over the link. Then the job runs a second time, and while all tasks run the driver
is ended, as when its node is drained, and another one begins with an empty folder: it has nothing but the decision log.

The processors are shared with the API server and the agents, as they would not be in a cluster: so the CPU time of the
driver is given too, at each point since its start. Memory is that of the driver at most.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from kedge.engines.kubernetes import archives
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.objects import labels, run_objects
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.jobs import link_keys
from kedge.open_files import raise_limit
from kedge.own_files import replace_file
from kedge.plan.build import build
from kedge.plan.lossless import to_lossless
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.runs.events import EventLog
from kedge.runs.folder import Run, RunInfo
from kedge.runs.job_events import JobEvent
from kedge.spec.parse import parse
from kedge.testing.kubernetes_api.refusals import FakeRefusal
from kedge.testing.kubernetes_api.server import FakeKubernetes
from kedge.testing.kubernetes_api.store import StoreChange

AGENTS = Path(__file__).with_name("simulated_pods.py")
NAME = "j-1"
DEADLINE_SEC = 600.0
TICK = os.sysconf("SC_CLK_TCK")


class Cluster:
    """The API server, with the pods of one run as they come and go."""

    def __init__(self, folder: Path, fake: FakeKubernetes, plan: Plan) -> None:
        self.folder, self.fake = folder, fake
        self.news = threading.Condition()
        self.created = self.started = self.log_writes = self.log_written = 0
        self.connected: dict[str, int] = {}
        self.controller, self.ended = "", False
        self.events: Counter[str] = Counter()
        self._pieces: dict[str, str] = {}
        api = KubernetesApi.connect(kubeconfig=str(fake.kubeconfig))
        made = api.create(run_objects.anchor(ObjectOwner(NAME, "", NAME, "me", "j"), plan))
        self.owner = ObjectOwner(NAME, made["metadata"]["uid"], NAME, "me", "j")
        self.api = api
        self.seed = folder / "seed.tar.gz"
        self.seed.write_bytes(seed(folder / "submitted" / NAME, plan))
        self._address = folder / "address.json"
        (folder / "pods").mkdir()
        argv = [sys.executable, str(AGENTS), str(folder / "pods"), str(self._address)]
        self.agents = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._hear, daemon=True).start()
        fake.nodes.automatic = True
        fake.store.after.append(self._changed)

    def _changed(self, change: StoreChange) -> None:
        """Of each change in the store, in the threads of the server."""
        kind, found = change.kind.kind, change.object
        name = found["metadata"]["name"]
        if kind == "Pod" and change.type == "ADDED":
            if found["metadata"]["labels"].get(labels.COMPONENT) == labels.TASK:
                self._start(found)
        elif kind == "ConfigMap" and name == RunNames(NAME).address:
            replace_file(self._address, found["data"]["address.json"].encode(), synced=False)
            self.controller = json.loads(found["data"]["address.json"])["controller"]
        elif kind == "ConfigMap" and name.startswith(f"{NAME}-log-") and change.type != "DELETED":
            text, before = found["data"]["events.jsonl"], self._pieces.get(name, "")
            self._pieces[name] = text
            lines = (line for line in text[len(before) :].splitlines() if line.startswith("{") and line.endswith("}"))
            self.events.update(found["event"] for found in map(json.loads, lines) if "event" in found)
            self.log_writes, self.log_written = self.log_writes + 1, self.log_written + len(text)
        elif kind == "ConfigMap" and name == NAME:
            self.ended = labels.ENDED in found["metadata"]["annotations"]
        with self.news:
            self.news.notify_all()

    def _start(self, pod: dict[str, Any]) -> None:
        self.created += 1
        agent = next(each for each in pod["spec"]["containers"] if each["name"] == "agent")
        orders = {each["name"]: each.get("value") for each in agent["env"]}["KEDGE_AGENT_ORDERS"]
        volume = next(each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "token")
        secret = self.fake.find("Secret", volume["secretName"])
        assert secret
        token = b64decode(secret["data"][volume["items"][0]["key"]]).decode()
        name, index = pod["metadata"]["name"], int(agent["command"][-1])
        self._tell({"pod": name, "orders": orders.replace("$$(", "$("), "index": index, "token": token})

    def _tell(self, said: dict[str, Any]) -> None:
        assert self.agents.stdin
        self.agents.stdin.write(f"{json.dumps(said)}\n".encode())
        self.agents.stdin.flush()

    def _hear(self) -> None:
        assert self.agents.stdout
        for line in self.agents.stdout:
            said = json.loads(line)
            if "pod" in said:
                with suppress(FakeRefusal):
                    self.fake.nodes.finish(said["pod"], 0)
            else:
                self.started, self.connected = said["started"], said["connected"]
            with self.news:
                self.news.notify_all()

    def end_tasks(self) -> None:
        with self.fake.store.lock:  # one line at a time
            self._tell({"end": True})

    @property
    def log_size(self) -> int:
        return sum(map(len, self._pieces.values()))

    def requests(self) -> Counter[str]:
        return Counter(f"{call.verb} {call.kind}" for call in self.fake.calls)

    def close(self) -> None:
        assert self.agents.stdin
        self.agents.stdin.close()
        self.agents.wait(60)
        self.api.close()


def seed(folder: Path, plan: Plan) -> bytes:
    """What the submitter gives to the driver."""
    run = Run(folder)
    run.path.mkdir(parents=True)
    run.job_dir.mkdir()
    run.cluster.make()
    run.save(RunInfo(NAME, "j", "me", "kubernetes", "2026-01-01T00:00:00.000000Z", "1", "job.yaml"))
    files = run.cluster
    files.write(files.orders, {"engine": "kubernetes", "options": {}, "plan": to_lossless(plan)})
    files.write(files.secrets, {"document": {}, "texts": {}})
    files.write(files.link, link_keys.made().to_json())
    with EventLog(run.events) as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={role.name: role.instances for role in plan.roles})
    return archives.seed(run)


def job(tasks: int) -> Plan:
    """A job with one role."""
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"http": 1}}
    role = {"dockerImage": "image", "resourcePerInstance": resources, "instances": tasks, "commands": ["true"]}
    image = {"name": "image", "type": "dockerimage", "uri": "x"}
    head = {"protocolVersion": 2, "name": "j", "type": "job"}
    document = {**head, "prerequisites": [image], "taskRoles": {"worker": role}}
    return build(resolve(parse(yaml.safe_dump(document)), Inputs("me")))


class Driver:
    """A driver in a pod of its own, whose volume is empty."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        pod = f"{RunNames(NAME).driver}-{number}"
        metadata = labels.metadata(cluster.owner, pod, labels.DRIVER)
        spec = {"containers": [{"name": "driver", "image": "runtime:1", "command": ["driver"]}]}
        cluster.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        volume = cluster.folder / pod
        volume.mkdir()
        variables = {
            "KEDGE_NAMESPACE": "default", "KEDGE_POD": pod, "KEDGE_POD_IP": "127.0.0.1", "KEDGE_POD_UID": pod,
            "KEDGE_SEED": str(cluster.seed),
        }  # fmt: skip
        argv = [sys.executable, __file__, "--driver", str(cluster.fake.kubeconfig), str(volume / NAME)]
        self.began = time.monotonic()
        self.process = subprocess.Popen(argv, env={**os.environ, **variables})

    def wait(self, what: str, condition: Any) -> str:
        """Seconds since the start of the driver, and its CPU seconds, when a condition holds."""
        cluster = self._cluster
        with cluster.news:
            while not condition():
                assert time.monotonic() < self.began + DEADLINE_SEC, f"{what}: not within {DEADLINE_SEC:g} s"
                assert self.process.poll() is None, f"{what}: the driver has ended: {self.process.returncode}"
                cluster.news.wait(0.2)
        return f"{time.monotonic() - self.began:>8.2f} s {self.cpu():>8.2f} s CPU"

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self) -> float:
        """MiB at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def cluster_of(tasks: int) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as name, FakeKubernetes.serving(Path(name), version=("1", "20")) as fake:
        cluster = Cluster(Path(name), fake, job(tasks))
        try:
            yield cluster
        finally:
            cluster.close()


def begin(cluster: Cluster, driver: Driver, tasks: int) -> Iterator[tuple[str, str]]:
    yield "until all pods are asked for", driver.wait("pods", lambda: cluster.created == tasks)
    yield "until all tasks have passed the barrier", driver.wait("barrier", lambda: cluster.started == tasks)


def end(cluster: Cluster, driver: Driver) -> Iterator[tuple[str, str]]:
    asked = time.monotonic()
    cluster.end_tasks()
    text = driver.wait("end", lambda: cluster.ended)
    yield "until the job has ended", f"{text}  ({time.monotonic() - asked:.2f} s after its tasks)"
    yield "memory of the driver", f"{driver.memory():>8.1f} MiB"
    cluster.api.patch("ConfigMap", NAME, {"metadata": {"annotations": {labels.FETCHED: "true"}}})
    assert driver.process.wait(60) == 0


def measure(tasks: int) -> Iterator[tuple[str, str]]:
    """What a whole job takes."""
    with cluster_of(tasks) as cluster:
        driver = Driver(cluster, 1)
        yield from begin(cluster, driver, tasks)
        yield from end(cluster, driver)
        assert cluster.events[JobEvent.TASK_COMPLETED] == tasks
        counts = cluster.requests()
        most = ", ".join(f"{count} {what}" for what, count in counts.most_common(6))
        yield "requests to the API server", f"{counts.total():>8}  ({most})"
        written = f"{cluster.log_writes} writes of {cluster.log_written / 1024:.0f} KiB"
        yield "decision log", f"{cluster.log_size / 1024:>8.0f} KiB  ({written})"


def measure_restart(tasks: int) -> Iterator[tuple[str, str]]:
    """What another driver takes that finds all tasks running."""
    with cluster_of(tasks) as cluster:
        first = Driver(cluster, 1)
        list(begin(cluster, first, tasks))
        first.process.send_signal(signal.SIGTERM)
        first.process.wait(60)
        asked, before = cluster.fake.calls.copy(), cluster.controller
        second = Driver(cluster, 2)
        restarted = second.wait("restart", lambda: cluster.events[JobEvent.CONTROLLER_RESTARTED] == 1)
        yield "until another driver decides", restarted
        assert cluster.controller != before
        back = second.wait("agents", lambda: cluster.connected.get(cluster.controller) == tasks)
        yield "until all agents are back", back
        yield from end(cluster, second)
        yield "requests to the API server", f"{len(cluster.fake.calls) - len(asked):>8}"
        assert cluster.created == tasks


def drive(kubeconfig: str, folder: str) -> int:
    """The program of a driver pod."""
    from kedge.controller import in_cluster
    from kedge.engines.kubernetes.in_driver import program

    KubernetesApi.in_cluster = classmethod(lambda cls: cls.connect(kubeconfig=kubeconfig))  # type: ignore[method-assign, assignment]
    gc.freeze()
    return program.main([folder], in_cluster.main)


def main(tasks: int) -> None:
    """Measure, and print."""
    for title, rows in ((f"a job of {tasks} tasks", measure(tasks)), ("another driver", measure_restart(tasks))):
        print(title)
        for what, value in rows:
            print(f"  {what:<40}{value}", flush=True)


if __name__ == "__main__":
    raise_limit()
    if sys.argv[1:2] == ["--driver"]:
        sys.exit(drive(*sys.argv[2:]))
    main(int(sys.argv[1]) if sys.argv[1:] else 1000)
