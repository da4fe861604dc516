"""The behaviours that all engines share, on a Kubernetes cluster."""

from __future__ import annotations

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .kedge_on_kubernetes import OnKubernetes

# Those whose tasks use the folder of the job, which is on the site's claim. All others run on a site without one.
JOB_FOLDER = {
    "hooks and the command see the same folders, which exist",
    "the job's folder survives retries of the job",
    "the job's folder survives retries of a task",
    "tasks that write the same files of their code lose nothing",
    "the first success of a role can end the job",
    "a failed task is held until it is released",
    "a hook of a failed task that waits holds it, too",
    "a run that is made again can begin with a copy of the job folder",
    "a hook runs before the stop signal",
    "files are copied out of a running task, and into it",
    "a notice of the place where the job runs",
    "a peer that fails because a task is stopped at a limit is not the cause",
}
OTHER = {
    # The Job of the driver starts another one, so the run is not lost (test_driver_lost.py).
    "a job whose controller was killed",
    # The job is in the cluster and goes on without the one who looks at it, as if they had detached.
    "a closed terminal stops the job",
    # Its new pod has another address, and the variables of tasks that run are those of its first (docs/kubernetes.md).
    "peers reach a task that was retried alone",
    # Its three seconds are over before the pods run. Limits of attempts and roles, and that of a pause, are tried here.
    "a time limit of the whole run",
    # What tasks report reaches anybody only through the controller.
    "a time limit while the controller is suspended",
}
SHARED = {name: behaviour for name, behaviour in BEHAVIOURS.items() if name not in OTHER}


@pytest.mark.parametrize("name", SHARED)
def test_behaviour(kedge: OnKubernetes, name: str) -> None:
    if name in JOB_FOLDER:
        kedge.claim_outputs()
    BEHAVIOURS[name](kedge)


def test_exceptions_are_a_part_of_the_kit() -> None:
    assert set(BEHAVIOURS) >= JOB_FOLDER | OTHER
