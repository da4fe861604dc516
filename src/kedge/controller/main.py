"""The life of a controller: it receives its orders, runs the job, writes its report, and sends how it ended.

The stop signals are blocked from its start (by its submitter) to its end, except while the engine runs the job. A
signal that arrives earlier takes effect then; one that arrives after the job's end has no effect.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from kedge.controller.ending import code_and_message, write_report
from kedge.engines.base import JobOutcome
from kedge.engines.registry import make
from kedge.errors import EXIT_OK
from kedge.own_files import clear, write_all
from kedge.plan.lossless import from_lossless
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


def main(folder: str, channel: int, next_order: Callable[[], bytes]) -> NoReturn:
    """Run the job of a run folder according to the next order. Ends the process with the exit code for `kedge run`."""
    _ignore_blocked_signals()
    run = Run(Path(folder))
    line = next_order()
    if not line:  # the submitter ended without submitting the job
        with suppress(OSError):
            clear(run.path)
        os._exit(EXIT_OK)
    try:
        code, error = _run(run, json.loads(line), channel).exit_code, ""
    except Exception as problem:
        code, error = code_and_message(problem)
    _send(channel, {"exit_code": code, "error": error})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing is left to do, and the interpreter's own exit takes time


def _ignore_blocked_signals() -> None:
    """Give the blocked signals a handler that does nothing: they are blocked in this thread only, and the engine may
    leave other threads. SIG_IGN would discard pending signals on some systems."""
    for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


def _run(run: Run, order: Mapping[str, Any], channel: int) -> JobOutcome:
    engine = make(order["engine"], **order["options"])
    plan = from_lossless(order["plan"])  # the plan in the run folder has masked secrets
    _send(channel, {"started": True})
    outcome = engine.run(plan, run, Secrets(**order["secrets"]))
    write_report(run, plan, outcome)
    return outcome


def _send(channel: int, message: Mapping[str, Any]) -> None:
    """Send a message to the submitter, if it is still there."""
    with suppress(OSError):
        write_all(channel, (json.dumps(message) + "\n").encode())
