"""Jobs of a cluster that is this machine: real agents and supervisors, the real link, the controller's own loop."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import yaml

from kedge import processes
from kedge.engines.base import JobOutcome, Task
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller import resume
from kedge.engines.controller.job import run_job
from kedge.engines.controller.stop_requests import Stops
from kedge.jobs import link_keys
from kedge.link.launch import AgentOrders
from kedge.plan.build import build
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs, Secrets
from kedge.resolve.resolve import resolve
from kedge.runs import cluster_files
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.spec.parse import parse
from kedge.testing.wait import wait_until

from .process_cluster import ProcessCluster

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
W0, W1, W2 = (Task("w", index) for index in range(3))


def plan(
    command: str, tasks: int = 1, *, gang: bool = True, job_retries: int = 0, before_stop: str = "", **role: Any
) -> Plan:
    """A job of one role `w`; `role` are more keys of it, `before_stop` is the command of a hook."""
    hook = {
        "name": "hook", "type": "script", "plugin": "com.microsoft.pai.runtimeplugin.cmd",
        "callbacks": [{"event": "beforeStop", "commands": [before_stop]}],
    }  # fmt: skip
    hooks = [hook] if before_stop else []
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0} | role.pop("resources", {})
    document = {
        "protocolVersion": 2, "name": "j", "type": "job", "jobRetryCount": job_retries,
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "x"}, *hooks],
        "taskRoles": {
            "w": {
                "dockerImage": "image", "resourcePerInstance": resources, "instances": tasks,
                "commands": command.splitlines(), "prerequisites": [each["name"] for each in hooks], **role,
            }
        },
        "extras": {"gangAllocation": gang, "kedge": {"retry": {"backoffSec": 0}}},
    }  # fmt: skip
    return build(resolve(parse(yaml.safe_dump(document)), Inputs("me")))


class ClusterScene:
    """One run. `events` are those of the controller, as (name, facts). `shared` is a folder for tests and tasks: the
    latter have its path in TEST_SHARED."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.shared = run.path.parent / "shared"
        self.files = cluster_files.of(self.run.path)
        self.keys = link_keys.made()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.cluster: ProcessCluster
        self.server: LinkServer
        self.backend: ClusterBackend
        self.absent: set[Task] = set()
        self.link_port: Callable[[int], int] = lambda port: port  # where agents dial, if a proxy is between
        self.secrets = Secrets({}, {})
        self.mirrored: int | None = None  # bytes of outputs, if the nodes do not have the run folder
        self.relaunches = False  # each task attempt has an agent of its own
        self._log: EventLog | None = None

    @classmethod
    def made(cls, folder: Path) -> Self:
        """One with a new run."""
        scene = cls(Run(folder / "j-1"))
        scene.run.path.mkdir()
        scene.run.job_dir.mkdir()
        scene.shared.mkdir()
        scene.files.make()
        return scene

    def job(
        self,
        made: Plan,
        meanwhile: Callable[[], object] | None = None,
        settings: ClusterSettings | None = None,
        stops: Stops | None = None,
    ) -> JobOutcome:
        """How the job ended. `meanwhile` is called in another thread; what it raises is raised at the end."""
        with ExitStack() as stack:
            stops = stops or stack.enter_context(Stops())
            stack.enter_context(call_meanwhile(meanwhile, stops))  # it ends after the controller, which it may wait for
            stack.enter_context(self.controller(made, stops, settings))
            progress = resume.read(made, self.run) if self._log else None
            return run_job(made, self.run, self.backend, stops, self.emit, lambda: 0.0, progress)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """From now on the events are written to the run folder, too, and a controller goes on where they end."""
        with EventLog(self.run.events) as self._log:
            yield
        self._log = None

    @contextmanager
    def first_controller(self, made: Plan, settings: ClusterSettings | None = None) -> Iterator[Callable[[], None]]:
        """Another process that is the controller of the job, and what kills it."""
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            try:
                die_with(parent)
                with self.recorded():
                    self.job(made, settings=settings)
            finally:
                os._exit(0)

        alive = True

        def kill() -> None:
            nonlocal alive
            if alive:
                alive = False
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

        try:
            yield kill
        finally:
            kill()  # a test that fails leaves nobody who holds the files of this process

    @contextmanager
    def controller(self, made: Plan, stops: Stops, settings: ClusterSettings | None = None) -> Iterator[None]:
        """A controller that listens, with the backend of this job."""
        settings = (settings or ClusterSettings())._replace(shares_folder=self.mirrored is None)
        identity = os.urandom(8).hex()
        self.server = LinkServer(
            self.keys, lambda *task: self.backend.expects(*task), identity, unreachable_sec=settings.unreachable_sec
        )
        port = self.link_port(self.server.port)
        self.files.write(self._address, {"addresses": ["127.0.0.1"], "port": port, "controller": identity})
        self.cluster = self._cluster(port)
        self.backend = ClusterBackend(
            made, self.run, self.secrets, self.keys, self.server, self.cluster, self.emit, stops.take, settings
        )
        try:
            yield
        finally:
            self.backend.close()

    @property
    def _address(self) -> Path:
        """Where agents see it."""
        return self.files.address if self.mirrored is None else self.run.path.parent / "address.json"

    @property
    def _agents(self) -> Path:
        """What the cluster remembers of them."""
        return self.run.path / "cluster" / "agents.json"

    def _cluster(self, port: int) -> ProcessCluster:
        orders = AgentOrders(
            ["127.0.0.1"], port, self.keys.certificate, self.run.id, str(self._address), 0, "", [], self.mirrored
        )  # fmt: skip
        hidden = None if self.mirrored is None else self.run.path
        made = ProcessCluster(
            self._agents,
            orders,
            hidden=hidden,
            variables=self._variables(),
            relaunches=self.relaunches,
        )
        made.absent = self.absent
        return made

    def _variables(self) -> dict[str, str]:
        found = {"TEST_SHARED": str(self.shared)}
        if self.mirrored is not None:
            found["TMPDIR"] = str(self.shared / "nodes")
            (self.shared / "nodes").mkdir(exist_ok=True)
        return found

    def has_written_report(self, task: Task) -> bool:
        """Whether the first attempt of a task has, be it that the controller does not have it yet."""
        if self.mirrored is None:
            return self.task_file(task, "report.json").exists()
        return any(self.shared.glob(f"nodes/kedge-agent-*-{task.role}-{task.task_index}/task-0/report.json"))

    def end_agents(self) -> None:
        """End those that are left: a test that fails between two controllers leaves agents that wait for the second."""
        for agent in self.known_agents():
            if processes.is_alive(agent):
                processes.kill_tree(agent.pid)
                with suppress(ChildProcessError):  # it is that of a controller which was killed
                    os.waitpid(agent.pid, 0)

    def known_agents(self) -> list[processes.Process]:
        """The agents that were launched last."""
        known = json.loads(self._agents.read_text()) if self._agents.exists() else []
        return [processes.Process(pid, start_time) for _, _, _, pid, start_time, *_ in known]

    def known_cluster(self) -> ProcessCluster:
        """The cluster as another controller finds it; `leave` it again."""
        made = self._cluster(0)
        made.adopt(0, {})
        return made

    def emit(self, event: str, **facts: Any) -> None:
        self.events.append((event, facts))
        if self._log:
            self._log.append(event, **facts)

    def seen(self, name: str) -> list[dict[str, Any]]:
        """The facts of all events of this name."""
        return [facts for event, facts in self.events if event == name]

    def task_file(self, task: Task, name: str, attempt: int = 0, task_attempt: int = 0) -> Path:
        return self.run.task(task.role, task.task_index, attempt, task_attempt) / name

    def log(self, task: Task, attempt: int = 0, task_attempt: int = 0) -> str:
        """What the task has printed."""
        path = self.task_file(task, "user-all/current", attempt, task_attempt)
        return path.read_text() if path.exists() else ""

    def report(self, task: Task, attempt: int = 0, task_attempt: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.task_file(task, "report.json", attempt, task_attempt).read_text())
        return found

    def wait_for_log(self, task: Task, text: str, attempt: int = 0, task_attempt: int = 0) -> None:
        """Wait until the task has printed it."""
        wait_until(lambda: text in self.log(task, attempt, task_attempt), 120)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends: it has inherited what others wait to be closed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was too late for that
        os._exit(1)


@contextmanager
def call_meanwhile(call: Callable[[], object] | None, stops: Stops) -> Iterator[None]:
    """Call it in another thread; what it raises is raised at the end."""
    if call is None:
        yield
        return
    raised: list[BaseException] = []

    def catch() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)
            stops.take("kill")  # the job need not go on

    thread = threading.Thread(target=catch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
        if raised:
            raise raised[0]
