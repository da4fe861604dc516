"""The agents of many pods in one process: the agents' own protocol and mirror, around tasks that do nothing.

    python simulated_pods.py FOLDER ADDRESS_FILE

Each line on stdin is JSON: {"pod", "orders", "index", "token"} for a pod that runs now, or {"end": true}: all tasks
end. Each line on stdout is JSON, too: {"started", "connected", "controller"}: how many tasks run, and how many agents
are connected to the controller of the latest connection; or {"pod"}: its agent has ended.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

from kedge.contract import EVENTS_FILE, LOG_TIMES, REPORT_FILE, RUNTIME_LOG, SUPERVISOR_LOG
from kedge.link import messages
from kedge.link.frames import LinkFrame
from kedge.link.launch import AgentOrders
from kedge.open_files import raise_limit
from kedge.runtime.agent import addresses
from kedge.runtime.agent.connection import AgentConnection, AgentFacts
from kedge.runtime.agent.mirror import TaskMirror

TIME = "2026-01-01T00:00:00.000000000Z"
NEVER = float("inf")
STREAMS = ("user-stdout", "user-stderr", "user-all")


class SimulatedPod:
    """The agent of one pod, and what its task leaves."""

    def __init__(self, pod: str, orders: AgentOrders, index: int, folder: Path) -> None:
        self.pod, self.finished, self.started = pod, False, False
        self._task, self._folder = f"{orders.role}:{index}", folder
        self._ports: dict[str, list[int]] | None = None
        self._ended: dict[str, Any] | None = None
        self._limit = orders.mirrored or 0
        self._mirror: TaskMirror | None = None
        self._controller = ""
        facts = AgentFacts(index, "node", addresses.of_node(["127.0.0.1"]), addresses.boot_id(), os.getpid())
        self.link = AgentConnection(orders, facts, self._state)

    def _state(self) -> dict[str, Any]:
        attempt = 0 if self.started else None
        return {"ports": self._ports, "task_attempt": attempt, "started": self.started, "ended": None}

    @property
    def due(self) -> float:
        return min(self.link.due, self._mirror.due if self._mirror and self.link.room > 0 else NEVER)

    def turn(self) -> None:
        for frame in self.link.poll():
            self._obey(frame)
        if self.finished:
            return
        if self.link.controller != self._controller:
            self._controller = self.link.controller
            if self.started:  # another one, which may not have what the one before had
                self._begin_mirror()
        if self._mirror:
            self._mirror.poll()
            if self._mirror.done:
                self._mirror.close()
                self._mirror = None
                self.link.send(messages.ENDED, self._ended or {})

    def _obey(self, frame: LinkFrame) -> None:
        if frame.kind == messages.RESERVE:
            self._ports = {label: [20000] * count for label, count in frame.header["ports"].items()}
            self.link.send(messages.RESERVED, {"ports": self._ports})
        elif frame.kind == messages.START and not self.started:
            self._start()
        elif frame.kind == messages.OFFSETS and self._mirror:
            self._mirror.offsets(frame)
        elif frame.kind in (messages.FINISH, messages.REFUSED):
            self.finished = True
            self.link.close()

    def _start(self) -> None:
        self.started = True
        for event in ("starting", "running"):
            self._write(EVENTS_FILE, json.dumps(self._line(event)) + "\n")
            self.link.send(messages.EVENT, {"task_attempt": 0, "line": self._line(event)})
        for stream in STREAMS:
            self._write(f"{stream}/current", "hello\n")
            self._write(f"{LOG_TIMES}/{stream}/current", "0 1767225600000000000\n")
        for name in (RUNTIME_LOG, SUPERVISOR_LOG, f"{LOG_TIMES}/{RUNTIME_LOG}"):
            self._write(name, "the task has started\n")
        self._begin_mirror()

    def end(self) -> None:
        """The task ends well."""
        report = {
            "task": self._task, "job_attempt": 0, "task_attempt": 0, "exit_code": 0, "user_exit_code": 0,
            "reason": "succeeded", "message": "the command succeeded", "started": TIME, "ended": TIME,
            "duration_sec": 0.1, "stopped_by": None, "killed": False, "removed_bytes": None, "diagnosis": None,
            "evidence": None, "hooks": None, "retry_after_sec": None, "time_limit": None, "limit_reached": None,
            "version": 1,
        }  # fmt: skip
        self._write(REPORT_FILE, json.dumps(report))
        self._ended = {"task_attempt": 0, "report": report, "code": 0, "text": ""}
        if self._mirror:
            self._mirror.finish()

    def _begin_mirror(self) -> None:
        if self._mirror:
            self._mirror.close()

        def send(header: dict[str, Any], body: bytes) -> None:
            self.link.send(messages.FILE, header, body)

        self._mirror = TaskMirror(str(self._folder), 0, send, lambda: self.link.room, output_limit=self._limit)
        if self._ended:
            self._mirror.finish()

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def _line(self, event: str) -> dict[str, Any]:
        head = {"time": TIME, "task": self._task, "job_attempt": 0, "task_attempt": 0}
        return {**head, "event": event, "pid": os.getpid(), "start_time": 1}


class SimulatedPods:
    """All of them, and the loop."""

    def __init__(self, folder: Path, address_file: str) -> None:
        self._folder, self._address_file = folder, address_file
        self._pods: dict[int, SimulatedPod] = {}  # by the descriptor of their links
        self._epoll = select.epoll()
        self._epoll.register(0, select.EPOLLIN)
        os.set_blocking(0, False)
        self._partial, self._told = b"", ""

    def run(self) -> None:
        """Until stdin ends."""
        while True:
            now = time.monotonic()
            due = min((pod.due for pod in self._pods.values()), default=NEVER)
            found = {fd for fd, _ in self._epoll.poll(max(0.0, min(due - now, 0.5)))}
            if 0 in found and not self._read():
                return
            now = time.monotonic()
            for fd, pod in list(self._pods.items()):
                if fd in found or pod.due <= now:
                    pod.turn()
                    if pod.finished:
                        del self._pods[fd]
                        say({"pod": pod.pod})
            self._tell()

    def _read(self) -> bool:
        data = os.read(0, 1 << 20)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return bool(data)

    def _take(self, said: dict[str, Any]) -> None:
        if "end" in said:
            for pod in self._pods.values():
                pod.end()
            return
        orders, index = AgentOrders.from_line(said["orders"].encode()), said["index"]
        tokens = [said["token"]] * (index + 1)
        local = orders._replace(tokens=tokens, addresses=["127.0.0.1"], address_file=self._address_file)
        folder = self._folder / said["pod"]
        folder.mkdir()
        pod = SimulatedPod(said["pod"], local, index, folder)
        self._pods[pod.link.fileno()] = pod
        self._epoll.register(pod.link.fileno(), select.EPOLLIN)

    def _tell(self) -> None:
        connected: dict[str, int] = {}
        for pod in self._pods.values():
            if pod.link.connected:
                connected[pod.link.controller] = connected.get(pod.link.controller, 0) + 1
        now = {"started": sum(pod.started for pod in self._pods.values()), "connected": connected}
        if (text := json.dumps(now)) != self._told:
            self._told = text
            say(now)


def say(said: dict[str, Any]) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    raise_limit()
    SimulatedPods(Path(sys.argv[1]), sys.argv[2]).run()
