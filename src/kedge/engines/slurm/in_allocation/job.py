"""Runs a whole job inside an allocation of Slurm."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from kedge.engines.base import JobOutcome
from kedge.engines.cluster.claim import Claim
from kedge.engines.cluster.link_admission import Expect
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.own_addresses import own_addresses
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller import progress, resume
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.progress import Progress
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.controller.time_limits import SLACK_SEC
from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.in_allocation import allocation, ends, nodes_left
from kedge.engines.slurm.in_allocation.allocation import SlurmAllocation, TimeQuestion
from kedge.engines.slurm.in_allocation.backend import SlurmBackend
from kedge.engines.slurm.in_allocation.ends import AllocationEnd
from kedge.engines.slurm.in_allocation.inside_commands import InsideCommands
from kedge.engines.slurm.in_allocation.step_commands import StepCommands
from kedge.engines.slurm.in_allocation.steps import SlurmSteps, StepEnding
from kedge.engines.slurm.options import SlurmOptions
from kedge.errors import EXIT_FAILED, CannotRun
from kedge.link.keys import LinkKeys
from kedge.open_files import raise_limit
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.spec.units import seconds

_BUNDLED = "site/kedge/controller.pyc"


def run(
    plan: Plan, run: Run, secrets: Secrets, options: Mapping[str, Any], here: SlurmAllocation, question: TimeQuestion
) -> JobOutcome:
    """Run the job to its end, in the allocation of this process. `question` has been asked."""
    chosen = SlurmOptions(**options)
    site = SlurmSite(chosen.commands, chosen.conf)
    keys = _keys(run)
    bundle = bundle_folder()
    controller = os.urandom(8).hex()
    claim = Claim(run, here.restarts, controller)
    settings = ClusterSettings(barrier_sec=seconds(chosen.barrier), unreachable_sec=seconds(chosen.unreachable))

    def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
        open_files = raise_limit()
        server = _listening(keys, controller, chosen, lambda *task: backend.expects(*task))
        addresses = own_addresses()
        say = StepCommands(plan, chosen, run, bundle, addresses, server.port, keys.certificate)
        inside = InsideCommands(chosen)
        ending = StepEnding(
            cancel=inside.cancel,
            end_tasks=lambda *tasks: inside.start(say.end_tasks(*tasks)),
            say=lambda text: log(JobEvent.NOTE, text=text),
        )
        steps = SlurmSteps(plan, run.cluster, say.start, say.orders, ending)
        steps.open_files = open_files
        backend: SlurmBackend = SlurmBackend(
            plan, run, secrets, keys, server, steps, log, stops.take, settings,
            steps=steps, stops=stops, site=site, here=here, leave=leave,
        )  # fmt: skip
        stack.callback(backend.close)
        backend.heartbeat.before = claim.check
        backend.may_requeue = chosen.requeue
        backend.shortage = lambda lost: nodes_left.shortage(site, here.job, plan, chosen, lost)
        address = {"addresses": addresses, "port": server.port, "controller": controller}
        run.cluster.write(run.cluster.address, address)
        now = _progress(plan, run, site, here)
        ask = partial(TimeQuestion, site, here)
        if found := allocation.time_for_tasks(ask, question, plan, bool(chosen.time)):
            backend.time, found.say = found, ending.say
        # At once: nobody else stops the tasks at this limit.
        backend.time_is_over = lambda limit: now.limits.within(limit, time.monotonic() - SLACK_SEC)

        def emit(event: str, **facts: Any) -> None:
            log(event, **facts)
            if event == JobEvent.JOB_RETRYING:
                backend.retrying()

        return run_job(plan, run, backend, stops, emit, random.random, now, backend.no_place)

    def leave(end: AllocationEnd) -> NoReturn:
        facts = {"number": here.restarts, "cause": end.cause, "text": end.text}
        run.cluster.write(run.cluster.allocation, facts)
        # At once, and without ending the tasks, to which Slurm gives its own time: nothing may be recorded any more.
        os._exit(EXIT_FAILED)

    return controlled(run, body, plan, claim)


def _progress(plan: Plan, run: Run, site: SlurmSite, here: SlurmAllocation) -> Progress:
    """How far an earlier controller has come, in this allocation or in one before it."""
    last, heartbeat = run.cluster.object(run.cluster.allocation), run.cluster.object(run.cluster.heartbeat)
    before = ends.before(site, here, last, heartbeat)
    run.cluster.write(run.cluster.allocation, {"number": here.restarts, "node": here.node})
    return resume.read(plan, run, before) or progress.beginning(plan, run)


def bundle_folder() -> str:
    """The folder of the bundle that this process was started from. CannotRun: it was not."""
    program = Path(sys.argv[0]).absolute()
    if not program.match(f"*/{_BUNDLED}"):
        raise CannotRun("the controller of a job in a cluster must be started from a bundle")
    return str(program.parents[2])


def _keys(run: Run) -> LinkKeys:
    try:
        return LinkKeys.from_json(run.cluster.read(run.cluster.link))
    except (OSError, ValueError) as error:
        raise CannotRun(f"the keys of the link cannot be read from {run.cluster.link}: {error}") from error


def _listening(keys: LinkKeys, controller: str, options: SlurmOptions, expect: Expect) -> LinkServer:
    """The controller's end of the link, at a port of the site's choice. CannotRun: they are all in use."""
    first, last = options.port_range or (0, 0)
    for port in range(first, last + 1):
        try:
            return LinkServer(keys, expect, controller, port=port, unreachable_sec=seconds(options.unreachable))
        except OSError as error:
            last_error = error
    ports = f"none of the ports {first}-{last} (engines.slurm.link-ports) is free" if first else "no port is free"
    raise CannotRun(f"{ports} on {os.uname().nodename}: {last_error.strerror}")
