"""Which hooks run when, as pure functions of a task's steps."""

from __future__ import annotations

from itertools import groupby

from kedge import contract
from kedge.contract import Action, Callback, Step, Text
from kedge.light.types import Iterable, Iterator, NamedTuple, Sequence

_FILES = {"start": "pre", "exit": "post", "stop": "stop"}  # the beginning of file names by side


class HookPart(NamedTuple):
    """A script for one shell, or one action. `file` is the script's file name. `service` is the name of a program that
    runs beside the command."""

    file: str
    script: Text
    action: Action | None = None
    service: str | None = None


class Hook(NamedTuple):
    """What a step does at one event, on one side of the command: `start`, `exit`, or `stop`, beside the command."""

    step: Step
    side: str
    event: str
    parts: tuple[HookPart, ...]

    @property
    def failure_ignored(self) -> bool:
        """Whether a failure is only logged."""
        return self.step.policy.lower() == "ignore"


def start_hooks(index: int, step: Step) -> list[Hook]:
    """The step's hooks before the command: one or none."""
    return list(_hooks(index, step, "start", (contract.TASK_STARTS,)))


def stop_hooks(entered: Sequence[Step]) -> list[Hook]:
    """The hooks before the command is stopped: the steps in reverse order."""
    events = (contract.BEFORE_STOP,)
    return [hook for index, step in reversed(list(enumerate(entered))) for hook in _hooks(index, step, "stop", events)]


def exit_hooks(entered: Sequence[Step], succeeded: bool) -> list[Hook]:
    """The hooks after the command: the entered steps in reverse order, each with its callbacks in their own order.

    Every event is a separate hook, so that containerExit runs even if taskSucceeds or taskFails has failed."""
    events = (contract.TASK_SUCCEEDS if succeeded else contract.TASK_FAILS, contract.CONTAINER_EXIT)
    return [hook for index, step in reversed(list(enumerate(entered))) for hook in _hooks(index, step, "exit", events)]


def _hooks(index: int, step: Step, side: str, events: tuple[str, ...]) -> Iterator[Hook]:
    name = f"plugin_{_FILES[side]}{index}"
    wanted = [callback for callback in step.callbacks if callback.event in events]
    for number, (event, callbacks) in enumerate(groupby(wanted, key=lambda callback: callback.event)):
        yield Hook(step, side, event, tuple(_parts(callbacks, f"{name}_{number}" if number else name)))


def _parts(callbacks: Iterable[Callback], name: str) -> Iterator[HookPart]:
    """Consecutive scripts share a shell."""
    runs = groupby(callbacks, key=lambda callback: (callback.action, callback.service))
    for number, ((action, service), same) in enumerate(runs):
        file = f"{name}-{number}.sh" if number else f"{name}.sh"
        if action or service:
            yield from (HookPart(file, each.script, each.action, each.service) for each in same)
        else:
            yield HookPart(file, tuple(part for callback in same for part in (*callback.script, "\n")))
