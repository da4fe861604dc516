"""A failed attempt, as its analysis gets to know of it."""

from __future__ import annotations

from typing import NamedTuple

from kedge.contract import TaskSpec
from kedge.runtime.logs.mask import Finder
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.process.cgroup import OomKills


class FailedAttempt(NamedTuple):
    """A failed attempt. `started` and `ended` in nanoseconds since 1970, `tick` the monotonic clock at its start;
    `supervisor` is its pid; `open_files` the soft limit of its command, None for the supervisor's own; `after_stop`
    counts the bytes of user-all that came after the task was told to stop, `removed` those that rotation has deleted;
    `site`, if any, is where installed packages are."""

    spec: TaskSpec
    outcome: AttemptOutcome
    started: int
    tick: float
    ended: int
    oom: OomKills | None
    secrets: Finder | None
    supervisor: int
    open_files: int | None
    site: str | None
    after_stop: int = 0
    removed: int = 0
