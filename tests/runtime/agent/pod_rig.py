"""The pod of a task made of local processes: its volume is a folder, and its containers are processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runtime.agent.conftest import AGENT, SITE, TASK, AgentUnderTest

from kedge.contract import StopPolicy, TaskSpec
from kedge.engines.kubernetes.objects import pod_paths
from kedge.link import pod_folders
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders
from kedge.testing.wait import wait_until

PREPARE = "import sys; from kedge.runtime.agent.prepare_pod import main; sys.exit(main(sys.argv[1:]))"
LIMIT = 1 << 20  # bytes of outputs


def prepare(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the init container with a bundle that holds two files."""
    bundle = root / "image"
    bundle.mkdir(parents=True, exist_ok=True)
    files = [{"path": "runtime", "layer": "core"}, {"path": "init.d/x", "layer": "init"}]
    (bundle / "MANIFEST.json").write_text(json.dumps({"files": files}))
    (bundle / "runtime").write_text("#!/bin/sh\n")
    argv = [sys.executable, "-c", PREPARE, "--root", str(root), "--bundle", str(bundle), *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


class PodUnderTest(AgentUnderTest):
    """An agent and a supervisor in two containers of a pod."""

    supervisor: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        return self.folder / "pod"

    def path(self, path: str) -> Path:
        """A path in the pod."""
        return Path(f"{self.root}{path}")

    def prepare(self) -> None:
        assert prepare(self.root).returncode == 0
        self.path(pod_folders.AGENT_FOLDER).mkdir(parents=True)

    def start(self, variables: dict[str, str] | None = None, **orders: Any) -> None:
        """Start the agent's container."""
        line = AgentOrders(
            ["127.0.0.1"], self.server.port, self.keys.certificate, self.run_id, str(self.address_file), self.attempt,
            "worker", [], LIMIT,
        )._replace(**orders).line()  # fmt: skip
        token = self.folder / "token"
        token.write_text(task_token(self.keys, self.attempt, *TASK))
        argv = [sys.executable, "-I", "-S", str(AGENT), *pod_paths.AGENT_COMMAND[1:], "0", "--root", str(self.root)]
        argv[argv.index(pod_folders.TOKEN_FILE)] = str(token)
        told = {pod_paths.ORDERS_VARIABLE: line.decode(), pod_paths.NODE_VARIABLE: "n7"}
        self.process = subprocess.Popen(argv, env={**os.environ, **told, **(variables or {})}, start_new_session=True)

    def start_supervisor(self) -> None:
        """Start the task's container."""
        root, command = str(self.root), [*pod_paths.SUPERVISOR_COMMAND[3:]]
        argv = [each if each.startswith("--") else root + each for each in command]
        runtime = AGENT.parent
        self.supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(runtime), *argv, "--site", SITE], cwd=self.folder, start_new_session=True
        )

    def task_folder(self, task_attempt: int = 0) -> Path:
        return self.path(f"{pod_folders.LOGS}/11111111-2222")

    def wait_for_file(self, name: str, task_attempt: int = 0) -> Path:
        path = self.folder / name
        wait_until(path.exists, what=str(path))
        return path

    def run(self, command: str, task_attempt: int = 0, secrets: Any = None, answered: bool = True, **spec: Any) -> None:
        folder = "/run/tasks/0"  # the controller's own
        whole = TaskSpec(
            user="me", job="test", job_id=self.run_id, role="worker", task_index=0, job_attempt=self.attempt,
            task_attempt=task_attempt, uid="11111111-2222", folder=folder, workdir=f"{folder}/work",
            environment={}, command=(command,), steps=(), host="127.0.0.1", ports=self.reserve(),
            peers_file="/run/peers.json", job_dir="/run/job-dir", rules=("/run/rules.json",),
            stop=StopPolicy("TERM", 600.0),
        )._replace(**spec)  # fmt: skip
        peers = {"roles": {"worker": [{"host": "127.0.0.1", "ports": whole.ports}]}}
        start = {"spec": whole.to_json(), "peers": peers, "secrets": secrets, "files": {"rules.json": {"rules": []}}}
        self.send("start", task_attempt=task_attempt, **start)
        if answered:
            self.answer_mirror()

    def answer_mirror(self, number: int = 1) -> None:
        """Say that nothing of the task's files is stored."""
        wait_until(lambda: len([one for one in self.said("file") if one["do"] == "ask"]) >= number)
        self.send("offsets", task_attempt=0, files={})

    def files(self) -> dict[str, bytes]:
        """What was sent of the files."""
        found: dict[str, bytes] = {}
        for update in [*self.updates]:
            if getattr(update, "kind", "") == "file" and update.header["do"] == "write":
                path = update.header["path"]
                found[path] = (b"" if update.header["new"] else found[path]) + update.body
        return found

    def close(self) -> None:
        super().close()
        if self.supervisor:
            (self.folder / "ready").unlink(missing_ok=True)  # there is no container that ends with its first process
            self.supervisor.kill()
            self.supervisor.wait()
