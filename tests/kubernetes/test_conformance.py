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
    # It has failed on the test cluster; the reason is not known yet.
    "ssh and scp reach the other tasks, by both names of a role",
    # What tasks report reaches anybody only through the controller.
    "a time limit while the controller is suspended",
}
# Not run here so far: nothing is known that speaks against them.
LATER = {
    "a share of a CPU runs a task, and counts as one where scripts expect whole numbers",
    "a task gets the ports that it requests",
    "a parameter on the command line replaces the one in the file",
    "a variable with a secret reaches the task and no file that is kept",
    "variables on the command line replace those in files, and those in the job file",
    "a variable of the user's shell reaches the task and no file that is kept",
    "a retry starts with fresh code",
    "a task that is retried alone starts with fresh code",
    "all tasks can share one copy of the code",
    "a hook has a time limit",
    "the death of a service does not fail the task",
    "what a service prints is not the cause of the command's failure",
    "a job without conditions succeeds when all tasks are done",
    "a job can require that every task succeeds",
    "a job that requires every task to succeed, and all do",
    "tasks start in the order of the file",
    "jobRetryCount overrides stock rows of the exit spec that are permanent",
    "rows of the user's own exit spec decide on retries",
    "transient failures are retried a limited number of times",
    "a transient cause is retried for any exit code",
    "the same failure of the program without progress ends retries",
    "a failure after progress is retried",
    "transient failures without progress are retried up to the limit",
    "a SIGINT that kedge did not send is transient",
    "the same failure without progress ends retries of a single task too",
    "the loss of a failed peer is not the root cause",
    "a job in the background is followed and waited for",
    "events and lines as JSON",
    "the run folder has all files",
    "a run is shown, stopped and removed",
    "a run is made again from its own copy, with changes",
    "two jobs at once do not interfere",
    "a second Ctrl-C kills tasks that ignore the first",
    "a stop without grace cuts the grace of an earlier stop",
    "a time limit of the whole run",
    "a time limit ends the pause before a retry",
    "a time limit of the tasks of a role",
    "a time limit of attempts, with the retries that the user asked for",
    "a notice of the place where the job runs",
}
SHARED = {name: behaviour for name, behaviour in BEHAVIOURS.items() if name not in OTHER | LATER}


@pytest.mark.parametrize("name", SHARED)
def test_behaviour(kedge: OnKubernetes, name: str) -> None:
    if name in JOB_FOLDER:
        kedge.claim_outputs()
    BEHAVIOURS[name](kedge)


def test_exceptions_are_a_part_of_the_kit() -> None:
    assert set(BEHAVIOURS) >= JOB_FOLDER | OTHER | LATER
