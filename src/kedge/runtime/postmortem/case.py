"""A failed attempt, as it is passed to the analysis."""

from __future__ import annotations

from kedge.contract import TaskSpec
from kedge.light.types import NamedTuple
from kedge.runtime.logs.mask import Finder
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.process.cgroup import OomKills


class FailedAttempt(NamedTuple):
    """A failed attempt. `started` and `ended` are in nanoseconds since 1970, `tick` the monotonic clock at its start;
    `kedge` are the pids of the supervisor and what is above
    it for the task; `open_files` is the soft limit of the command, None for the supervisor's
    own; `after_stop` counts the bytes of user-all written after the stop request, `removed` those that rotation has
    deleted; `site` is the folder of installed packages, if any."""

    spec: TaskSpec
    outcome: AttemptOutcome
    started: int
    tick: float
    ended: int
    oom: OomKills | None
    secrets: Finder | None
    kedge: tuple[int, ...]
    open_files: int | None
    site: str | None
    after_stop: int = 0
    removed: int = 0
