"""The local engine: every task as processes on this machine, in the environment and with the tools of the user."""

from __future__ import annotations

import random
import signal
import sys
from contextlib import ExitStack

from kedge.engines.base import Outcome
from kedge.engines.controller.job import run_job
from kedge.engines.controller.log import JobLog
from kedge.engines.controller.stops import KILL, Stops
from kedge.engines.controller.subreaper import become_subreaper
from kedge.engines.local import lost
from kedge.engines.local.backend import LocalBackend
from kedge.engines.local.places import Places
from kedge.engines.machine import gpus, limits, processes, secret_files
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs import lock, status
from kedge.runs.folder import Run


class LocalEngine:
    """`allow_fewer_gpus`: start with the GPUs there are instead of refusing."""

    name = "local"

    def __init__(self, allow_fewer_gpus: bool = False) -> None:
        self._allow_fewer_gpus = allow_fewer_gpus

    def notices(self, plan: Plan) -> tuple[str, ...]:
        said = ["the local engine uses no image: tasks run in your own environment"]
        if plan.gpu_count and not gpus.count():
            said.append("this machine has no GPU: tasks run without one")
        if plan.mounts:
            wanted = ", ".join(f"{mount.name} at {mount.path}" for mount in plan.mounts)
            said.append(f"the local engine mounts no storage; the job expects {wanted}")
        return tuple(said)

    def remarks(self, plan: Plan) -> tuple[str, ...]:
        wanted = [f"{r.name} {r.resources.cpu} CPU, {r.resources.memory_mb} MiB" for r in plan.roles]
        shown = "; ".join((*wanted[:4], "…") if len(wanted) > 4 else wanted)
        return (f"CPU and memory requests are shown, not enforced here. Each task of {shown}",)

    def check(self, plan: Plan) -> None:
        if not sys.platform.startswith("linux"):
            raise CannotRun("the local engine needs Linux; elsewhere, run the job in containers")
        limits.check(tasks=plan.task_count, ports=plan.port_count)
        self._gpus_wanted(plan)

    def secrets_dir(self, run: Run) -> str:
        return secret_files.location(run)

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> Outcome:
        become_subreaper()
        with ExitStack() as stack:
            stops = stack.enter_context(Stops())
            log = stack.enter_context(JobLog(run, stops))
            try:
                outcome = self._run(plan, run, secrets, stops, log, stack)
            except CannotRun as error:
                log(status.JOB_COMPLETED, state=status.FAILED, code=None, text=str(error))
                raise
            if log.disk_full:
                outcome = outcome._replace(state=status.FAILED, text=log.disk_full, disk_full=True)
            log(status.JOB_COMPLETED, state=outcome.state, code=outcome.code, text=outcome.text)
        return outcome

    def _run(self, plan: Plan, run: Run, secrets: Secrets, stops: Stops, log: JobLog, stack: ExitStack) -> Outcome:
        open_files = limits.raise_open_files()
        secrets_dir = stack.enter_context(secret_files.written(secret_files.location(run), secrets))
        devices = stack.enter_context(gpus.acquired(self._gpus_wanted(plan)))
        backend = LocalBackend(run, Places(plan, run, secrets_dir, devices), open_files)
        stack.callback(backend.close)
        return run_job(plan, run, backend, stops, log, random.random)

    def _gpus_wanted(self, plan: Plan) -> int:
        """How many GPUs to take: what the job asks for, nothing on a machine without any. CannotRun when too few."""
        there = gpus.count() if plan.gpu_count else 0
        if 0 < there < plan.gpu_count and not self._allow_fewer_gpus:
            raise CannotRun(
                f"the job asks for {plan.gpu_count} GPUs and this machine has {there}; "
                "--allow-fewer-gpus starts it with what there is"
            )
        return min(there, plan.gpu_count)

    def stop(self, run: Run, kill: bool) -> None:
        owner = lock.owner(run.lock)
        controller = processes.identify(owner.pid) if owner else None
        if controller and lock.is_held(run.lock):  # so it is the controller that has this pid
            processes.send(controller, KILL if kill else signal.SIGTERM)
        else:
            lost.clean_up(run, kill)
