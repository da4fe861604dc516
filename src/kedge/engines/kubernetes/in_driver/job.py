"""Runs a whole job from its driver pod."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from kedge.engines.base import JobOutcome
from kedge.engines.cluster.own_addresses import own_addresses
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller import resume
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.in_driver import code_archive, leaving, pod_queue
from kedge.engines.kubernetes.in_driver.backend import KubernetesBackend
from kedge.engines.kubernetes.in_driver.code_server import CodeServer
from kedge.engines.kubernetes.in_driver.driver_pod import DriverPod
from kedge.engines.kubernetes.in_driver.driver_stops import DriverStops
from kedge.engines.kubernetes.in_driver.pod_checks import RunPodChecks
from kedge.engines.kubernetes.in_driver.pod_plans import RunPodPlans, place_of
from kedge.engines.kubernetes.in_driver.requests import AnchorWatch
from kedge.engines.kubernetes.in_driver.task_pods import TaskPods
from kedge.engines.kubernetes.objects import labels, run_objects
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.link.keys import LinkKeys
from kedge.open_files import raise_limit
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs import events, status
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.spec.units import seconds
from kedge.terminal_text import one_line

_MOST_NAMED = 3
_NOTE_SEC = 15.0  # most images have come by then, and what waits for a node or a wrong image says so


def run(plan: Plan, run: Run, secrets: Secrets, options: Mapping[str, Any], here: DriverPod) -> JobOutcome:
    """Run the job to its end, in the driver pod of this process."""
    chosen = _chosen(options)
    keys = _keys(run)
    settings = ClusterSettings(
        barrier_sec=seconds(chosen.barrier), barrier_note_sec=_NOTE_SEC, unreachable_sec=seconds(chosen.unreachable),
        shares_folder=False,
    )  # fmt: skip

    def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
        raise_limit()
        server = CodeServer(
            keys, lambda *task: backend.expects(*task), here.controller, unreachable_sec=settings.unreachable_sec
        )
        _tell_address(here, run, server.port)
        place = place_of(here, plan, chosen, server.port, keys.certificate)
        if code_archive.needs_archive(plan, place):
            archive = code_archive.awaited(here)
            note = code_archive.note(archive, chosen)
            if note and note not in status.fold(events.read(run.events)).notes:  # an earlier driver has said it
                log(JobEvent.NOTE, text=note)
            server.offer(archive, plan)

        def say(text: str) -> None:
            if not here.after_end:  # else the log is closed
                log(JobEvent.NOTE, text=text)

        plans = RunPodPlans(plan, chosen, place, _old_run(run))
        if plans.left_out:
            say(f"not copied from the job folder: {', '.join(map(one_line, plans.left_out[:_MOST_NAMED]))}")
        pods = TaskPods(
            here.api, labels.of_component(here.owner.name, labels.TASK), here.owner.uid,
            plans, RunPodChecks(chosen), here.decisions, say, chosen.lost_node_sec,
            pod_queue.names_of(chosen.queue, here.owner.name, plan.gang),
        )  # fmt: skip
        anchor = AnchorWatch(here.api, here.owner.name, here.owner.uid)
        backend: KubernetesBackend = KubernetesBackend(
            plan, run, secrets, keys, server, pods, log, stops.take, settings,
            decisions=here.decisions, anchor=anchor, stops=stops, queue=pods.queue,
        )  # fmt: skip
        stack.callback(here.after_end.append, pods.leave)
        stack.callback(backend.close)  # before that
        anchor.start()

        def emit(event: str, **facts: Any) -> None:
            log(event, **facts)
            if event == JobEvent.JOB_RETRYING:
                backend.retrying()

        return run_job(plan, run, backend, stops, emit, random.random, resume.read(plan, run))

    stops = DriverStops(lambda: leaving.give_up(here.lease, run.path))
    return controlled(run, body, plan, here.decisions, stops)


def _chosen(options: Mapping[str, Any]) -> KubernetesOptions:
    """CannotRun: they are of a newer kedge."""
    if unknown := ", ".join(sorted(options.keys() - set(KubernetesOptions._fields))):
        raise CannotRun(
            f"the runtime image is of an older kedge than the one that submitted the job, and does not know {unknown}: "
            "push the image of that one (kedge bundle --oci)"
        )
    return KubernetesOptions(**options)


def _old_run(run: Run) -> str:
    """The name of the objects of the run with whose job folder this one begins; empty: of none."""
    info = run.info()
    return RunNames.of(info.rerun_of).name if info.with_job_dir and info.rerun_of else ""


def _tell_address(here: DriverPod, run: Run, port: int) -> None:
    """Tell agents, and those of an earlier driver, where this one is."""
    addresses = list(dict.fromkeys([here.ip, *own_addresses()]))
    address = {"addresses": addresses, "port": port, "controller": here.controller}
    run.cluster.write(run.cluster.address, address)
    made = run_objects.address(here.owner, address)
    while True:
        here.lease.check()
        try:
            if here.api.get("ConfigMap", here.names.address) is None:
                here.api.create(made)
            else:
                here.api.patch("ConfigMap", here.names.address, {"data": made["data"]})
            return
        except ApiError as error:
            leaving.wait_for_api(error)


def _keys(run: Run) -> LinkKeys:
    try:
        return LinkKeys.from_json(run.cluster.read(run.cluster.link))
    except (OSError, ValueError) as error:
        raise CannotRun(f"the keys of the link cannot be read from {run.cluster.link}: {error}") from error
