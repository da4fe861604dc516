"""How an attempt ended, in the terms of its Report."""

from __future__ import annotations

from typing import NamedTuple

from kedge import contract
from kedge.runtime import bugs
from kedge.runtime.files import NO_SPACE
from kedge.runtime.process import signals


class AttemptOutcome(NamedTuple):
    """`user_code` is what the command (or the failed hook) ended with, None if it never started; `exit_code` is the
    container's. `stopped_by`: the stop signal that we had got by then, if any. `step` names the step whose hook failed,
    `said` the last line that this printed, `cause` why, as diagnose/ names causes, where the runtime knows that by
    itself; `retry_after_sec` is what a server said to it."""

    reason: str
    message: str
    exit_code: int
    user_code: int | None = None
    stopped_by: str | None = None
    cause: str | None = None
    step: str | None = None
    said: str = ""
    retry_after_sec: float | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the exit-side hooks are those of a success."""
        return self.reason == contract.SUCCEEDED

    @property
    def broken(self) -> bool:
        """Whether the runtime itself could not go on."""
        return self.reason in (contract.DISK_FULL, contract.RUNTIME_ERROR)


def of_command(status: int) -> AttemptOutcome:
    """From the command's wait status."""
    code = shell_code(status)
    if code == 0:
        return AttemptOutcome(contract.SUCCEEDED, "the command succeeded", 0, 0)
    reason = contract.COMMAND_KILLED if status & 0x7F else contract.COMMAND_FAILED
    return AttemptOutcome(reason, f"the command {ending(status)}", contract.container_code(code), code)


def of_hook(step: str, message: str, code: int, cause: str | None) -> AttemptOutcome:
    """A hook of `step` failed, and this counts. `code` as a shell shows it; PREREQUISITE_TRANSIENT stays as it is."""
    exit_code = code if code == contract.PREREQUISITE_TRANSIENT else contract.container_code(code)
    return AttemptOutcome(contract.HOOK_FAILED, message, exit_code, code, cause=cause, step=step)


def stopped_early(signal_name: str, number: int) -> AttemptOutcome:
    """The stop request came before the command was started."""
    message = f"stopped by {signal_name} before the command started"
    return AttemptOutcome(
        contract.COMMAND_KILLED, message, contract.container_code(128 + number), stopped_by=signal_name
    )


def cannot_start(message: str, code: int | None) -> AttemptOutcome:
    """The command was never started, for a reason that is not the runtime's."""
    exit_code = contract.UNRECOGNISED if code is None else contract.container_code(code)
    return AttemptOutcome(contract.CANNOT_START, message, exit_code, code)


def of_os_error(error: OSError, path: str | None = None, user_code: int | None = None) -> AttemptOutcome:
    """The runtime could not write (or make, or read) a file."""
    reason = contract.DISK_FULL if error.errno in NO_SPACE else contract.RUNTIME_ERROR
    message = f"{path or error.filename or 'the runtime'}: {error.strerror or error}"
    return AttemptOutcome(reason, message, contract.RUNTIME_BROKE, user_code)


def of_bug(error: Exception) -> AttemptOutcome:
    """An error that nobody has thought of."""
    return AttemptOutcome(contract.RUNTIME_ERROR, bugs.sentence(error), contract.RUNTIME_BROKE)


def shell_code(status: int) -> int:
    """A wait status as a shell shows it: the exit code, or 128+n for death by signal n."""
    number = status & 0x7F
    return 128 + number if number else status >> 8


def death(status: int) -> str | None:
    """The name of the signal that a wait status tells of, None after an exit."""
    number = status & 0x7F
    return signals.name_of(number) if number else None


def ending(status: int) -> str:
    """What a process did last, for a sentence."""
    name = death(status)
    return f"was killed by signal {name}" if name else f"exited with code {status >> 8}"
