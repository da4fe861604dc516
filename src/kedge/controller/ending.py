"""What a controller leaves of its job: the report, or the message of an error."""

from __future__ import annotations

from contextlib import suppress

from kedge import shortages
from kedge.engines.base import JobOutcome
from kedge.errors import EXIT_BUG, KedgeError
from kedge.plan.model import Plan
from kedge.runs import report, status
from kedge.runs.folder import Run


def write_report(run: Run, plan: Plan, outcome: JobOutcome) -> None:
    """Write the report of a job that has ended."""
    now = status.read(run)
    with suppress(KedgeError, OSError):  # mostly a full disk; the events hold the same facts
        lines = {role.name: role.lines for role in plan.roles}
        report.write(run, report.build(run, now, outcome.judged.to_json(), lines))


def code_and_message(error: Exception) -> tuple[int, str]:
    """The exit code and the message of an error. An error that kedge did not raise on purpose is written to the
    controller's log with its traceback."""
    if isinstance(error, KedgeError):
        return error.exit_code, str(error)
    import traceback  # slow to load, and seldom needed

    traceback.print_exception(error)
    found = shortages.explained(error)
    return (found.exit_code, str(found)) if found else (EXIT_BUG, repr(error))
