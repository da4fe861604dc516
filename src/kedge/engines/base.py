"""What an engine is: the place where a plan runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from kedge.contract import Report
from kedge.diagnose.decide.job import JobVerdict
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run
from kedge.states import State


class Task(NamedTuple):
    """One task of a job."""

    role: str
    task_index: int

    def __str__(self) -> str:
        return f"{self.role}:{self.task_index}"


class JobOutcome(NamedTuple):
    """How a job ended: `succeeded`, `failed` or `stopped`; `code` is the completion code, `text` says why.

    `attempt` is the last one, from 0, and `judged` why it failed. `interrupted`: by the user's own Ctrl-C. `disk_full`:
    for want of space, not by a fault of the job.
    """

    state: State
    code: int
    text: str
    attempt: int
    judged: JobVerdict
    interrupted: bool = False
    disk_full: bool = False


class EngineRequest(NamedTuple):
    """What an engine would be asked for a task: `value` in its own terms, `command` a line for a shell that does the
    same; empty where there is none."""

    task: str
    value: dict[str, Any]
    command: str = ""


class Note(NamedTuple):
    """One sentence that the user should know and need not act on: shown when the job is submitted or, if `in_summary`,
    under the summary of the run."""

    text: str
    in_summary: bool = False


class EngineOption(NamedTuple):
    """An option of an engine: a keyword of its class, and an option of the command line with dashes in its name.

    `kind` is bool, int, str, or dict for folders of this machine by names. `metavar` stands for the value in the help;
    `choices` are all values that there are, `least` the smallest.
    """

    name: str
    kind: type[bool] | type[int] | type[str] | type[dict[str, str]]
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None

    @property
    def flag(self) -> str:
        """As people write it."""
        return f"--{self.name.replace('_', '-')}"


class Engine(Protocol):
    """One place to run jobs. `notes` and `check` look at the machine and start nothing.

    `accepts` declares all keywords of the class, each with a default.
    """

    name: str
    accepts: ClassVar[tuple[EngineOption, ...]]

    @property
    def options(self) -> Mapping[str, Any]:
        """What makes the same engine again, as JSON values: `registry.make(name, **options)`."""
        ...

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        """What this engine does not do for this plan, or does in another way than the user may expect."""
        ...

    def check(self, plan: Plan) -> None:
        """CannotRun, naming the number that is short, when the plan cannot run here."""
        ...

    def requests(self, plan: Plan, task: Task | None = None) -> tuple[EngineRequest, ...]:
        """What the engine would be asked for: for one task, or the first of every role. CannotRun. Starts nothing."""
        ...

    def secrets_dir(self, run: Run) -> str:
        """Where this engine keeps the values of a run's secrets while the job lives."""
        ...

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        """Run the whole job, retries included, and return when it has ended and nothing of it runs any more.

        Everything said goes to the run folder, whose lock the caller holds, and which has its reserve.
        """
        ...

    def stop(self, run: Run, kill: bool) -> tuple[str, ...]:
        """Ask the run's controller to stop it (`kill`: without grace, and whatever the controller does). Of a lost run,
        end what is left and clean up. Notes for the user, as about a controller that was suspended."""
        ...

    def suspended(self, run: Run) -> int | None:
        """The pid of the run's controller, if that is suspended (Ctrl-Z), so that nothing is decided."""
        ...

    def forget(self, run: Run) -> None:
        """Remove what a run that has ended still has outside of its folder, and let the user delete all that is in it.
        CannotRun."""
        ...


class Started(NamedTuple):
    """A task's command runs."""

    task: Task


class HookRetrying(NamedTuple):
    """A hook of `step` failed for the reason `message`; try `next_try` of `tries` comes after `delay_sec` seconds."""

    task: Task
    step: str
    message: str
    next_try: int
    tries: int
    delay_sec: float


class Ended(NamedTuple):
    """An attempt of a task has ended and nothing of it runs any more."""

    task: Task
    report: Report


Update = Started | HookRetrying | Ended


class Backend(Protocol):
    """What engines/controller needs from an engine that has no controller of its own.

    `stop`, `end_grace` and `kill` may come for a task whose end `poll` has not told yet, or has told in the same list:
    they do nothing then. `kedge.testing.backend.ScriptedBackend` is one without processes, for tests.
    """

    def place(self, attempt: int) -> None:
        """Reserve what all tasks of a job attempt need, before any of them starts. CannotRun if it is not there."""
        ...

    def start(self, task: Task, attempt: int, task_attempt: int) -> None:
        """Start one attempt of one task."""
        ...

    def stop(self, task: Task) -> None:
        """Ask for the task's stop ladder."""
        ...

    def end_grace(self, task: Task) -> None:
        """End the grace of a task whose stop ladder was asked for."""
        ...

    def kill(self, task: Task) -> None:
        """End all processes of the task at once, when its ladder did not."""
        ...

    def fileno(self) -> int:
        """Becomes readable when `poll` has something new."""
        ...

    def poll(self) -> list[Update]:
        """What happened since the last call, in order. Never blocks."""
        ...

    def close(self) -> None:
        """Give back everything; nothing of the job runs any more."""
        ...
