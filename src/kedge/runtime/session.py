"""The parts of one attempt, created and connected in one place."""

from __future__ import annotations

import os
import time

from kedge import contract
from kedge.contract import Step, TaskSpec, TaskTimeLimit, duration_text
from kedge.light.types import Any, NamedTuple
from kedge.runtime.events import AttemptLog, Reserve
from kedge.runtime.files import Faults
from kedge.runtime.logs.console import ConsoleCopy
from kedge.runtime.logs.output import UserLogs
from kedge.runtime.logs.pipes import Pipe
from kedge.runtime.logs.runtime_log import LineFeed, RuntimeLog
from kedge.runtime.process import cgroup, children, procfs, signals
from kedge.runtime.process.cgroup import OomKills
from kedge.runtime.process.loop import Loop
from kedge.runtime.process.supervise import Supervisor
from kedge.runtime.setup import folders
from kedge.runtime.status import Status

_CONSOLE_SEC = 5.0  # how long a slow reader of the console may delay the end of the task


class Clock(NamedTuple):
    """When an attempt began: `time` in nanoseconds since 1970, `tick` in seconds of the monotonic clock."""

    time: int
    tick: float


class SupervisorOptions(NamedTuple):
    """The parsed command line. Four fields are descriptors, which children do not inherit: `status` takes event lines,
    `hold` reserves the task's ports until the command starts, `keep` stays open until the end, and no user code runs
    before `gate` reaches its end of file. `open_files` is the soft limit of open files for the task's programs.
    `site` is a folder of installed packages (google-re2) for masking secrets and analysing failures. `control` is the
    descriptor of a FIFO with requests (kedge.runtime.control); with `wait_spec` the spec may be written later."""

    spec_file: str
    status: int | None = None
    gate: int | None = None
    hold: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()
    open_files: int | None = None
    site: str | None = None
    control: int | None = None
    wait_spec: bool = False


class StartedService(NamedTuple):
    """A program that runs beside the command, and the step that has started it."""

    step: Step
    pid: int


class Session(NamedTuple):
    """The parts of a running attempt. `consoles` are copies to the supervisor's stdout (the user's stdout) and stderr
    (everything else); `line_pipes` are the pipes whose lines go to runtime.log; `oom_kills` is the control group's
    counter before the attempt; `failed_hooks` is the report's list of failed hooks; `services` run beside the
    command; `held_ports` are the descriptors that still reserve the task's ports."""

    spec: TaskSpec
    options: SupervisorOptions
    loop: Loop
    supervisor: Supervisor
    events: AttemptLog
    reserve: Reserve
    log: RuntimeLog
    logs: UserLogs
    faults: Faults
    consoles: tuple[ConsoleCopy | None, ConsoleCopy | None]
    line_pipes: list[Pipe]
    oom_kills: OomKills | None
    failed_hooks: list[dict[str, Any]]
    services: list[StartedService]
    held_ports: list[int]

    def read_lines(self, fd: int, feed: LineFeed | None = None) -> LineFeed:
        """Log the lines of a pipe until it is closed."""
        feed = feed or LineFeed(self.log)
        self.line_pipes.append(Pipe(self.loop, fd, feed.feed, feed.finish, self.consoles[1]))
        return feed

    def release_ports(self) -> None:
        """Let the task's programs bind its ports from now on."""
        for fd in self.held_ports:
            os.close(fd)
        self.held_ports.clear()

    def broken(self) -> bool:
        """Whether a log or event file could not be written."""
        return self.faults.first is not None

    def close(self) -> None:
        """Read what is left in the pipes, and close the logs."""
        for pipe in self.line_pipes:
            pipe.close()
        self.logs.close()

    def announce(self, text: str, by: str) -> None:
        """Run the hooks before a stop now, while the command goes on; `text` explains why. Only the first time."""
        if self.supervisor.announce():
            self.log.info(f"The task will be stopped soon: {text}")
            self.events.emit(contract.STOP_ANNOUNCED, by=by, text=text)

    def finish_consoles(self) -> None:
        """Write the rest of the console copies, unless nobody reads them."""
        deadline = time.monotonic() + _CONSOLE_SEC
        for console in filter(None, self.consoles):
            console.finish(deadline)


def begin(spec: TaskSpec, options: SupervisorOptions) -> Session:
    """Take over signals and children, make the attempt's folders, open the logs and emit the STARTING event. OSError
    when a file or folder cannot be made."""
    loop = Loop()
    signals.take_over()
    children.become_subreaper()
    folders.make(spec)
    faults = Faults()
    events = AttemptLog(spec, faults, Status(loop, options.status))
    supervisor_stat = procfs.process("self")
    start_time = supervisor_stat.start_time if supervisor_stat else None
    events.emit(contract.STARTING, pid=os.getpid(), start_time=start_time)
    consoles = (ConsoleCopy(loop, 1), ConsoleCopy(loop, 2)) if spec.logs.console else (None, None)
    log = RuntimeLog(f"{spec.folder}/{contract.RUNTIME_LOG}", faults, consoles[1])

    def report_stop(name: str | None, limit: TaskTimeLimit | None) -> None:
        logs.mark_stop()
        log.info(
            f"Stopping: {limit.key} of {duration_text(limit.limit_sec)} has passed"
            if limit
            else f"Stopping: got signal {name}"
        )
        events.emit(contract.STOPPING, signal=name, limit=limit and limit.key)

    def report_removed(path: str, size: int) -> None:
        log.warning(f"Removed {path} ({size} bytes): only {spec.logs.kept_files} rotated files of a stream are kept")

    oom_kills = cgroup.read_oom_kills()

    def report_notice() -> None:
        session.announce("the place where it runs is about to end it", contract.NOTICE)

    supervisor = Supervisor(loop, spec.stop, report_stop, report_notice)
    if options.control is not None:
        from kedge.runtime.control import Control  # only where an agent has started this process

        supervisor.term_escalates = False
        Control(loop, options.control, supervisor.on_signal)
    logs = UserLogs(spec.folder, spec.logs, faults, report_removed)
    session = Session(
        spec, options, loop, supervisor, events, Reserve(spec.runtime_d), log, logs, faults, consoles, [], oom_kills,
        [], [], list(options.hold),
    )  # fmt: skip
    return session
