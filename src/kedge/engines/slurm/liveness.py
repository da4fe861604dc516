"""The state of a run as Slurm reports it. Records the end of a run whose controller did not."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from kedge import xdg
from kedge.engines.slurm import job_ends, job_states, job_table, pending_reasons
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.job_ends import RecordedEnd
from kedge.engines.slurm.job_table import ListedJob
from kedge.errors import EXIT_FAILED, EXIT_INTERRUPTED, KedgeError
from kedge.runs import disk_reserve, events, report, status
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase, SchedulerAnswer, has_end, is_submitted_now, last_answer, write_answer
from kedge.states import FINAL, State

_SUBMIT_SEC = 180.0  # sbatch may still be at work although its caller was killed
_PATIENCE_SEC = 2.0  # for another command that records the end
_INTERRUPTS = ("Ctrl-C",)
_SAID, _LOG_SIZE = "kedge: ", 64 << 10


def ask_scheduler(run: Run) -> SchedulerAnswer:
    """The state of a run's job, as Slurm reports it. If the job is gone, the end of the run is recorded, once."""
    files, began = run.cluster, time.monotonic()
    said = _asked(run, files.object(files.job))._replace(took=time.monotonic() - began)
    if said != last_answer(files):
        write_answer(files, said)
    return said


def _asked(run: Run, job: dict[str, Any]) -> SchedulerAnswer:
    site, known = SlurmSite.of(job), job.get("job")
    try:
        found = job_table.list_run(site, run, known)
        if found and not found.has_ended:
            _adopt(run, job, found)
            return _alive(found)
        number = found.id if found else known
        if not number and (time.time() - float(job.get("time", 0)) < _SUBMIT_SEC or is_submitted_now(run)):
            return SchedulerAnswer(state=JobPhase.PENDING, text="it is being submitted", checked=time.time())
        end = job_ends.asked(site, number) if number else None
        if number and end is None:
            return SchedulerAnswer(number, JobPhase.RUNNING, checked=time.time())
    except SlurmError as error:
        last = last_answer(run.cluster)  # without a job if nobody has asked before
        return last._replace(
            job=last.job or str(known or ""), state=JobPhase.UNKNOWN, text=str(error), checked=time.time()
        )
    stopped_by = _stopped_by(run)
    if end is None:
        text = "its submission was interrupted before Slurm accepted it"
        record_end(run, RecordedEnd(State.FAILED, None, text), stopped_by)
    else:
        found_end = job_ends.recorded(end, number or "", stopped_by, _lost_node(run))
        record_end(run, _of_start(run, found_end), stopped_by)
    return SchedulerAnswer(number or "", JobPhase.GONE, checked=time.time())


def _of_start(run: Run, end: RecordedEnd) -> RecordedEnd:
    """The end of a job, with the reason if its controller never started: what the batch script printed, or the likely
    one, that the node does not have the run folder."""
    if end.state is not State.FAILED or run.cluster.heartbeat.exists():
        return end
    if said := _of_script(run):
        return end._replace(text=f"its controller could not start: {said}")
    return end._replace(
        text=f"{end.text}. Its controller never started: check that all nodes share the folder {run.path}, or set "
        f"{xdg.STATE} to one that they share"
    )


def _of_script(run: Run) -> str:
    """The last message of the batch script itself."""
    with suppress(OSError), (run.path / job_ends.BATCH_LOG).open(errors="replace") as log:
        lines = [line for line in log.read(_LOG_SIZE).splitlines() if line.startswith(_SAID)]
        return lines[-1].removeprefix(_SAID) if lines else ""
    return ""


def _lost_node(run: Run) -> str:
    """What another node recorded about the loss of the controller's node; empty if that was not lost."""
    left = run.cluster.object(run.cluster.allocation)
    cause = left.get("cause")
    return str(left.get("text", "")) if cause == "node_failure" else ""


def _adopt(run: Run, job: dict[str, Any], found: ListedJob) -> None:
    """Keep the id of a job whose submitter was killed before it could."""
    if not job.get("job"):
        run.cluster.write(run.cluster.job, job | {"job": found.id})


def _alive(found: ListedJob) -> SchedulerAnswer:
    now = time.time()
    words = job_states.words(found.state, found.id)
    if not found.is_pending:
        return SchedulerAnswer(found.id, JobPhase.RUNNING, text=words, checked=now)
    text = "; ".join(filter(None, (words, pending_reasons.text(found.reason, found.id))))
    return SchedulerAnswer(found.id, JobPhase.PENDING, found.reason, text, found.start, now)


def _stopped_by(run: Run) -> str:
    """Who has asked kedge to stop the run; empty if nobody has."""
    found = ""
    for event in events.read(run.events):
        if event.get("event") == JobEvent.STOP_REQUESTED:
            found = found or event.get("by", "")
    return found


def complete(run: Run) -> None:
    """Finish the records of a run whose controller was killed after it had recorded the end."""
    if has_end(run):
        run.cluster.remove_secrets()
        with suppress(OSError, KedgeError):
            report.complete(run)


def record_end(run: Run, end: RecordedEnd, stopped_by: str = "") -> None:
    """Record the end of a run that has no controller any more, with its report, unless it is recorded already. Does
    nothing if that is not possible: the run is lost then."""
    run.cluster.remove_secrets()
    with suppress(OSError, TimeoutError, KedgeError), EventLog(run.events, _PATIENCE_SEC) as log:
        if status.fold(events.read(run.events)).state not in FINAL:
            disk_reserve.free(run.path)
            code = EXIT_INTERRUPTED if stopped_by in _INTERRUPTS else EXIT_FAILED
            facts = {"state": end.state, "code": end.code, "text": end.text, "exit_code": code}
            log.append(JobEvent.JOB_COMPLETED, sync=True, **facts)
        report.complete(run)
