"""A kubelet for the fake API server: the agents of its pods are processes of this machine."""

from __future__ import annotations

import base64
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import kedge
from kedge import processes
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.in_driver.pod_watch import DELETED, PodSeen, PodsListed, PodWatch
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.link.launch import AgentOrders
from kedge.own_files import replace_file, write_all
from kedge.testing.kubernetes_api.refusals import FakeRefusal
from kedge.testing.kubernetes_api.server import FakeKubernetes

AGENT = Path(kedge.__file__).parent / "runtime" / "agent"
INDEX, NODE = "TEST_TASK_INDEX", "TEST_NODE"


class ProcessKubelet:
    """`started` are the names of all pods that it has ever started. Pods in `absent` get no node. The agents get the
    `variables`. While it is `frozen`, it does nothing and confirms nothing: its node is lost."""

    def __init__(self, fake: FakeKubernetes, name: str, folder: Path, variables: Mapping[str, str]) -> None:
        self._fake, self._name, self._folder, self._variables = fake, name, folder, variables
        self._api = KubernetesApi.connect(kubeconfig=str(fake.kubeconfig))
        self._watch = PodWatch(self._api, labels.of_component(name, labels.TASK), self._news)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._ending: set[str] = set()
        self.started: list[str] = []
        self.at_once: list[list[str]] = []  # pods of one task that ran at the same time
        self.absent: set[str] = set()
        self.frozen = False
        self._addresses = threading.Thread(target=self._keep_addresses, daemon=True)
        self._closed = threading.Event()
        self._watch.start()
        self._addresses.start()

    @property
    def address_file(self) -> Path:
        """What the pods have as /kedge/address/address.json."""
        return self._folder / "address.json"

    def _keep_addresses(self) -> None:
        while not self._closed.wait(0.1):
            found = self._fake.find("ConfigMap", RunNames(self._name).address)
            text = found["data"]["address.json"] if found else ""
            if text and (not self.address_file.exists() or self.address_file.read_text() != text):
                replace_file(self.address_file, text.encode(), synced=False)

    def _news(self, news: PodsListed | PodSeen) -> None:
        if isinstance(news, PodsListed):
            for pod in news.pods:
                self._news(PodSeen("ADDED", pod))
            return
        name = news.pod["metadata"]["name"]
        if self.frozen:
            return
        if "deletionTimestamp" in news.pod["metadata"] or news.change == DELETED:
            self._end(name, news.pod["metadata"].get("deletionGracePeriodSeconds", 0))
        elif name not in self.started and name not in self.absent and not news.pod["spec"].get("schedulingGates"):
            self.started.append(name)
            self._start(news.pod)

    def _start(self, pod: Mapping[str, Any]) -> None:
        name = pod["metadata"]["name"]
        with suppress(FakeRefusal):
            self._fake.nodes.run(name)
        agent = next(each for each in pod["spec"]["containers"] if each["name"] == "agent")
        said = {each["name"]: each.get("value") for each in agent["env"]}
        orders = AgentOrders.from_line(said["KEDGE_AGENT_ORDERS"].replace("$$(", "$(").encode())
        index, token = int(agent["command"][-1]), self._token(pod)
        orders = orders._replace(tokens=[token] * (index + 1), address_file=str(self.address_file))
        spec = importlib.util.find_spec("re2")
        assert spec
        assert spec.origin
        site = os.path.dirname(os.path.dirname(spec.origin))
        argv = [sys.executable, "-I", "-S", str(AGENT), "--index-variable", INDEX, "--node-variable", NODE]
        variables = {**os.environ, **self._variables, INDEX: str(index), NODE: "node-1"}
        with open(self._folder / "agents.log", "ab") as log:
            process = subprocess.Popen(
                [*argv, "--site", site],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=variables,
            )
        assert process.stdin
        with process.stdin as stdin, suppress(BrokenPipeError):
            write_all(stdin.fileno(), orders.line())
        with self._lock:
            self._processes[name] = process
            task = [other for other in self._processes if other.partition("-t")[0] == name.partition("-t")[0]]
            if len(task) > 1:
                self.at_once.append(task)
        threading.Thread(target=self._wait, args=[name, process], daemon=True).start()

    def _token(self, pod: Mapping[str, Any]) -> str:
        volume = next(each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "token")
        secret = self._fake.find("Secret", volume["secretName"])
        assert secret
        key = volume["items"][0]["key"]
        return base64.b64decode(secret["data"][key]).decode()

    def _wait(self, name: str, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with self._lock:
            self._processes.pop(name, None)
        if self.frozen:
            return
        with suppress(FakeRefusal):
            if name in self._ending:
                self._fake.nodes.let_go(name)
            else:
                self._fake.nodes.finish(name, code if code >= 0 else 128 - code)

    def _end(self, name: str, grace_sec: float) -> None:
        self._ending.add(name)
        process = self._processes.get(name)
        if process is None:
            self._fake.nodes.let_go(name)
            return
        threading.Timer(min(grace_sec, 5.0), _kill, [process]).start()

    def kill(self, name: str) -> None:
        """Everything in the pod ends at once, without a word."""
        _kill(self._processes[name])

    def close(self) -> None:
        """End all agents."""
        self._closed.set()
        self.frozen = True
        self._watch.stop()
        with self._lock:
            left = list(self._processes.values())
        for process in left:
            _kill(process)
        self._addresses.join(10)
        self._api.close()

    def pods(self) -> list[str]:
        """The names of all pods of tasks that exist."""
        found = self._fake.listed("Pod")
        return [
            each["metadata"]["name"] for each in found if each["metadata"]["labels"].get(labels.COMPONENT) == "task"
        ]


def _kill(process: subprocess.Popen[bytes]) -> None:
    root = processes.identify(process.pid)
    if root:
        processes.kill(lambda: [root, *processes.descendants(process.pid)] if processes.is_alive(root) else [])
