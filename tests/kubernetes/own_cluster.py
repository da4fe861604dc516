"""A cluster that the tests start: its programs, and what can be done to them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.slurm.cluster import is_alive
from tests.slurm.guard import started

from kedge.testing.wait import wait_until

from . import certificates, control_plane, images, leftovers, nodes, programs
from .addresses import NODES, Addresses
from .cluster import DEADLINE, Cluster, environment

GPUS = 4  # that each node claims to have
_ROOT = Path(__file__).parents[2]


class OwnCluster(Cluster):
    """Its state is in its folder, so that several processes can use it. A guard ends it with the process `owner`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "certificates" / "admin.kubeconfig")
        self.folder = folder

    @property
    def addresses(self) -> Addresses:
        return Addresses(int((self.folder / "slot").read_text()))

    def start(self, owner: int) -> None:
        """Start everything and wait until both nodes take pods."""
        self.folder.mkdir(mode=0o755)
        guard = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.kubernetes.guard import main; main()"
        argv = [sys.executable, "-IS", "-c", guard, str(_ROOT), str(self.folder), str(owner)]
        started(argv, dict(os.environ), str(self.folder / "guard.log"))
        wait_until((self.folder / "guard").exists, DEADLINE, "the guard of the cluster")
        (self.folder / "certificates").mkdir()
        certificates.make(self.folder / "certificates", self.addresses)
        self._add_addresses()
        self.run("etcd", control_plane.etcd(self.folder, self.addresses))
        self.start_api_server()
        self.run("kube-controller-manager", control_plane.controller_manager(self.folder, self.addresses))
        self.run("kube-scheduler", control_plane.scheduler(self.folder, self.addresses))
        for node in NODES:
            nodes.prepare(self.folder / node, node, self.addresses)
            self.start_node(node)
        images.load(self, images.pause(self.folder / "pause.tar"))
        self.heal()

    def close(self) -> None:
        """End everything and remove the folder."""
        with contextlib.suppress(OSError):
            self._order({})

    def volume(self, name: str, mode: int) -> Path:
        """Make a folder that both nodes see at the same path."""
        folder = self.folder / "volumes" / name
        folder.mkdir(parents=True)
        folder.chmod(mode)
        return folder

    def run(self, name: str, argv: list[str]) -> int:
        """Start a program that ends with the cluster; its output goes to NAME.log. Returns its pid."""
        program = shutil.which(argv[0], path=programs.path())
        return int(self._order({"name": name, "argv": [program, *argv[1:]], "environment": environment()}))

    def runs(self, name: str) -> bool:
        """Whether a program runs that was started."""
        return is_alive(self.pid(name))

    def pid(self, name: str) -> int:
        """The pid of a program that was started last, -1 if none was."""
        file = self.folder / f"{name}.pid"
        return int(file.read_text()) if file.exists() else -1

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        """End a program by a signal."""
        pid = self.pid(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        wait_until(lambda: not is_alive(pid), DEADLINE, f"the end of {name}")

    def start_api_server(self) -> None:
        """Start the API server and wait until it answers."""
        self.run("kube-apiserver", control_plane.api_server(self.folder, self.addresses))
        wait_until(
            lambda: self.answers() or not self.runs("kube-apiserver"),
            DEADLINE,
            "the API server",
        )
        assert self.runs("kube-apiserver"), f"the API server has ended\n{self.logs()}"

    def answers(self) -> bool:
        """Whether the API server takes requests."""
        return self.kubectl("get", "--raw=/readyz", check=False) == "ok"

    def stop_api_server(self) -> None:
        """End the API server; pods continue."""
        self.end("kube-apiserver", signal.SIGKILL)  # an orderly end waits for all watches, up to a minute

    def start_node(self, node: str) -> None:
        """Start a node that has no processes."""
        folder = self.folder / node
        shutil.rmtree(folder / "containerd-state", ignore_errors=True)  # it does not survive a node
        (folder / "mounted").unlink(missing_ok=True)
        pid = self.run(f"{node}-namespace", nodes.namespace(folder))
        wait_until(lambda: (folder / "mounted").exists() or not is_alive(pid), DEADLINE, f"the mounts of {node}")
        assert is_alive(pid), (self.folder / f"{node}-namespace.log").read_text()
        self.run(f"{node}-containerd", nodes.containerd(folder, pid))
        wait_until((folder / "containerd.sock").exists, DEADLINE, f"containerd of {node}")
        self.start_kubelet(node)

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet of a node that has none."""
        pid = self.pid(f"{node}-namespace")
        self.run(f"{node}-kubelet", nodes.kubelet(self.folder / node, pid, node, self.addresses))

    def stop_kubelet(self, node: str) -> None:
        """Kill only the kubelet of a node; its pods continue."""
        self.end(f"{node}-kubelet", signal.SIGKILL)

    def lose_node(self, node: str) -> None:
        """Kill all processes of a node at once, as if it had lost its power."""
        mounts = os.readlink(f"/proc/{self.pid(f'{node}-namespace')}/ns/mnt")
        while processes := [pid for pid in _pids() if _mounts(pid) == mounts] + self.processes(node):
            for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them can do anything about the death of another
                for pid in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            wait_until(lambda killed=processes: not any(map(is_alive, killed)), DEADLINE, f"the end of {node}")  # type: ignore[misc]

    def processes(self, node: str) -> list[int]:
        """The processes of the pods of a node."""
        found: set[int] = set()
        for folder in leftovers.cgroup_folders(self.addresses.cgroup(node)):
            for place, _, _ in os.walk(folder):
                with contextlib.suppress(OSError):
                    found |= set(map(int, Path(place, "cgroup.procs").read_text().split()))
        return [pid for pid in found if is_alive(pid)]

    def ready(self, node: str) -> bool:
        """Whether the node is Ready and takes new pods."""
        found = self.get("node", node) or {}
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", [])}
        return conditions.get("Ready") == "True" and not found["spec"].get("taints")

    def drain(self, node: str, *options: str) -> str:
        """Cordon a node and evict its pods. Returns what kubectl said."""
        return self.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", *options)

    def heal(self) -> None:
        """Start what does not run, and wait until both nodes take pods and have their GPUs."""
        if not self.runs("kube-apiserver"):
            self.start_api_server()
        for node in NODES:
            if not self.runs(f"{node}-namespace"):
                self.start_node(node)
            elif not self.runs(f"{node}-kubelet"):
                self.start_kubelet(node)
        try:
            for node in NODES:
                wait_until(lambda name=node: self.get("node", name), DEADLINE, node)  # type: ignore[misc]
                self.kubectl("uncordon", node)
                self._claim_gpus(node)
            wait_until(lambda: all(map(self.ready, NODES)), DEADLINE, "both nodes ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def logs(self) -> str:
        """The state of the cluster and the ends of what its programs have logged."""
        parts = [self.kubectl("get", "nodes,pods", "--all-namespaces", "--output=wide", check=False)]
        for file in sorted(self.folder.glob("*.log")):
            lines = file.read_text(errors="replace").splitlines()[-15:]
            parts.append("\n".join([f"--- {file.name}", *(line[:500] for line in lines)]))
        return "\n".join(parts)

    def _claim_gpus(self, node: str) -> None:
        # A kubelet that has been started again has none, as no plugin tells it of any.
        patch = json.dumps([{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(GPUS)}])
        request = ("PATCH", f"/api/v1/nodes/{node}/status", patch)
        self._request(*request)

    def _request(self, method: str, path: str, body: str) -> None:
        folder = self.folder / "certificates"
        argv = ["curl", "-sS", "--fail", "-X", method, "--cacert", folder / "ca.crt", "--cert", folder / "admin.crt"]
        argv += ["--key", folder / "admin.key", "-H", "Content-Type: application/json-patch+json", "-d", body]
        subprocess.run([*argv, f"https://{self.addresses.server}{path}"], check=True, capture_output=True)

    def _add_addresses(self) -> None:
        bridge = self.addresses.bridge
        commands = [["link", "add", bridge, "type", "bridge"], ["link", "set", bridge, "up"]]
        for address in (self.addresses.server, *map(self.addresses.node, NODES)):
            commands.append(["address", "add", f"{address}/32", "dev", bridge])
        for command in commands:
            subprocess.run(["ip", *command], env={"PATH": programs.path()}, check=True)

    def _order(self, order: dict[str, object]) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / "guard"))
            with connection.makefile("rwb") as file:
                file.write(json.dumps(order).encode() + b"\n")
                file.flush()
                return bytes(file.readline())


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _mounts(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") if is_alive(pid) else ""
    except OSError:  # it has ended
        return ""
