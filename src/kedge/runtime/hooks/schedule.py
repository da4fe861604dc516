"""Which hooks run when: pure rules over a task's steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from kedge import contract
from kedge.contract import Action, Callback, Step, Text


class HookPart(NamedTuple):
    """Lines for one shell, or one action. `file` is the script's file name."""

    file: str
    script: Text
    action: Action | None = None


class Hook(NamedTuple):
    """What a step does at one event, on one side (`start` or `exit`) of the command."""

    step: Step
    side: str
    event: str
    parts: tuple[HookPart, ...]

    @property
    def forgiven(self) -> bool:
        """Whether its failure is only logged."""
        return self.step.policy.lower() == "ignore"


def start_hooks(index: int, step: Step) -> list[Hook]:
    """What the step does before the command, if anything."""
    return list(_hooks(index, step, "start", (contract.TASK_STARTS,)))


def exit_hooks(entered: Sequence[Step], succeeded: bool) -> list[Hook]:
    """What the entered steps do after the command: the steps in exactly the reverse order, each as it lists it.

    Every event is a hook of its own: a failed taskSucceeds or taskFails must not keep containerExit from running."""
    events = (contract.TASK_SUCCEEDS if succeeded else contract.TASK_FAILS, contract.CONTAINER_EXIT)
    return [hook for index, step in reversed(list(enumerate(entered))) for hook in _hooks(index, step, "exit", events)]


def _hooks(index: int, step: Step, side: str, events: tuple[str, ...]) -> Iterator[Hook]:
    name = f"plugin_{'pre' if side == 'start' else 'post'}{index}"
    wanted = [callback for callback in step.callbacks if callback.event in events]
    for number, (event, callbacks) in enumerate(groupby(wanted, key=lambda callback: callback.event)):
        yield Hook(step, side, event, tuple(_parts(callbacks, f"{name}_{number}" if number else name)))


def _parts(callbacks: Iterable[Callback], name: str) -> Iterator[HookPart]:
    """Scripts that follow each other share a shell."""
    runs = groupby(callbacks, key=lambda callback: callback.action)
    for number, (action, same) in enumerate(runs):
        file = f"{name}-{number}.sh" if number else f"{name}.sh"
        if action:
            yield from (HookPart(file, (), callback.action) for callback in same)
        else:
            yield HookPart(file, tuple(part for callback in same for part in (*callback.script, "\n")))
