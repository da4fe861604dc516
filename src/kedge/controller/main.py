"""The life of a controller: it takes its orders, runs the job, writes its report, and says how it ended.

The signals that ask for a stop are blocked from its start (its submitter has seen to that) to its end, but while the
engine runs the job: one that comes before counts then, one that comes after the job's end changes nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from kedge import shortages
from kedge.engines.base import JobOutcome
from kedge.engines.registry import make
from kedge.errors import (
    EXIT_BUG,
    EXIT_CANNOT_RUN,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    KedgeError,
)
from kedge.plan.lossless import from_lossless
from kedge.resolve.model import Secrets
from kedge.runs import report, status
from kedge.runs.atomic_files import write_all
from kedge.runs.folder import Run
from kedge.states import State


def main(folder: str, channel: int, orders: BinaryIO) -> NoReturn:
    """Run the job of a run folder as `orders` say, and end the process with the exit code of `kedge run`."""
    _ignore_what_is_blocked()
    run = Run(Path(folder))
    line = orders.readline()
    if not line.endswith(b"\n"):  # the submitter has ended, and the job has never been one
        shutil.rmtree(run.path, ignore_errors=True)
        os._exit(EXIT_OK)
    try:
        code, error = _code(_run(run, json.loads(line), channel)), ""
    except Exception as problem:
        code, error = _explained(problem)
    _say(channel, {"exit_code": code, "error": error})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing is left to do, and the interpreter's own exit takes time


def _ignore_what_is_blocked() -> None:
    """Blocked are the signals in this thread only, and the engine may have left others. This says what they mean when
    the engine does not take them; not SIG_IGN, by which those that wait now would be gone on some systems."""
    for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


def _run(run: Run, told: Mapping[str, Any], channel: int) -> JobOutcome:
    engine = make(told["engine"], **told["options"])
    plan = from_lossless(told["plan"])  # that of the run folder is masked
    _say(channel, {"started": True})
    outcome = engine.run(plan, run, Secrets(**told["secrets"]))
    now = status.read(run)
    with suppress(KedgeError, OSError):  # for want of space, mostly; what it says stands in the events, too
        lines = {role.name: role.lines for role in plan.roles}
        report.write(run, report.build(run, now, outcome.judged.to_json(), lines))
    return outcome


def _code(outcome: JobOutcome) -> int:
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    if outcome.disk_full:
        return EXIT_CANNOT_RUN
    return EXIT_OK if outcome.state == State.SUCCEEDED else EXIT_FAILED


def _explained(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and what the user is to be told. Whatever kedge did not raise on purpose is in the
    controller's log with its traceback."""
    if isinstance(error, KedgeError):
        return error.exit_code, str(error)
    traceback.print_exception(error)
    found = shortages.explained(error)
    return (found.exit_code, str(found)) if found else (EXIT_BUG, repr(error))


def _say(channel: int, fact: Mapping[str, Any]) -> None:
    """Tell the submitter, if it still listens."""
    with suppress(OSError):
        write_all(channel, (json.dumps(fact) + "\n").encode())
