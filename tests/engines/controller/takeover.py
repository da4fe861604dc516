"""A job whose controllers are killed at any instant, while its tasks and its user go on."""

from __future__ import annotations

import json
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kedge.contract import REPORT_FILE
from kedge.engines.base import Deadline, Ended, JobOutcome, Started, Task, Update
from kedge.engines.controller import resume
from kedge.engines.controller.allocation import Allocation
from kedge.engines.controller.job import run_job
from kedge.engines.controller.stop_requests import Stops
from kedge.plan.model import Plan
from kedge.runs import events, status
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import FINAL

# What a controller decides. What it merely learns may be recorded again by a second one.
_DECISIONS = (
    JobEvent.ATTEMPT_STARTED, JobEvent.TASK_LAUNCHED, JobEvent.TASK_COMPLETED, JobEvent.TASK_RETRYING,
    JobEvent.ATTEMPT_COMPLETED, JobEvent.JOB_RETRYING, JobEvent.TIME_LIMIT_REACHED, JobEvent.STOP_REQUESTED,
    JobEvent.JOB_COMPLETED,
)  # fmt: skip
# Two requests at once may be recorded one by one.
_NOT_COMPARED = ("time", "report", "kill")


class Ask(NamedTuple):
    """The user asks to stop the job, and again if that is not recorded."""


class Release(NamedTuple):
    """The user ends the hold of a task, and again if that is not recorded."""


Happening = Update | Ask | Release
ASK, RELEASE = Ask(), Release()


class Killed(BaseException):
    """The controller is killed."""


class Instants:
    """Counts the instants at which a controller could be killed, and kills it at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.seen, self._at = 0, at

    def __call__(self) -> None:
        self.seen += 1
        if self.seen == self._at:
            raise Killed


class World:
    """What outlives a controller: the agents of the tasks, and the user. `turns` are what happens, as for a scripted
    backend. With `stored`, supervisors leave their reports in the folders of their tasks."""

    def __init__(self, run: Run, turns: Iterable[Iterable[Happening]], stored: bool) -> None:
        self.run, self._stored = run, stored
        self.turns = deque(turns)
        self.asked = self.releases = 0
        self.starts: Counter[tuple[Task, int, int]] = Counter()
        self.calls: list[str] = []
        self.known: dict[Task, tuple[int, int]] = {}  # the attempt that each agent has started
        self.ended: dict[Task, Ended] = {}  # as the agents know it
        self.unacked: list[Update] = []

    def happen(self, stops: Stops) -> list[Update]:
        """The next turn."""
        assert self.turns, "the script is over, and the controller waits"
        found: list[Update] = []
        for each in self.turns.popleft():
            if isinstance(each, Ask):
                self.asked += 1
                stops.request("Ctrl-C")
            elif isinstance(each, Release):
                self.releases += 1
                stops.take("release")
            else:
                found.append(each)
                if isinstance(each, Ended):
                    self._end(each)
        return found

    def _end(self, update: Ended) -> None:
        assert update.task in self.known, f"the script ends {update.task}, which has not started"
        assert update.task not in self.ended, f"the script ends {update.task} twice"
        self.ended[update.task] = update
        if self._stored:
            folder = self.run.task(*update.task, *self.known[update.task])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / REPORT_FILE).write_text(json.dumps(update.report._asdict()))

    def lose(self, turns: Iterable[Iterable[Happening]]) -> None:
        """The allocation is gone, with all tasks; these turns happen in the next one."""
        self.known, self.ended, self.unacked, self.turns = {}, {}, [], deque(turns)


class WorldBackend:
    """The backend of one controller."""

    due = math.inf

    def __init__(self, world: World, stops: Stops, instant: Instants) -> None:
        self._world, self._stops, self._instant = world, stops, instant
        self._again: list[Update] = []
        self._begun = False
        self._adopting: dict[Task, int] = {}
        self._waits = False  # until the controller has looked
        self._always, self._writer = os.pipe()
        os.write(self._writer, b"\0")

    def place(self, attempt: int) -> None:
        self._call(f"place {attempt}")
        world = self._world
        assert world.ended.keys() == world.known.keys(), "a task of the attempt before still runs"
        world.known, world.ended, world.unacked, self._begun = {}, {}, [], True
        self._instant()

    def adopt(self, attempt: int, running: Mapping[Task, int]) -> None:
        assert not self._begun, "it is not the first call"
        self._call(f"adopt {attempt}")
        self._adopting, self._begun, self._waits = dict(running), True, True
        world = self._world
        alive = {task for task, number in running.items() if world.known.get(task) == (attempt, number)}
        ends = [world.ended[task] for task in alive if task in world.ended]
        self._again = [each for each in world.unacked if each.task in alive]
        self._again += [each for each in ends if each not in self._again]
        self._again += [Started(task) for task in alive if task not in world.ended]
        self._instant()

    def start(self, task: Task, attempt: int, task_attempt: int, deadlines: tuple[Deadline, ...]) -> None:
        assert self._begun, "there is no place"
        self._call(f"start {task} {attempt}.{task_attempt}")
        world = self._world
        if world.known.get(task) == (attempt, task_attempt):
            assert self._adopting.pop(task) == task_attempt, f"{task} is started twice"
            return
        world.starts[task, attempt, task_attempt] += 1
        assert task not in world.known or task in world.ended, f"{task} runs already"
        world.known[task] = attempt, task_attempt
        world.ended.pop(task, None)
        world.unacked = [each for each in world.unacked if each.task != task]
        self._waits = True
        self._instant()

    def warn(self, task: Task) -> None:
        self._of(task, "warn")

    def stop(self, task: Task) -> None:
        self._of(task, "stop")

    def end_grace(self, task: Task) -> None:
        self._of(task, "end_grace")

    def kill(self, task: Task) -> None:
        self._of(task, "kill")

    def fileno(self) -> int:
        return self._always

    def poll(self) -> list[Update]:
        self._instant()
        world = self._world
        world.unacked = []
        if self._waits:
            found, self._again, self._waits = self._again, [], False
        else:
            found = world.happen(self._stops)
        world.unacked = found
        self._instant()
        return found

    def close(self) -> None:
        os.close(self._always)
        os.close(self._writer)

    def _of(self, task: Task, what: str) -> None:
        self._call(f"{what} {task}")
        assert task in self._world.known, f"{what} of {task}, which has not started"
        self._instant()

    def _call(self, what: str) -> None:
        self._instant()
        self._world.calls.append(what)


class Result(NamedTuple):
    """What must be the same however often the controller is killed."""

    outcome: tuple[Any, ...]
    starts: frozenset[tuple[Task, int, int]]
    decisions: tuple[str, ...]
    tasks: tuple[status.TaskStatus, ...]


class Takeovers:
    """One job in a folder of its own; `run` ends when it has ended."""

    def __init__(self, folder: Path, plan: Plan, turns: Iterable[Iterable[Happening]], *, stored: bool) -> None:
        folder.mkdir()
        self.run_folder = Run(folder)
        self.plan, self.world = plan, World(self.run_folder, turns, stored)
        self.allocation = Allocation()
        with EventLog(self.run_folder.events) as log:
            log.append(JobEvent.JOB_SUBMITTED, roles={role.name: role.instances for role in plan.roles})

    def run(self, *kills: int) -> Result:
        """Kill the first controller at the first of these instants, the second at the second, and so on."""
        for at in kills:
            try:
                self.controller(Instants(at))
            except Killed:
                continue
            break
        self.controller(Instants())
        return self.result()

    def requeue(self, allocation: Allocation, *turns: Iterable[Happening]) -> None:
        """The job gets another allocation, in which these turns happen."""
        self.allocation = allocation
        self.world.lose(turns)

    def log(self) -> list[events.Event]:
        return list(events.read(self.run_folder.events))

    def of(self, event: str) -> list[events.Event]:
        """The events of one name."""
        return [each for each in self.log() if each["event"] == event]

    def controller(self, instant: Instants) -> JobOutcome | None:
        """Run a controller, or nothing if the job has ended."""
        if self.now().state in FINAL:
            return None
        with Stops() as stops, EventLog(self.run_folder.events) as log:
            emit = _emitter(log, instant)
            progress = resume.read(self.plan, self.run_folder, self.allocation)
            recorded = 0 if not progress or not progress.stops else 1 + progress.stops.kill
            for _ in range(self.world.asked - recorded):
                stops.request("Ctrl-C")
            if self.world.releases > len(self.of(JobEvent.TASK_RELEASED)):
                stops.take("release")
            backend = WorldBackend(self.world, stops, instant)
            try:
                outcome = run_job(self.plan, self.run_folder, backend, stops, emit, lambda: 0.0, progress)
            finally:
                backend.close()
            facts = {"code": outcome.code, "text": outcome.text, "exit_code": outcome.exit_code}
            judged = outcome.judged.to_json()
            emit(JobEvent.JOB_COMPLETED, state=outcome.state, **facts, attempt=outcome.attempt, judged=judged)
        return outcome

    @property
    def requests(self) -> set[str]:
        """What was asked of tasks."""
        return {call for call in self.world.calls if call.startswith(("stop", "end_grace", "warn", "kill"))}

    def now(self) -> status.JobStatus:
        return status.fold(events.read(self.run_folder.events))

    def result(self) -> Result:
        log = self.log()
        assert max(self.world.starts.values(), default=1) == 1, "a task was started twice"
        decisions = sorted(_shown(event) for event in log if event["event"] in _DECISIONS)
        now = status.fold(log)
        tasks = tuple(_without_times(task) for task in now.tasks)
        outcome = (now.state, now.attempt, now.code, now.exit_code, now.text, now.cause)
        return Result(outcome, frozenset(self.world.starts), tuple(decisions), tasks)


def _emitter(log: EventLog, instant: Instants) -> Callable[..., None]:
    def emit(event: str, **facts: Any) -> None:
        instant()
        log.append(event, **facts)
        instant()

    return emit


def _shown(event: events.Event) -> str:
    return json.dumps({name: fact for name, fact in event.items() if name not in _NOT_COMPARED}, sort_keys=True)


def _without_times(task: status.TaskStatus) -> status.TaskStatus:
    from dataclasses import replace

    return replace(task, started=None, ended=None)
