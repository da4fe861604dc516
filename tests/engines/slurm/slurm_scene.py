"""Jobs in an allocation without Slurm: real agents, supervisors and link, with stand-ins for Slurm's commands only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from tests.engines.cluster.process_cluster import AGENT
from tests.engines.cluster.scene import ClusterScene, call_meanwhile

from kedge import processes
from kedge.contract import ALLOCATION_TIME_LIMIT, TaskTimeLimit
from kedge.engines.base import JobOutcome, Task
from kedge.engines.cluster.backend import ClusterSettings
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.controller import progress
from kedge.engines.controller.job import run_job
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.controller.time_limits import SLACK_SEC
from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.in_allocation.allocation import AllocationTime, SlurmAllocation, TimeQuestion
from kedge.engines.slurm.in_allocation.backend import SlurmBackend
from kedge.engines.slurm.in_allocation.ends import AllocationEnd
from kedge.engines.slurm.in_allocation.steps import SlurmSteps, StepEnding
from kedge.link.launch import AgentOrders
from kedge.plan.model import Plan
from kedge.testing.wait import wait_until

# Starts an agent for each task, in turn on n1 and n2. scancel ends it with all of them.
_SRUN = """\
import os, signal, subprocess, sys
from kedge import processes
folder, agent, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
orders, agents = sys.stdin.buffer.read(), []
def end(*_):
    for each in agents:
        processes.kill_tree(each.pid)
signal.signal(signal.SIGTERM, end)
open(folder + "/srun.pid", "w").write(str(os.getpid()))
for index in range(count):
    node = f"n{1 + index % 2}"
    print(f"srun: launching StepId=7.0 on host {node}, 1 tasks: {index}", flush=True)
    argv = [sys.executable, "-I", "-S", agent, "--index-variable", "SLURM_PROCID", "--node-variable", "SLURMD_NODENAME"]
    variables = {**os.environ, "SLURM_PROCID": str(index), "SLURMD_NODENAME": node}
    agents.append(subprocess.Popen(argv, stdin=subprocess.PIPE, env=variables, start_new_session=True))
    agents[-1].stdin.write(orders)
    agents[-1].stdin.close()
open(folder + "/agents", "w").write(" ".join(str(each.pid) for each in agents) + " .")
sys.exit(max(abs(each.wait()) for each in agents))
"""
_COMMANDS = {
    "scontrol": 'if [ "$1" = requeue ]; then cat requeue.says >&2; exit "$(cat requeue.code)"; fi; '
    'case "$*" in *"show node"*) cat nodes.says;; *) cat scontrol.says; esac',
    "sacct": "cat sacct.says",
    "squeue": "cat squeue.says; touch squeue.asked",
    "scancel": 'kill "$(cat srun.pid)"',
}
HERE = SlurmAllocation("7", 0, "main")


class LeftAllocation(Exception):
    """The controller has left its allocation; the argument is an AllocationEnd."""


class SlurmScene(ClusterScene):
    """`limit_sec` is what the allocation has left for tasks. With `may_requeue` the job may ask for another one."""

    slurm: Path
    stops: Stops
    limit_sec: float | None = None
    may_requeue = False

    def install(self, folder: Path) -> None:
        """Make the stand-ins. The job runs, so do all nodes, and nobody keeps accounts."""
        self.slurm = folder
        folder.mkdir()
        for name, body in _COMMANDS.items():
            (folder / name).write_text(f"#!/bin/sh\ncd '{folder}'\n{body}\n")
            (folder / name).chmod(0o755)
        self.says("sacct", "")
        self.says("squeue", "0:00")
        self.says("nodes", "NodeName=n1 State=MIXED\nNodeName=n2 State=MIXED\n")
        self.requeue("", 0)
        self.allocation("RUNNING")

    def says(self, program: str, text: str) -> None:
        """What a command says from now on."""
        path = self.slurm / f"{program}.says"
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)

    def allocation(self, state: str, reason: str = "None", restarts: int = 0) -> None:
        """What Slurm says about the job from now on."""
        text = f"JobId=7 JobName=j JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts={restarts}\n"
        self.says("scontrol", text)

    def requeue(self, text: str, code: int) -> None:
        """How Slurm answers when the job asks for another allocation."""
        self.says("requeue", text)
        (self.slurm / "requeue.code").write_text(str(code))

    def step_says(self, *lines: str) -> None:
        """What Slurm says in the output of the step."""
        with open(self.files.folder / "step-0-w.log", "a") as log:
            log.write("".join(f"{line}\n" for line in lines))

    def agents(self) -> list[int]:
        """The pids of the main processes of the step's tasks, once all have started."""
        path = self.slurm / "agents"
        wait_until(lambda: path.exists() and path.read_text().endswith("."), 120)
        return [int(pid) for pid in path.read_text().split()[:-1]]

    def end_step(self) -> None:
        """Slurm kills all processes of the step."""
        for pid in self.agents():
            processes.kill_tree(pid)

    def in_allocation(
        self, made: Plan, during: Callable[[], object] | None = None, settings: ClusterSettings | None = None
    ) -> JobOutcome:
        """How the job ended. `during` is called in another thread."""
        with ExitStack() as stack:
            self.stops = stack.enter_context(Stops())
            stack.enter_context(call_meanwhile(during, self.stops))
            backend = stack.enter_context(self.backend_of(made, settings or ClusterSettings(), self.stops))
            now = progress.beginning(made, self.run)
            if self.limit_sec is not None:
                limit = TaskTimeLimit(ALLOCATION_TIME_LIMIT, self.limit_sec)
                ask = partial(TimeQuestion, SlurmSite(str(self.slurm)), HERE)
                backend.time = AllocationTime(ask, limit, 0.0)
                backend.time.say = lambda text: self.emit("note", text=text)
                backend.time_is_over = lambda limit: now.limits.within(limit, time.monotonic() - SLACK_SEC)
            return run_job(made, self.run, backend, self.stops, self.emit, lambda: 0.0, now)

    @contextmanager
    def backend_of(self, made: Plan, settings: ClusterSettings, stops: Stops) -> Iterator[SlurmBackend]:
        """The backend of the controller of this job."""
        identity = os.urandom(8).hex()  # agents know by it that another controller has come
        server = LinkServer(
            self.keys, lambda *task: backend.expects(*task), identity, unreachable_sec=settings.unreachable_sec
        )
        address = {"addresses": ["127.0.0.1"], "port": server.port, "controller": identity}
        self.files.write(self.files.address, address)

        def line(attempt: int, role: str, without: Collection[str]) -> tuple[str, ...]:
            count = str(made.role(role).instances)
            return (sys.executable, "-c", _SRUN, str(self.slurm), str(AGENT), count)

        def orders(attempt: int, role: str, tokens: Sequence[str]) -> bytes:
            link = (["127.0.0.1"], server.port, self.keys.certificate, self.run.id, str(self.files.address))
            return AgentOrders(*link, attempt, role, list(tokens)).line()

        def cancel(step: str) -> None:
            subprocess.run([str(self.slurm / "scancel"), step], check=False, stderr=subprocess.DEVNULL)

        steps = SlurmSteps(made, self.files, line, orders, StepEnding(cancel, lambda *facts: None, lambda text: None))
        backend = SlurmBackend(
            made, self.run, self.secrets, self.keys, server, steps, self.emit, stops.take, settings,
            steps=steps, stops=stops, site=SlurmSite(str(self.slurm)), here=HERE, leave=_leave,
        )  # fmt: skip
        backend.may_requeue = self.may_requeue
        backend.shortage = lambda lost: "too few nodes are left"
        try:
            yield backend
        finally:
            backend.close()

    def codes(self) -> dict[Task, int]:
        """The codes with which tasks have ended."""
        return {Task(facts["role"], facts["index"]): facts["code"] for facts in self.seen("task-completed")}


def _leave(end: AllocationEnd) -> NoReturn:
    raise LeftAllocation(end)
