"""The interface of an engine, the place where a plan runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from kedge.contract import Report, TaskTimeLimit
from kedge.diagnose.decide.job import JobVerdict
from kedge.errors import EXIT_CANNOT_RUN, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
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


class TaskAttempt(NamedTuple):
    """One attempt of a task."""

    task: Task
    job_attempt: int
    task_attempt: int


class ExecRequest(NamedTuple):
    """A program to run beside a task; an empty `argv` means the task's shell. `stdin`: it reads what this process
    reads. `terminal`: it has a terminal, which follows the size of this process's own."""

    argv: tuple[str, ...] = ()
    stdin: bool = False
    terminal: bool = False


class JobOutcome(NamedTuple):
    """How a job ended: `succeeded`, `failed` or `stopped`; `code` is the completion code, `text` the reason.

    `attempt` is the number of the last one, from 0; `judged` is why it failed. `interrupted`: by the user's own Ctrl-C.
    `disk_full`: the disk was full, so the job is not at fault.
    """

    state: State
    code: int
    text: str
    attempt: int
    judged: JobVerdict
    interrupted: bool = False
    disk_full: bool = False

    @property
    def exit_code(self) -> int:
        """That of `kedge run`."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.disk_full:
            return EXIT_CANNOT_RUN
        return EXIT_OK if self.state == State.SUCCEEDED else EXIT_FAILED


class EngineRequest(NamedTuple):
    """What kedge would request for a task: `value` in the engine's own terms, and `command`, a shell command or a
    script that does the same; one of the two may be empty. `title` stands above them, instead of the task's name."""

    task: str
    value: dict[str, Any]
    command: str = ""
    title: str = ""


class Note(NamedTuple):
    """One sentence that the user should know and need not act on. It is shown when the job is submitted or, if
    `in_summary`, under the summary of the run."""

    text: str
    in_summary: bool = False


LEAST_UNREACHABLE_SEC = 40  # two heartbeats of an agent: one alone may be late


class EngineOption(NamedTuple):
    """An option of an engine: a keyword of its class, and an option of the command line with dashes in its name.

    `kind` is bool, int, str, list for texts, or dict for folders of this machine by name. `metavar` stands for the
    value in the help; `choices` are the allowed values, `least` is the smallest, of a duration in seconds. `default` is
    shown to the user; False for a bool. `pattern`: texts must match it, else `mismatch` says what is wrong, after the
    value.
    `group`: on the command line it is `--GROUP KEY=VALUE`, and in a job file `extras.GROUP.KEY`.
    `alone`: the command line has `--KEY VALUE` for it, too. `is_queue`: it names what jobs wait in, so that `--queue`
    sets it on every engine. `site_only`: only the site's file sets it. `not_in_job`: a job file, which may come from a
    stranger, does not.
    """

    name: str
    kind: type[bool] | type[int] | type[str] | type[list[str]] | type[dict[str, str]]
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None
    default: str | int | None = None
    pattern: str = ""
    mismatch: str = ""
    group: str = ""
    site_only: bool = False
    not_in_job: bool = False
    alone: bool = False
    is_queue: bool = False

    @property
    def key(self) -> str:
        """Its name in settings and in messages."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        """The option on the command line, without its value."""
        return f"--{self.group} {self.key}" if self.group else f"--{self.key}"


class Engine(Protocol):
    """One place to run jobs. `notes` and `check` look at the machine and start nothing.

    `accepts` declares all keywords of the class, each with a default.
    """

    name: str
    accepts: ClassVar[tuple[EngineOption, ...]]
    in_cluster: ClassVar[bool]
    """Whether the controller runs there, too: then `submit` is called instead of `run`, which a process in the cluster
    calls."""

    @classmethod
    def load(cls) -> None:
        """Import what `run` needs and other members do not. The controller calls it once, before an engine is created
        and while the garbage collector is off. It may do nothing: `run` works without it, but starts more slowly."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that make the same engine again, as JSON values: `registry.make(name, **options)`."""
        ...

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        """What this engine does not do for this plan, or does differently than the user may expect."""
        ...

    def check(self, plan: Plan) -> None:
        """CannotRun if the plan cannot run here; the error names the number that is too small."""
        ...

    def requests(self, plan: Plan, task: Task | None = None) -> tuple[EngineRequest, ...]:
        """The requests for one task, or for the first task of every role. CannotRun. Starts nothing."""
        ...

    def secrets_dir(self, run: Run) -> str:
        """The folder in which this engine keeps the values of a run's secrets while the job runs."""
        ...

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        """Run the whole job, including retries, and return when it has ended and none of its processes is left.

        All output goes to the run folder. The caller holds its lock and has reserved its disk space.
        """
        ...

    def submit(self, run: Run, plan: Plan, say: Callable[[str], object]) -> None:
        """Hand a run, whose orders are in its folder (`runs.cluster_files`), over to the cluster. CannotRun if it is
        refused; the caller then removes the folder. `say` tells the user what takes long. Never called unless
        `in_cluster`."""
        ...

    def stop(self, run: Run, kill: bool) -> tuple[str, ...]:
        """Ask the run's controller to stop it (`kill`: without grace, even if the controller does not react). End and
        clean up what is left of a lost run. Returns notes for the user, for example about a suspended controller."""
        ...

    def forward(self, run: Run, number: int) -> None:
        """Forward a signal with which a viewer requests a stop (SIGINT, SIGHUP, SIGTERM), or the end of a hold
        (controller_lock.RELEASE), to the run's controller, and resume it if it is suspended. Returns at once, and does
        nothing to a run without a controller. CannotRun: the controller cannot be reached from here."""
        ...

    def suspended(self, run: Run) -> int | None:
        """The pid of the run's controller if it is suspended (Ctrl-Z), so that it decides nothing."""
        ...

    def exec(self, run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
        """Run a program beside a running task, with the task's environment and in its working directory, connected to
        the standard streams and the signals of this process, and return its exit code as a shell shows it. It is ended
        when the task ends. CannotRun: the task is not running."""
        ...

    def forget(self, run: Run) -> None:
        """Remove what an ended run still has outside its folder, and make everything in the folder deletable by the
        user. CannotRun."""
        ...


class Deadline(NamedTuple):
    """When a time limit of a task attempt passes, by time.monotonic(); None: it begins with the attempt."""

    limit: TaskTimeLimit
    end: float | None


class Started(NamedTuple):
    """A task's command has started."""

    task: Task


class HookRetrying(NamedTuple):
    """A hook of `step` failed with `message`; try `next_try` of `tries` follows after `delay_sec` seconds."""

    task: Task
    step: str
    message: str
    next_try: int
    tries: int
    delay_sec: float


class LimitReached(NamedTuple):
    """The supervisor of a task stops it, because the time limit with this key has passed."""

    task: Task
    key: str


class StopAnnounced(NamedTuple):
    """A task will be stopped soon, so its hooks before a stop run: `by` is the key of a time limit, or `notice`."""

    task: Task
    by: str
    text: str


class TaskHeld(NamedTuple):
    """A task has failed and is held for up to `hold_sec` seconds; `code` is that of its command, if it ran."""

    task: Task
    hold_sec: float
    code: int | None
    message: str


class ServiceStarted(NamedTuple):
    """A service of a task works, a program beside its command; `address` is where, if it is known by now."""

    task: Task
    name: str
    address: str | None


class ServiceEnded(NamedTuple):
    """A service of a task has ended with this exit code (128+n for signal n), with the task if `task_over`."""

    task: Task
    name: str
    code: int
    task_over: bool


class PreemptionNotice(NamedTuple):
    """The place where a task runs will be taken from it soon. `text` explains that to the user."""

    task: Task
    text: str


class TaskPlaced(NamedTuple):
    """A task has a place: the name of its node, as the cluster calls it, and the address for its peers."""

    task: Task
    node: str
    address: str


class HeldInQueue(NamedTuple):
    """A queue has held all tasks of the job attempt for so many seconds more: they count for no time limit."""

    task: Task
    seconds: float


class TaskUnreachable(NamedTuple):
    """The agent of a task has been silent for a while; `text` says for how long, and where the task was. It has not
    ended."""

    task: Task
    text: str


class TaskReachable(NamedTuple):
    """The agent of an unreachable task has sent something again."""

    task: Task


class Ended(NamedTuple):
    """An attempt of a task has ended, and none of its processes is left. `place_lost`: its place is gone, too, so that
    the task cannot be tried again alone: only in another attempt of the job."""

    task: Task
    report: Report
    place_lost: bool = False


Update = (
    Started
    | TaskHeld
    | HookRetrying
    | LimitReached
    | StopAnnounced
    | ServiceStarted
    | ServiceEnded
    | PreemptionNotice
    | TaskPlaced
    | HeldInQueue
    | TaskUnreachable
    | TaskReachable
    | Ended
)


class Backend(Protocol):
    """What engines/controller needs from an engine that has no controller of its own.

    `warn`, `stop`, `end_grace` and `kill` may be called for a task that has ended but whose end `poll` has not returned
    yet, or has just returned: they do nothing then. `kedge.testing.backend.ScriptedBackend` is a backend without
    processes, for tests.
    """

    def place(self, attempt: int) -> None:
        """Reserve what all tasks of a job attempt need, before any of them starts. CannotRun if it is not available."""
        ...

    def adopt(self, attempt: int, running: Mapping[Task, int]) -> None:
        """Take over a job attempt whose controller has died, instead of `place`: the first call of a second controller,
        if an attempt has begun in the same allocation. What the dead one may not have reserved is reserved now.

        `running` are the tasks that have not ended, by their task attempts, for all that the dead controller recorded.
        Next, `start` is called for each of them: it does nothing if that attempt of the task has started already, but
        the dead controller may not have come so far. From then on, `poll` also has what the dead one was told and did
        not record: above all `Ended` for each of them that has ended, and `Started` for those that run. Of other
        attempts of tasks nothing is reported. Never called for engines whose tasks end with their controller.
        """
        ...

    def start(self, task: Task, attempt: int, task_attempt: int, deadlines: tuple[Deadline, ...]) -> None:
        """Start one attempt of one task. Its supervisor enforces the deadlines (`controller.time_limits.left`)."""
        ...

    def warn(self, task: Task) -> None:
        """Tell the task's supervisor that the task will be stopped soon: its hooks before a stop run now. If the task
        has failed and is held, that ends the hold."""
        ...

    def stop(self, task: Task) -> None:
        """Start the task's stop ladder. A supervisor that has started it already, at a time limit, goes on with it."""
        ...

    def end_grace(self, task: Task) -> None:
        """End the grace period of a task whose stop ladder has started."""
        ...

    def kill(self, task: Task) -> None:
        """End all processes of the task at once, because its ladder has not."""
        ...

    def fileno(self) -> int:
        """A descriptor that becomes readable when `poll` has new updates."""
        ...

    @property
    def due(self) -> float:
        """When `poll` must be called even if `fileno` is not readable, by time.monotonic(); infinite if never. A
        backend for which it is finite is polled between the attempts of a job, too."""
        ...

    def poll(self) -> list[Update]:
        """The updates since the last call, in order. Never blocks."""
        ...

    def close(self) -> None:
        """Release everything. None of the job's processes is left then."""
        ...
