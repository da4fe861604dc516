"""Measures the init phase of a pod with the built-in list: CPU and wall time as ratios to the start of an interpreter.

    python benchmarks/init_phase.py [ROUNDS [PROFILE]]

The phase runs from a bundle, in a new work folder each time: it copies the runtime's tree, reads a framework from an
API server, makes variables, hooks and the TaskSpec, binds the task's ports, and asks a registry for the image. Both
servers are on the loopback interface, over HTTP, in a process of their own. The cases take turns. With a PROFILE (a
file), one more phase writes the times of its imports there (`-X importtime`).

Work folders are in memory (/dev/shm), because the time that a disk's file system takes to make 500 files says nothing
about the phase; MEMORY= (empty) puts them with other temporary files.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socketserver
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kedge.bundle import build, layers
from kedge.bundle.build import Bundle

NAME = "0fc91ea6e37625ea79fce7f32891d139"
UID = "f1020521-9bda-11ea-830b-000d3ab25bb6"
GOAL = 10  # starts of an interpreter
ROLES = {"master": 1, "worker": 3}
CONFIG = """\
protocolVersion: 2
name: bench
type: job
prerequisites:
- {{name: image, type: dockerimage, uri: "{registry}/team/image:1"}}
taskRoles:
  master:
    instances: 1
    dockerImage: image
    resourcePerInstance: {{cpu: 4, memoryMB: 8192, gpu: 1, ports: {{tcp: 3}}}}
    commands: [echo "$PAI_TASK_INDEX", 'python train.py --workers 3']
  worker:
    instances: 3
    dockerImage: image
    resourcePerInstance: {{cpu: 4, memoryMB: 8192, gpu: 1}}
    commands: [python train.py]
"""
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}).encode()


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    memory = os.environ.get("MEMORY", "/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        os.environ.setdefault("XDG_CACHE_HOME", f"{folder}/cache")
        bundle = build.ensure(layers.available())
        tree = _tree(bundle, Path(folder, "tree"))
        server, port = _start_server()
        try:
            environment = _environment(port)
            if len(sys.argv) > 2:
                _profile(bundle, tree, Path(folder, "profile"), environment, sys.argv[2])
            _show(_measure(tree, Path(folder), environment, rounds))
        finally:
            os.kill(server, 9)
            os.waitpid(server, 0)


def _tree(bundle: Bundle, tree: Path) -> Path:
    """The tree as the image has it in /opt/kube-runtime."""
    shutil.copytree(bundle.path, tree / "kedge")
    for name in ("init", "runtime"):
        shutil.copy(bundle.path / name, tree / name)
    shutil.copytree(bundle.path / "init.d", tree / "init.d")
    return tree


def _environment(port: int) -> dict[str, str]:
    numbers = {f"PAI_TASK_ROLE_TASK_COUNT_{role}": str(number) for role, number in ROLES.items()}
    return {
        "PATH": os.environ["PATH"],
        "KUBE_APISERVER_ADDRESS": f"http://127.0.0.1:{port}",
        "GANG_ALLOCATION": "true",
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": NAME,
        "FC_TASKROLE_NAME": "master",
        "FC_TASK_INDEX": "0",
        "FC_POD_UID": UID,
        "PAI_JOB_NAME": "me~bench",
        "PAI_FRAMEWORK_NAME": "me~bench",
        "PAI_USER_NAME": "me",
        "PAI_TASK_ROLE_LIST": ",".join(ROLES),
        "PAI_CURRENT_TASK_ROLE_NAME": "master",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
        "USER_CMD": "echo start\npython train.py",
        **numbers,
    }


def _measure(tree: Path, folder: Path, environment: dict[str, str], rounds: int) -> dict[str, list[float]]:
    samples: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        work, config = folder / f"pai-{number}", folder / f"config-{number}"
        work.mkdir()
        config.mkdir()
        places = {"PAI_WORK_DIR": str(work), "PAI_CONFIG_DIR": str(config)}
        cases = {
            "installed Python -c pass": ([sys.executable, "-I", "-S", "-c", "pass"], environment),
            "init phase": ([str(tree / "init")], environment | places),
            "only the tree": ([str(tree / "init")], places | {"FC_POD_UID": UID, "PATH": os.environ["PATH"]}),
        }
        for name, (argv, variables) in cases.items():
            samples.setdefault(name, []).append(_cost(argv, variables, folder / "output"))
        shutil.rmtree(work)
    return {
        name: [sorted(column)[rounds // 2] for column in zip(*pairs, strict=True)] for name, pairs in samples.items()
    }


def _cost(argv: list[str], environment: dict[str, str], output: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a process."""
    with open(output, "wb") as file:
        actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1), (os.POSIX_SPAWN_DUP2, file.fileno(), 2)]
        begin = time.perf_counter()
        pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        wall = time.perf_counter() - begin
    assert status == 0, output.read_text()
    return wall, usage.ru_utime + usage.ru_stime


def _profile(bundle: Bundle, tree: Path, work: Path, environment: dict[str, str], target: str) -> None:
    """Write how long each import of a phase takes."""
    start = list(build.command(bundle, str(tree / "kedge"))[:-1])
    argv = [*start, "-X", "importtime", f"{tree}/kedge/site/kedge/init.pyc"]
    _cost(argv, environment | {"PAI_WORK_DIR": str(work), "PAI_CONFIG_DIR": str(work / "none")}, Path(target))


def _show(costs: dict[str, list[float]]) -> None:
    wall, cpu = costs["installed Python -c pass"]
    print(f"{'':28}{'wall ms':>9}{'CPU ms':>9}{'ratio of wall':>15}{'ratio of CPU':>14}")
    for name, (this_wall, this_cpu) in costs.items():
        ratios = f"{this_wall / wall:15.2f}{this_cpu / cpu:14.2f}"
        print(f"{name:28}{this_wall * 1000:9.1f}{this_cpu * 1000:9.1f}{ratios}")
    print(f"goal: the CPU time of the init phase is below that of {GOAL} starts")


def _start_server() -> tuple[int, int]:
    """A process that is the API server and the registry: its id, and its port."""
    server = _Server(("127.0.0.1", 0), _Handler)
    port: int = server.server_address[1]
    pid = os.fork()
    if pid == 0:
        server.framework = json.dumps(_framework(f"127.0.0.1:{port}")).encode()
        server.serve_forever()
    server.server_close()
    return pid, port


def _framework(registry: str) -> dict[str, Any]:
    ports = {"schedulePortStart": 15000, "schedulePortEnd": 40000, "ports": {"ssh": {"count": 1}, "http": {"count": 1}}}
    pod = {"metadata": {"annotations": {"rest-server/port-scheduling-spec": json.dumps(ports)}}}
    statuses = [
        {"name": role, "taskStatuses": [_task(role, index) for index in range(number)]}
        for role, number in ROLES.items()
    ]
    annotations = {"jobName": "me~bench", "config": CONFIG.format(registry=registry)}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": NAME, "namespace": "default", "labels": {"userName": "me"}, "annotations": annotations},
        "spec": {
            "executionType": "Start",
            "taskRoles": [{"name": role, "taskNumber": number, "task": {"pod": pod}} for role, number in ROLES.items()],
        },
        "status": {
            "state": "AttemptPreparing",
            "attemptStatus": {"id": 0, "taskRoleStatuses": statuses},
        },
    }


def _task(role: str, index: int) -> dict[str, Any]:
    attempt = {
        "id": 0, "podUID": UID if role == "master" else f"{UID}-{index}", "podIP": "127.0.0.1",
        "podHostIP": "127.0.0.1", "completionStatus": None,
    }  # fmt: skip
    return {"index": index, "state": "AttemptPreparing", "deletionPending": False, "attemptStatus": attempt}


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    framework = b""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Answer as an API server or as a registry."""
        self.do_HEAD()

    def do_HEAD(self) -> None:
        """The same without a body."""
        if self.path.startswith("/apis/"):
            self._answer(self.server.framework, "application/json")
        else:
            self._answer(MANIFEST, "application/vnd.oci.image.manifest.v1+json")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


if __name__ == "__main__":
    main()
