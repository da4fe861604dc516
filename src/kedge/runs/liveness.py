"""Whether a controller of the run is alive: every status depends on this.

On one machine the controller holds a lock. In a cluster it may be anywhere, or not have started yet: it lives while its
heartbeat is fresh, and otherwise the scheduler decides. A scheduler that does not answer has not said that the job is
gone.
"""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from kedge.contract import EVENTS_FILE
from kedge.errors import CannotRun, InputError
from kedge.lazy_modules import LIVENESS, load_place
from kedge.own_files import replace_file
from kedge.runs import events
from kedge.runs.cluster_files import ClusterFiles
from kedge.runs.controller_lock import is_held
from kedge.runs.events import is_event
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.untrusted import open_regular, parse
from kedge.untrusted_values import fits, named

FRESH_SEC = 25.0  # older heartbeats prove nothing: one has not been written in time
# How long the scheduler is not asked again: at first, and once it has said the same for long.
CACHED_SEC, LONGEST_CACHED_SEC = 5.0, 30.0
_OF_SAME, _OF_ANSWER = 0.1, 4.0  # of the time for which it has said the same, and that it has taken to answer
_TAIL = 1 << 16  # bytes
_END = b'"job-completed"'


class RunHasEnded(CannotRun):
    """The end of the run is recorded: there is nothing left to control."""


class JobPhase(StrEnum):
    """The state of a job, as its scheduler reports it."""

    PENDING = "pending"
    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"  # it did not answer


class SchedulerAnswer(NamedTuple):
    """The scheduler's last answer about the job of a run, and when it came (seconds since 1970).

    `job` is its id there, `reason` why it has to wait, in the scheduler's own term, and `text` the same in words.
    `start` is when it may start, as the scheduler estimates, in the format of events. `since` is when it gave this
    answer first, and `took` how many seconds it needed to answer.
    """

    job: str = ""
    state: str = JobPhase.UNKNOWN
    reason: str = ""
    text: str = ""
    start: str = ""
    checked: float = 0.0
    since: float = 0.0
    took: float = 0.0

    @property
    def cached_sec(self) -> float:
        """How long the scheduler need not be asked again: many jobs may wait for days, and it may be slow already."""
        same = self.checked - self.since if 0 < self.since <= self.checked else 0.0
        return min(LONGEST_CACHED_SEC, max(CACHED_SEC, _OF_SAME * same, _OF_ANSWER * self.took))


def is_controlled(run: Run) -> bool:
    """Whether the run has a controller, or will have one. False means that nothing will change any more by itself.

    The end of a job that its cluster has ended is recorded by this, once.
    """
    files = run.cluster
    if not files.exists:
        return is_held(run.lock)
    if _is_over(run, files):
        return False
    return is_fresh(files) or is_submitted_now(run) or ask_scheduler(run).state != JobPhase.GONE


def is_submitted_now(run: Run) -> bool:
    """The submitter holds the lock until the cluster has the job. Not every machine must be able to see that."""
    try:
        return is_held(run.lock)
    except CannotRun:
        return False


def ask_scheduler(run: Run) -> SchedulerAnswer:
    """The state of the run's job, asked of its scheduler. All viewers together ask it every CACHED_SEC seconds at most,
    and less and less often while nothing changes."""
    files = run.cluster
    last = last_answer(files)
    if 0 <= time.time() - last.checked < last.cached_sec and last.state != JobPhase.GONE:
        return last
    try:
        engine = files.object(files.job).get("engine") or run.info().engine
    except InputError:  # it was not made to its end, and so not submitted
        return SchedulerAnswer(state=JobPhase.GONE)
    if engine not in LIVENESS:
        return last
    found: SchedulerAnswer = load_place(LIVENESS[engine])(run)
    return found


def last_answer(files: ClusterFiles) -> SchedulerAnswer:
    """The last answer that was written."""
    try:
        found = named(SchedulerAnswer, files.object(files.scheduler))
    except ValueError:
        return SchedulerAnswer()
    return found if fits(found, SchedulerAnswer) else SchedulerAnswer()


def write_answer(files: ClusterFiles, said: SchedulerAnswer) -> None:
    """Keep an answer for other commands, of which several may do this at once."""
    last = last_answer(files)
    is_same = last.since and (last.job, last.state, last.reason) == (said.job, said.state, said.reason)
    said = said._replace(since=last.since if is_same else said.checked)
    with suppress(OSError):
        replace_file(files.scheduler, json.dumps(said._asdict()).encode(), synced=False)


def is_fresh(files: ClusterFiles) -> bool:
    """Whether the controller has written its heartbeat a short time ago.

    The clocks of this machine, of the controller's and of the file server may differ, so the newer one of the written
    time and the file's own counts. A heartbeat from the future proves nothing: the scheduler is asked.
    """
    now = time.time()
    return any(-FRESH_SEC < now - when < FRESH_SEC for when in _signs(files))


def silent_sec(files: ClusterFiles) -> float:
    """For how long the controller has been silent; 0 if that is not known."""
    return max(0.0, time.time() - max(_signs(files), default=math.inf))


def _signs(files: ClusterFiles) -> tuple[float, ...]:
    """When the controller has given its last sign of life, by two clocks; nothing if it never has."""
    try:
        return os.stat(files.heartbeat).st_mtime, float(files.object(files.heartbeat).get("time", 0))
    except (OSError, TypeError, ValueError):
        return ()


def has_begun(run: Run) -> bool:
    """Whether more than its submission is recorded, as far as this machine has the records."""
    return any(event.get("event") != JobEvent.JOB_SUBMITTED for event in events.read(run.events))


def has_end(run: Run) -> bool:
    """Whether the end of the job is recorded. Reads only the last part of the log."""
    try:
        fd = open_regular(run.path, EVENTS_FILE)
    except OSError:
        return False
    try:
        data = os.pread(fd, _TAIL, max(0, os.fstat(fd).st_size - _TAIL))
    finally:
        os.close(fd)
    return any(_END in line and _is_end(line) for line in data.split(b"\n"))


def _is_end(line: bytes) -> bool:
    try:
        event = parse(line)
    except ValueError:
        return False
    return is_event(event) and event["event"] == JobEvent.JOB_COMPLETED


def _is_over(run: Run, files: ClusterFiles) -> bool:
    """Whether the job has ended, and its controller has written its report or is not there any more."""
    return has_end(run) and (os.path.lexists(run.path / "report.json") or not is_fresh(files))
