"""An engine whose tasks run on a cluster that is this machine, while its controller runs as on one machine."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack

from kedge.engines.base import JobOutcome
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.local.engine import LocalEngine
from kedge.jobs import link_keys
from kedge.keeper import become_subreaper
from kedge.link.launch import AgentOrders
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run

from .process_cluster import ProcessCluster


class ProcessEngine(LocalEngine):
    """The local engine, but its tasks have agents."""

    name = "process"
    mirrored: int | None = None  # bytes of outputs
    relaunches = False

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        become_subreaper()
        keys = link_keys.made()

        def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
            server = LinkServer(keys, lambda *task: backend.expects(*task), os.urandom(8).hex())
            orders = AgentOrders(["127.0.0.1"], server.port, keys.certificate, run.id, None, 0, "", [], self.mirrored)
            shares = self.mirrored is None
            hidden = None if shares else run.path
            cluster = ProcessCluster(run.path / "agents.json", orders, hidden=hidden, relaunches=self.relaunches)
            settings = ClusterSettings(shares_folder=shares)
            backend = ClusterBackend(plan, run, secrets, keys, server, cluster, log, stops.take, settings)
            stack.callback(backend.close)
            return run_job(plan, run, backend, stops, log, random.random)

        return controlled(run, body, plan)


class MirroringEngine(ProcessEngine):
    """The nodes do not have the run folder, and each attempt of a task has an agent of its own, as in pods."""

    name = "mirroring"
    mirrored = 1 << 20
    relaunches = True
