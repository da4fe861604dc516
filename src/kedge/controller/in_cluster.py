"""The life of a controller in a cluster: `controller RUN_FOLDER [SIGNAL...]`, started by the cluster, and again if it
is killed. The signals, such as TERM, are those that came while there was none.

Its orders are in the run folder, since its submitter may have gone. An exit code is final, whatever it is: that of
`kedge run`. Only a controller that a signal has killed is to be started again; of a job that has ended it does nothing.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from kedge.controller.ending import code_and_message, write_report
from kedge.errors import EXIT_FAILED, EXIT_INPUT, EXIT_OK, CannotRun, KedgeError
from kedge.lazy_modules import CONTROLLERS, load_place
from kedge.plan.lossless import from_lossless
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs import cluster_files, disk_reserve, file_locks, liveness, report, status
from kedge.runs.cluster_files import ClusterFiles
from kedge.runs.controller_lock import RELEASE
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State

_LOCKS_SEC = 10.0  # for the file system's answer
# Blocked until the engine can take them (engines.controller.stop_requests), and after that.
_REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, RELEASE)


def main(arguments: list[str]) -> int:
    """Run the job of a run folder, the first argument, or go on with it. Returns the exit code."""
    names = [f"SIG{name}" for name in arguments[1:]]
    if not arguments or not signal.Signals.__members__.keys() >= {*names}:
        print("usage: controller RUN_FOLDER [SIGNAL...]", file=sys.stderr)
        return EXIT_INPUT
    signal.pthread_sigmask(signal.SIG_BLOCK, _REQUESTS)
    for name in names:
        signal.raise_signal(signal.Signals[name])
    run = Run(Path(arguments[0]))
    files = cluster_files.of(run.path)
    try:
        code = _after_end(run) if liveness.has_end(run) else _run(run, files)
    except liveness.RunHasEnded:
        code = _after_end(run)
    except Exception as error:
        code, message = code_and_message(error)
        print(f"kedge: {message}", file=sys.stderr)
        _record_failure(run, code, message)
    files.remove_secrets()
    return code


def _run(run: Run, files: ClusterFiles) -> int:
    orders = _orders(files)
    plan: Plan = from_lossless(orders["plan"])  # the plan in the run folder has masked secrets
    secrets = Secrets(**_read(files, files.secrets))
    outcome = load_place(CONTROLLERS[orders["engine"]])(plan, run, secrets, orders["options"])
    write_report(run, plan, outcome)
    return int(outcome.exit_code)


def _orders(files: ClusterFiles) -> Any:
    orders = _read(files, files.orders)
    if orders["engine"] not in CONTROLLERS:
        raise CannotRun(f"{files.orders}: the engine {orders['engine']} has no controller inside a cluster")
    return orders


def _read(files: ClusterFiles, path: Path) -> Any:
    try:
        return files.read(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise CannotRun(
            f"{path} cannot be read on this node: {why}. The folder of runs must be on a file system that all nodes of "
            "the cluster share: set XDG_STATE_HOME to a folder on one."
        ) from error


def _after_end(run: Run) -> int:
    """Complete what an earlier controller was killed at. Returns the exit code that it has recorded."""
    report.complete(run)
    now = status.read(run)
    if now.exit_code is not None:
        return now.exit_code
    return EXIT_OK if now.state == State.SUCCEEDED else EXIT_FAILED


def _record_failure(run: Run, code: int, message: str) -> None:
    """Record the end of a job that could not be run; a run without an end would count as lost."""
    try:
        if not liveness.has_end(run):
            facts = {"state": State.FAILED, "code": None, "text": message, "exit_code": code}
            disk_reserve.free(run.path)  # the disk may be full
            locks = not file_locks.why_not(run.path, _LOCKS_SEC)
            with EventLog(run.events, locked=locks) as log:
                log.append(JobEvent.JOB_COMPLETED, sync=True, **facts)
        report.complete(run)
    except (KedgeError, OSError) as error:
        print(f"kedge: the end of the job cannot be recorded: {error}", file=sys.stderr)
