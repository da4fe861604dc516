"""The program of a driver pod: `controller --driver RUN_FOLDER`.

It takes the Lease, makes the run folder from the seed and the decision log, lets the controller run the job, records
its end at the anchor, and waits until the client has fetched the run folder if that is not on a volume. Its exit code
is 0 once the end is recorded, whatever the job's is; otherwise its Job starts it again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.in_driver import ended_secrets, leaving, seed
from kedge.engines.kubernetes.in_driver.decision_log import DecisionLog
from kedge.engines.kubernetes.in_driver.driver_pod import DriverPod, owner_of, set_driver, variable
from kedge.engines.kubernetes.in_driver.lease import DriverLease, LeaseTimes
from kedge.engines.kubernetes.in_driver.log_pieces import LogPieces
from kedge.engines.kubernetes.in_driver.requests import AnchorWatch
from kedge.engines.kubernetes.objects import labels, pod_paths
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import EXIT_FAILED, EXIT_INPUT, EXIT_OK, KedgeError
from kedge.runs import status
from kedge.runs.folder import Run
from kedge.spec.units import seconds

LEASE = LeaseTimes()
_ENDED_POD = "its pod is being ended"
Control = Callable[[list[str]], int]  # kedge.controller.in_cluster.main


def main(arguments: list[str], control: Control) -> int:
    """Be the driver of the run folder that is the only argument. Returns the exit code of this process."""
    if len(arguments) != 1:
        print("usage: driver RUN_FOLDER", file=sys.stderr)
        return EXIT_INPUT
    run = Run(Path(arguments[0]))
    try:
        return _drive(run, Path(os.environ.get("KEDGE_SEED", pod_paths.SEED)), KubernetesApi.in_cluster(), control)
    except KedgeError as error:
        print(f"kedge: {error}", file=sys.stderr, flush=True)
        return EXIT_FAILED


def _drive(run: Run, given: Path, api: KubernetesApi, control: Control) -> int:
    name = RunNames.of(run.id).name
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.leave(_ENDED_POD))
    anchor = _needed(lambda: api.get("ConfigMap", name))
    if anchor is None:
        print("kedge: the run was removed from the cluster", file=sys.stderr, flush=True)
        return EXIT_OK
    pod, ip = variable("KEDGE_POD"), variable("KEDGE_POD_IP")
    # A SIGTERM that came before its handler did nothing to this process, the first one of its container.
    own = _needed(lambda: api.get("Pod", pod))
    if own and own["metadata"].get("deletionTimestamp"):
        leaving.leave(_ENDED_POD)
    owner, controller = owner_of(anchor), os.urandom(8).hex()
    metadata = labels.metadata(owner, RunNames(name).lease, labels.LEASE)
    lease = DriverLease(api, metadata, variable("KEDGE_POD_UID"), controller, LEASE)
    lease.take(lambda text: print(f"kedge: {text}", file=sys.stderr, flush=True))
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.give_up(lease, run.path))
    seed.plant(given, run)
    pieces = LogPieces(api, name, lambda number: labels.metadata(owner, RunNames(name).log(number), labels.LOG))
    decisions = DecisionLog(pieces, run, lease)
    decisions.restore()
    after_end: list[Callable[[], None]] = []
    set_driver(DriverPod(api, owner, pod, ip, controller, lease, decisions, after_end))
    code = control([str(run.path)])
    for act in after_end:
        act()
    decisions.restore()  # the end of a job that could not be run is only in the run folder
    _remove_pods(api, name)
    ended_secrets.remove(api, run, RunNames(name), given, lease.check)
    _tell_end(api, lease, name, run, code)
    known = {key: value for key, value in seed.options_in(given).items() if key in KubernetesOptions._fields}
    _wait_to_be_fetched(api, owner.name, owner.uid, KubernetesOptions(**known))
    leaving.wait_for_copies(run.path)
    lease.release()
    return EXIT_OK


def _needed(ask: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    """An object that nothing can be done without; None: it is not there."""
    while True:
        try:
            return ask()
        except ApiError as error:
            leaving.wait_for_api(error)


def _remove_pods(api: KubernetesApi, name: str) -> None:
    """What a job has left that could not be run to its end."""
    with suppress(ApiError):
        for pod in api.list("Pod", labels.of_component(name, labels.TASK))[0]:
            with suppress(ApiError):
                api.delete("Pod", pod["metadata"]["name"], uid=pod["metadata"]["uid"])


def _tell_end(api: KubernetesApi, lease: DriverLease, name: str, run: Run, code: int) -> None:
    """Record at the anchor how the job ended."""
    ended = json.dumps({"state": status.read(run).state, "exit_code": code})
    while True:
        lease.check()
        try:
            api.patch("ConfigMap", name, {"metadata": {"annotations": {labels.ENDED: ended}}})
            return
        except ApiError as error:
            if error.status == 404:  # the run was removed
                return
            leaving.wait_for_api(error)


def _wait_to_be_fetched(api: KubernetesApi, name: str, uid: str, options: KubernetesOptions) -> None:
    """With this pod its run folder goes, if that is not on a volume."""
    if options.run_volume:
        return
    watch = AnchorWatch(api, name, uid)
    watch.start()
    end = time.monotonic() + seconds(options.keep)
    with suppress(KeyboardInterrupt):
        while not watch.fetched.wait(min(60.0, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                return
