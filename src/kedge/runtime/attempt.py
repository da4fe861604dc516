"""One attempt from start to end: start hooks, command, exit hooks, report."""

from __future__ import annotations

import os
import time

from kedge import contract
from kedge.contract import Step, TaskSpec
from kedge.light import contextlib
from kedge.light.types import Callable
from kedge.runtime import bugs, execute, outcome, time_limits
from kedge.runtime.files import NO_SPACE
from kedge.runtime.hooks import retries, schedule
from kedge.runtime.logs import mask
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.postmortem.ending import finish, make_report, print_error, publish
from kedge.runtime.process import procfs, signals
from kedge.runtime.process.loop import READABLE
from kedge.runtime.session import Clock, Session, SupervisorOptions, begin
from kedge.runtime.setup import folders, prepare
from kedge.runtime.setup.kept_environment import KeptEnvironment
from kedge.runtime.setup.prepare import CannotStart, PreparedTask

_SLOW_COPY_SEC = 1.0


def run(spec: TaskSpec, options: SupervisorOptions) -> int:
    """Run one attempt of one task to its end and return the exit code of its report."""
    clock = Clock(time.time_ns(), time.monotonic())
    try:
        session = begin(spec, options)
    except OSError as error:
        result = outcome.of_os_error(error)
        print_error(spec, result.message)
        return publish(spec, make_report(spec, result, clock))
    time_limits.begin(session, clock.tick)
    run_outcome = _guarded(session, _run_hooks_and_command)
    session.loop.silence()  # no time limit passes any more
    session.supervisor.kill_descendants()
    final = _guarded(session, _close) or run_outcome
    assert final is not None, "only _close returns no outcome"
    return finish(session, final, clock)


def _guarded(session: Session, phase: Callable[[Session], AttemptOutcome | None]) -> AttemptOutcome | None:
    """Run one phase of the attempt; an exception becomes an outcome and a line in runtime.log."""
    try:
        return phase(session)
    except CannotStart as error:
        result = outcome.cannot_start(str(error), error.code)
        session.log.error(result.message)
    except OSError as error:
        result = outcome.of_os_error(error)
        session.log.error(result.message)
    except Exception as error:  # the one place that reports bugs of the runtime
        session.log.text(bugs.describe(error))
        result = outcome.of_bug(error)
    return result


def _run_hooks_and_command(session: Session) -> AttemptOutcome:
    secrets = prepare.read_secrets(session.spec)
    hidden = mask.finder(secrets.values(), session.options.site) if session.spec.mask else None
    session.log.hide(hidden)
    _copy_code(session)
    prepared = prepare.prepare(
        session.spec, secrets, _log_pipe(session), session.log, lambda shell: execute.has_pipefail(session, shell),
        session.options.site,
    )  # fmt: skip
    kept = KeptEnvironment()
    _keep(session, prepared, kept)
    _wait_for_gate(session)
    time_limits.begin_attempt(session)
    entered: list[Step] = []
    result = _start_hooks(session, prepared, entered, kept) or _run_command(session, prepared, hidden, entered)
    if session.spec.hold_sec:
        from kedge.runtime.hold import hold  # few tasks are held

        hold(session, result)
    result = _exit_hooks(session, prepared, entered, result)
    execute.end_descendants(session)
    return result


def _keep(session: Session, prepared: PreparedTask, kept: KeptEnvironment) -> None:
    """Keep the environment of the task's programs for those that join it."""
    try:
        kept.store(prepared.environment, session.spec.workdir, prepared.shell.path)
    except OSError as error:
        session.log.warning(f"kedge exec and ssh will miss variables, since there is no memory for them: {error}")


def _copy_code(session: Session) -> None:
    """Make the attempt's own copy of the code, unless the task is stopped in the meantime."""
    spec, began = session.spec, time.monotonic()
    if spec.code is None:
        return
    from kedge.runtime.setup import code_copy  # many tasks have no code

    try:
        copied = code_copy.make(spec.code, spec.workdir, lambda: _early_end(session) is not None)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        raise CannotStart(f"the code cannot be copied: {error.filename}: {error.strerror}") from error
    if copied and (seconds := time.monotonic() - began) > _SLOW_COPY_SEC:
        session.log.info(f"Copied the code: {copied.files} files, {copied.bytes >> 20} MiB, in {seconds:.1f} s")


def _wait_for_gate(session: Session) -> None:
    """Wait until the job's other tasks have started too, that is, until nobody holds the gate's other end; or until a
    stop."""
    gate, shut = session.options.gate, True
    if gate is None:
        return

    def read_gate(_events: int = 0) -> None:
        nonlocal shut
        with contextlib.suppress(BlockingIOError):
            shut = bool(os.read(gate, 1))

    session.loop.watch(gate, READABLE, read_gate)
    read_gate()
    session.loop.until(lambda: not shut or session.supervisor.stopping)
    session.loop.unwatch(gate)
    os.close(gate)


def _start_hooks(
    session: Session, prepared: PreparedTask, entered: list[Step], kept: KeptEnvironment
) -> AttemptOutcome | None:
    """Run the start hooks. Return the outcome if the command must not start, else None. Adds the steps that were begun
    to `entered`, and keeps what they export."""
    session.log.info("Starting to exec precommands")
    for index, step in enumerate(session.spec.steps):
        if early_end := _early_end(session):
            return early_end
        entered.append(step)
        prepared.environment.update(step.environment)
        for hook in schedule.start_hooks(index, step):
            if failure := retries.run(session, prepared, hook):
                return failure
        _keep(session, prepared, kept)
    session.log.info("Precommands finished")
    return _early_end(session)


def _run_command(
    session: Session, prepared: PreparedTask, hidden: mask.Finder | None, entered: list[Step]
) -> AttemptOutcome:
    session.log.info("USER COMMAND START")
    session.release_ports()
    before_stop = _before_stop(session, prepared, entered)
    try:
        result = outcome.of_command(execute.run_command(session, prepared, hidden, before_stop))
    except CannotStart as error:
        session.log.error(str(error))
        return outcome.cannot_start(str(error), error.code)
    if session.supervisor.limit:
        result = outcome.at_limit(session.supervisor.limit, result.user_code)
    else:
        result = result._replace(stopped_by=session.supervisor.stopped_by)
    if result.succeeded:
        session.log.info("USER COMMAND END")
    else:
        session.log.info(f"User command failed with exit code {result.user_code}")
    return result


def _before_stop(session: Session, prepared: PreparedTask, entered: list[Step]) -> Callable[[int], None] | None:
    """Runs the hooks before the command is stopped; None if there are none. Nothing that happens in them prevents the
    stop."""
    hooks = schedule.stop_hooks(entered)

    def run_hooks(pid: int) -> None:
        variables = {
            contract.COMMAND_PID_VARIABLE: str(pid),
            contract.PROGRAM_PIDS_VARIABLE: " ".join(str(each.pid) for each in procfs.programs(pid)),
        }
        told = prepared._replace(environment={**prepared.environment, **variables})
        for hook in hooks:
            if session.supervisor.ends_now:
                break
            retries.run(session, told, hook)

    def run_guarded(pid: int) -> None:
        session.log.info("Starting the hooks before the stop of the command")
        try:
            run_hooks(pid)
        except OSError as error:
            session.log.error(f"the hooks before the stop cannot run: {error}")
        except Exception as error:  # a bug of the runtime must not prevent the stop
            session.log.text(bugs.describe(error))
        session.log.info("Hooks before the stop finished")

    return run_guarded if hooks else None


def _exit_hooks(
    session: Session, prepared: PreparedTask, entered: list[Step], result: AttemptOutcome
) -> AttemptOutcome:
    """Run all exit hooks. After a success, the first hook that fails makes the task fail."""
    for hook in schedule.exit_hooks(entered, result.succeeded):
        if session.supervisor.stop_repeated:
            break
        session.supervisor.limit_hook()
        failure = retries.run(session, prepared, hook)
        if failure and result.succeeded:
            result = failure
    return result


def _early_end(session: Session) -> AttemptOutcome | None:
    """The outcome if the task must end before its command has started, else None."""
    session.loop.turn(time.monotonic())  # a stop signal may be pending
    if session.faults.first:
        path, error = session.faults.first
        return outcome.of_os_error(error, path)
    if session.supervisor.limit:
        return outcome.at_limit(session.supervisor.limit, None)
    name = session.supervisor.stopped_by
    return outcome.stopped_early(name, signals.by_name(name)) if name else None


def _log_pipe(session: Session) -> str | None:
    try:
        path, fd = folders.make_log_pipe(session.spec)
    except OSError as error:
        session.log.warning(f"RUNTIME_LOG_PIPE cannot be created: {error}")
        return None
    session.read_lines(fd)
    return path


def _close(session: Session) -> None:
    session.close()
    session.reserve.release()
    folders.remove_log_pipe(session.spec)
