"""A controller that a test speaks for, with a real link, real agents and real supervisors."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import re2

import kedge
from kedge.contract import StopPolicy, TaskSpec
from kedge.engines.base import Task
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import Joined, Message
from kedge.jobs import link_keys
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders
from kedge.testing.wait import wait_until

AGENT = Path(kedge.__file__).parent / "runtime" / "agent"
SITE = str(Path(re2.__file__).parents[1])
TASK = Task("worker", 0)


class AgentUnderTest:
    """One agent of task worker:0, its controller, and what they say."""

    attempt = 3  # of the job
    argv = (sys.executable, "-I", "-S", str(AGENT), "--site", SITE)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = link_keys.made()
        self.server = LinkServer(self.keys, lambda *_who: True, "first")
        self.updates: list[Any] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.address_file = folder / "run" / "cluster" / "address.json"
        self.tmp = folder / "node"  # node-local disk
        for each in (self.address_file.parent, self.tmp):
            each.mkdir(parents=True)
        self.tell_address(self.server.port)
        self.run_id = f"me~{folder.name}-{os.getpid()}"
        # For tests that take a while before they look: heartbeats and acknowledgements go on.
        self.lock = threading.Lock()
        self.closed = False  # nobody listens
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def tell_address(self, port: int) -> None:
        self.address_file.write_text(json.dumps({"addresses": ["127.0.0.1"], "port": port, "controller": "first"}))

    def _serve(self) -> None:
        while not self.over.wait(0.01):
            with self.lock:
                self.updates += [] if self.closed else self.server.poll()

    def lose_controller(self) -> None:
        """Nobody listens any more."""
        with self.lock:
            self.closed = True
            self.server.close()

    def restart_controller(self) -> None:
        """Another controller, on another port, which knows nothing."""
        with self.lock:
            self.server.close()  # again, if it was lost before
            self.closed = False
            self.server = LinkServer(self.keys, lambda *_who: True, "second")
            self.tell_address(self.server.port)

    def start(self, variables: dict[str, str] | None = None, **orders: Any) -> None:
        """Start an agent as a scheduler does."""
        token = task_token(self.keys, self.attempt, *TASK)
        line = AgentOrders(
            ["127.0.0.1"], self.server.port, self.keys.certificate, self.run_id, str(self.address_file), self.attempt,
            "worker", [token],
        )._replace(**orders).line()  # fmt: skip
        argv = [*self.argv, "--index-variable", "INDEX", "--node-variable", "NODE"]
        environment = {**os.environ, "INDEX": "0", "NODE": "n7", "TMPDIR": str(self.tmp), **(variables or {})}
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment, start_new_session=True)
        assert self.process.stdin
        with self.process.stdin as stdin:
            stdin.write(line)

    def send(self, kind: str, **header: Any) -> None:
        """Send a command."""
        with self.lock:
            assert self.server.send(TASK, kind, header)

    def joins(self) -> list[Joined]:
        """All that has joined so far."""
        return [update for update in self.updates if isinstance(update, Joined)]

    def joined(self, number: int = 1) -> Joined:
        """Wait until an agent has joined so often."""
        return wait_until(lambda: self.joins()[number - 1 :], what="the agent")[0]

    def said(self, kind: str) -> list[dict[str, Any]]:
        """The messages of a kind so far."""
        return [update.header for update in self.updates if isinstance(update, Message) and update.kind == kind]

    def wait_for(self, kind: str, number: int = 1) -> dict[str, Any]:
        """Wait for so many messages of a kind; the last one."""
        return wait_until(lambda: self.said(kind)[number - 1 :], what=kind)[0]

    def events(self) -> list[str]:
        """The events of supervisors so far."""
        return [header["line"]["event"] for header in self.said("event")]

    def wait_for_event(self, event: str, task_attempt: int = 0) -> dict[str, Any]:
        """Wait for an event of a task attempt."""

        def found() -> list[dict[str, Any]]:
            of_attempt = [each["line"] for each in self.said("event") if each["task_attempt"] == task_attempt]
            return [line for line in of_attempt if line["event"] == event]

        return wait_until(found, what=event)[0]

    def reserve(self, **counts: int) -> dict[str, list[int]]:
        """Let the agent take ports."""
        self.joined()
        before = len(self.said("reserved"))
        self.send("reserve", ports=counts or {"ssh": 1, "http": 2})
        ports: dict[str, list[int]] = self.wait_for("reserved", before + 1)["ports"]
        return ports

    def task_folder(self, task_attempt: int = 0) -> Path:
        return self.folder / "run" / "tasks" / str(task_attempt)

    def run(self, command: str, task_attempt: int = 0, secrets: Any = None, **spec: Any) -> None:
        """Let the agent start a task attempt."""
        folder = self.task_folder(task_attempt)
        whole = TaskSpec(
            user="me", job="test", job_id=self.run_id, role="worker", task_index=0, job_attempt=self.attempt,
            task_attempt=task_attempt, uid="11111111-2222", folder=str(folder), workdir=f"{folder}/work",
            environment={}, command=(command,), steps=(), host="127.0.0.1", ports=self.reserve(), peers_file="",
            stop=StopPolicy("TERM", 600.0),
        )._replace(**spec)  # fmt: skip
        peers = {"roles": {"worker": [{"host": "127.0.0.1", "ports": whole.ports}]}}
        self.send("start", task_attempt=task_attempt, spec=whole.to_json(), peers=peers, secrets=secrets)

    def control(self, what: str, task_attempt: int = 0) -> None:
        self.send("control", task_attempt=task_attempt, what=what)

    def ended(self, number: int = 1) -> dict[str, Any]:
        """Wait for the end of so many task attempts."""
        return self.wait_for("ended", number)

    def wait_for_file(self, name: str, task_attempt: int = 0) -> Path:
        """Wait for a file that the command makes in its folder."""
        path = self.task_folder(task_attempt) / "work" / name
        wait_until(path.exists, what=str(path))
        return path

    def agent_pid(self, number: int = 1) -> int:
        return self.joined(number).hello.pid

    def supervisor_pid(self, task_attempt: int = 0) -> int:
        pid: int = self.wait_for_event("starting", task_attempt)["pid"]
        return pid

    def finish(self) -> int:
        """Let the agent finish; the exit code of its task."""
        self.send("finish")
        assert self.process
        return self.process.wait(60)

    @property
    def state_file(self) -> Path:
        (folder,) = self.tmp.iterdir()
        return folder / "state.json"

    def all_is_safe(self) -> None:
        """Wait until the agent knows that the controller has all events so far."""
        wait_until(lambda: json.loads(self.state_file.read_text())["events"] == len(self.events()) > 0)

    def leftovers(self) -> list[str]:
        """What is left on the node."""
        memory = [name for name in os.listdir("/dev/shm") if self.run_id.replace("~", "") in name.replace("~", "")]
        return [*os.listdir(self.tmp), *memory]

    def close(self) -> None:
        self.over.set()
        self.thread.join()
        self.server.close()
        if self.process and self.process.poll() is None:
            below = _descendants(self.process.pid)
            for pid in (self.process.pid, *below):
                _kill(pid)
            self.process.wait(60)


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in map(int, children) for found in (child, *_descendants(child))]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentUnderTest]:
    """An agent and its controller; nothing has been started."""
    found = AgentUnderTest(tmp_path)
    yield found
    found.close()


@pytest.fixture
def bound() -> Callable[[int], bool]:
    """Whether a port is taken on this machine."""

    def is_bound(port: int) -> bool:
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                return True
        return False

    return is_bound


@pytest.fixture(name="alive")
def alive_fixture() -> Callable[[int], bool]:
    """Whether a process runs (a zombie does not)."""

    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return alive
