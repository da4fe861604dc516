"""The jobs of a user as squeue lists them, read once for all of kedge's questions."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import NamedTuple

from kedge.contract import timestamp
from kedge.engines.slurm import commands, job_states
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.runs.folder import Run
from kedge.runs.liveness import CACHED_SEC, JobPhase

_FORMAT = "%A|%i|%T|%r|%S|%B|%k"
_FIELDS = 7
COMMENT = "kedge "  # before the run's id, in the comment of its job


class ListedJob(NamedTuple):
    """One line of squeue. `start` is in the format of events, empty if it is not known; `node` that of the batch
    script."""

    id: str
    state: str
    reason: str
    start: str
    node: str
    comment: str

    @property
    def is_pending(self) -> bool:
        return job_states.phase(self.state) == JobPhase.PENDING

    @property
    def has_ended(self) -> bool:
        return job_states.phase(self.state) == JobPhase.GONE


class _Listing(NamedTuple):
    checked: float  # by time.monotonic()
    jobs: list[ListedJob]
    error: SlurmError | None


_answers: dict[tuple[SlurmSite, int], _Listing] = {}


def listed(site: SlurmSite, user: int) -> list[ListedJob]:
    """The jobs of a user, given by number, with those that ended a short time ago. SlurmError. Slurm is asked once in
    CACHED_SEC, for all runs together."""
    answer = _answers.get((site, user))
    if answer is None or time.monotonic() - answer.checked > CACHED_SEC:
        answer = _answers[site, user] = _asked(site, user)
    if answer.error:
        raise answer.error
    return answer.jobs


def list_run(site: SlurmSite, run: Run, job: str | None) -> ListedJob | None:
    """The job of a run, as `of_run` finds it among this user's, or among those of the owner of its folder. These may
    differ for the user's own jobs, too: a file system may map users. SlurmError; OSError."""
    for user in dict.fromkeys((os.getuid(), run.path.stat().st_uid)):
        if found := of_run(listed(site, user), run.id, job):
            return found
    return None


def forget() -> None:
    """Ask again next time: something was changed."""
    _answers.clear()


def of_run(jobs: list[ListedJob], run: str, job: str | None) -> ListedJob | None:
    """The job of a run: the one with this number, or the one that carries the run's id. Slurm uses numbers again, so
    the job of another run is none."""
    own = f"{COMMENT}{run}"
    for each in reversed(jobs):
        if each.comment == own or (each.id == job and not each.comment.startswith(COMMENT)):
            return each
    return None


def _asked(site: SlurmSite, user: int) -> _Listing:
    # With `--all` also jobs in hidden partitions, which Slurm otherwise shows to administrators only.
    argv = ("squeue", "--all", "--noheader", "--states=all", f"--user={user}", f"--format={_FORMAT}")
    try:
        text = commands.run(site, *argv)
    except SlurmError as error:
        return _Listing(time.monotonic(), [], error)
    return _Listing(time.monotonic(), parse(text), None)


def parse(text: str) -> list[ListedJob]:
    """The jobs in the output of squeue. Of a heterogeneous job only the first component counts."""
    found = []
    for line in text.splitlines():
        fields = line.split("|", _FIELDS - 1)
        if len(fields) == _FIELDS and ("+" not in fields[1] or fields[1].endswith("+0")):
            number, _, state, reason, start, node, comment = fields
            node = "" if node == "n/a" else node
            found.append(ListedJob(number.strip(), state, reason, _time(start), node, comment.strip()))
    return found


def _time(text: str) -> str:
    """A time of Slurm's, which is local, in the format of events; empty for none."""
    try:
        when = datetime.fromisoformat(text).astimezone()
    except ValueError:
        return ""
    return timestamp(int(when.timestamp()) * 10**9)
