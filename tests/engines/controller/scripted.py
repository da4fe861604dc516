"""Plans of a few lines, and jobs of a scripted backend with everything that they announce."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import yaml

from kedge.contract import StopPolicy
from kedge.engines.base import Ended, HookRetrying, JobOutcome, Started, Task
from kedge.engines.controller.attempt import Attempt
from kedge.engines.controller.job import run_job
from kedge.engines.controller.judge import Judge
from kedge.engines.controller.stop_requests import Stops
from kedge.plan.build import build
from kedge.plan.model import Plan, RetryPolicy
from kedge.policy.completion import AttemptVerdict
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.spec.model import Completion
from kedge.spec.parse import parse
from kedge.testing.backend import Happening, ScriptedBackend

A, B, C = Task("w", 0), Task("w", 1), Task("w", 2)
Turns = tuple[tuple[Happening, ...], ...]


@functools.cache
def _smallest() -> Plan:
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0}
    document = {
        "protocolVersion": 2, "name": "j", "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "x"}],
        "taskRoles": {"w": {"dockerImage": "image", "resourcePerInstance": resources, "commands": ["true"]}},
    }  # fmt: skip
    return build(resolve(parse(yaml.safe_dump(document)), Inputs("me")))


def plan(
    tasks: int = 2,
    *,
    min_failed: int = 1,
    min_succeeded: int = -1,
    gang: bool = True,
    task_retries: int = 0,
    job_retries: int = 0,
    max_transient: int = 10,
    every: bool = False,
) -> Plan:
    """A plan of one role `w`, whose retries do not wait."""
    smallest = _smallest()
    role = replace(
        smallest.roles[0],
        instances=tasks,
        completion=Completion(min_failed=min_failed, min_succeeded=min_succeeded),
        task_retry_count=task_retries,
        stop=StopPolicy(grace_sec=0.0),
    )
    return replace(
        smallest,
        roles=(role,),
        gang=gang,
        retry=RetryPolicy(job_retries, max_transient, backoff_sec=0.0),
        every_task_succeeds=every,
    )


def two_roles(first: tuple[int, int, int], second: tuple[int, int, int]) -> Plan:
    """Roles `w` and `ps`, each by its tasks, min_failed and min_succeeded."""
    made = plan()
    roles = (
        replace(made.roles[0], name=name, instances=tasks, completion=Completion(min_failed, min_succeeded))
        for name, (tasks, min_failed, min_succeeded) in (("w", first), ("ps", second))
    )
    return replace(made, roles=tuple(roles))


class Scene:
    """A job of a scripted backend: `said` has what the backend was called for and the events, in one list.

    `ask` is a stop request of a user as a happening of the script; `when` does something as an event is announced.
    """

    def __init__(self, folder: Path, stops: Stops) -> None:
        self.run, self.stops = Run(folder), stops
        self.said: list[str] = []
        self.facts: dict[str, dict[str, Any]] = {}  # of the latest event of each name
        self.when: dict[str, Callable[[], object]] = {}
        self.last: Attempt | None = None

    def ask(self) -> None:
        self.stops.request("Ctrl-C")

    def attempt(self, made: Plan, *turns: tuple[Happening, ...], late: int = 0, **script: Any) -> AttemptVerdict:
        """The verdict of one attempt; the last turns, `late`, come after its end."""
        with self._backend(turns, script) as backend:
            self.judging = Judge(self.run)
            self.last = Attempt(made, 0, backend, self.stops, self.judging, self._emit, lambda: 0.0)
            verdict = self.last.run()
        assert backend.turns_left == late
        return verdict

    def job(self, made: Plan, *turns: tuple[Happening, ...], **script: Any) -> JobOutcome:
        """How the whole job ended, after which every turn has happened."""
        with self._backend(turns, script) as backend:
            outcome = run_job(made, self.run, backend, self.stops, self._emit, lambda: 0.0)
        assert backend.turns_left == 0
        return outcome

    @property
    def states(self) -> list[str]:
        """Of the attempt's tasks, in the order of the file."""
        assert self.last is not None
        return [task.state for task in self.last.tasks.values()]

    @contextmanager
    def _backend(self, turns: Turns, script: dict[str, Any]) -> Iterator[ScriptedBackend]:
        with ScriptedBackend(*turns, **script) as backend:
            backend.calls = self.said
            yield backend

    def _emit(self, event: str, **facts: Any) -> None:
        task = f" {facts['role']}:{facts['index']}" if "role" in facts else ""
        code = f" {facts['code']}" if event in _WITH_CODE else ""
        self.facts[event] = facts
        self.said.append(f"{event}{task}{code}")
        if react := self.when.pop(event, None):
            react()


_WITH_CODE = (JobEvent.TASK_COMPLETED, JobEvent.TASK_RETRYING, JobEvent.ATTEMPT_COMPLETED)


def shown(turns: object) -> str | None:
    """Turns as the name of a test: `ask, end w:0 1 | start w:1`."""
    if not isinstance(turns, tuple) or not turns or not isinstance(turns[0], tuple):
        return None
    return " | ".join(", ".join(map(_shown, turn)) for turn in turns)


def _shown(happening: Happening) -> str:
    if isinstance(happening, Ended):
        return f"end {happening.task} {happening.report.exit_code}"
    if isinstance(happening, Started | HookRetrying):
        return f"{type(happening).__name__} {happening.task}"
    return getattr(happening, "__name__", "?")


def orders(*happenings: Happening) -> list[Turns]:
    """Every order of things that happen at almost the same time: seen at once, or one after the other."""
    found: list[Turns] = []
    for order in permutations(happenings):
        found += [(order,), tuple((each,) for each in order)]
    return found
