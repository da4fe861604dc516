"""How an attempt ended, in the terms of its Report."""

from __future__ import annotations

from kedge import contract
from kedge.contract import TaskTimeLimit
from kedge.light.types import NamedTuple
from kedge.runtime import bugs
from kedge.runtime.files import NO_SPACE
from kedge.runtime.process import signals


class AttemptOutcome(NamedTuple):
    """How an attempt ended.

    `user_code` is the exit code of the command (or of the failed hook), None if it never started; `exit_code` is the
    container's. `stopped_by` is the stop signal received before the end, if any. `step` names the step whose hook
    failed, and `last_line` is the last line that hook printed. `cause` (a name from diagnose/) is set where the runtime
    itself knows why. `retry_after_sec` is the pause that a server asked the hook for."""

    reason: str
    message: str
    exit_code: int
    user_code: int | None = None
    stopped_by: str | None = None
    cause: str | None = None
    step: str | None = None
    last_line: str = ""
    retry_after_sec: float | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the exit hooks to run are those of a success."""
        return self.reason == contract.SUCCEEDED

    @property
    def broken(self) -> bool:
        """Whether the attempt ended because the runtime itself could not go on."""
        return self.reason in (contract.DISK_FULL, contract.RUNTIME_ERROR)


def of_command(status: int) -> AttemptOutcome:
    """The outcome that follows from the command's wait status."""
    code = shell_code(status)
    if code == 0:
        return AttemptOutcome(contract.SUCCEEDED, "the command succeeded", 0, 0)
    reason = contract.COMMAND_KILLED if status & 0x7F else contract.COMMAND_FAILED
    return AttemptOutcome(reason, f"the command {ending(status)}", contract.container_code(code), code)


def of_hook(step: str, message: str, code: int, cause: str | None) -> AttemptOutcome:
    """A hook of `step` failed, and its failures are not ignored. `code` is a shell exit code; PREREQUISITE_TRANSIENT
    is passed on unchanged."""
    exit_code = code if code == contract.PREREQUISITE_TRANSIENT else contract.container_code(code)
    return AttemptOutcome(contract.HOOK_FAILED, message, exit_code, code, cause=cause, step=step)


def stopped_early(signal_name: str, number: int) -> AttemptOutcome:
    """A stop request arrived before the command was started."""
    message = f"stopped by {signal_name} before the command started"
    return AttemptOutcome(
        contract.COMMAND_KILLED, message, contract.container_code(128 + number), stopped_by=signal_name
    )


def at_limit(limit: TaskTimeLimit, user_code: int | None) -> AttemptOutcome:
    """A time limit has passed, and so the attempt was stopped, however the command took that."""
    return AttemptOutcome(contract.TIME_LIMIT, limit.message, contract.UNRECOGNISED, user_code, stopped_by=limit.key)


def cannot_start(message: str, code: int | None) -> AttemptOutcome:
    """The command could not be started, through no fault of the runtime."""
    exit_code = contract.UNRECOGNISED if code is None else contract.container_code(code)
    return AttemptOutcome(contract.CANNOT_START, message, exit_code, code)


def of_os_error(error: OSError, path: str | None = None, user_code: int | None = None) -> AttemptOutcome:
    """The runtime could not write, create or read a file."""
    reason = contract.DISK_FULL if error.errno in NO_SPACE else contract.RUNTIME_ERROR
    message = f"{path or error.filename or 'the runtime'}: {error.strerror or error}"
    return AttemptOutcome(reason, message, contract.RUNTIME_BROKE, user_code)


def of_bug(error: Exception) -> AttemptOutcome:
    """An unexpected exception."""
    return AttemptOutcome(contract.RUNTIME_ERROR, bugs.sentence(error), contract.RUNTIME_BROKE)


def shell_code(status: int) -> int:
    """The exit code that a shell gives a wait status: the code itself, or 128+n after death by signal n."""
    number = status & 0x7F
    return 128 + number if number else status >> 8


def death(status: int) -> str | None:
    """The name of the signal that killed the process, None if it exited."""
    number = status & 0x7F
    return signals.name_of(number) if number else None


def ending(status: int) -> str:
    """How a process ended, as the predicate of a sentence."""
    name = death(status)
    return f"was killed by signal {name}" if name else f"exited with code {status >> 8}"
