"""Which hooks run when: pure rules over a task's steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kedge import contract
from kedge.contract import Step, Text


class Hook(NamedTuple):
    """One script to run: everything that the step at `place` does on one side (`start` or `exit`)."""

    place: int
    step: str
    side: str
    policy: str
    script: Text

    @property
    def file(self) -> str:
        """The script's file name."""
        return f"plugin_{'pre' if self.side == 'start' else 'post'}{self.place}.sh"

    @property
    def forgiven(self) -> bool:
        """Whether its failure is only logged."""
        return self.policy.lower() == "ignore"


def start_hook(index: int, step: Step) -> Hook | None:
    """What the step does before the command, if anything."""
    return _hook(index, step, "start", (contract.TASK_STARTS,))


def exit_hooks(entered: Sequence[Step], succeeded: bool) -> list[Hook]:
    """What the entered steps do after the command, in exactly the reverse order."""
    outcome = contract.TASK_SUCCEEDS if succeeded else contract.TASK_FAILS
    found = (_hook(index, step, "exit", (outcome, contract.CONTAINER_EXIT)) for index, step in enumerate(entered))
    return [hook for hook in found if hook][::-1]


def _hook(index: int, step: Step, side: str, events: tuple[str, ...]) -> Hook | None:
    """All callbacks of these events as one script, in listed order.

    Callbacks of one event share a shell. Where two events meet, each has a subshell of its own, because a failed
    taskSucceeds or taskFails must not keep containerExit from running; the first failure is then the script's code."""
    groups: list[tuple[str, Text]] = []
    for callback in step.callbacks:
        if callback.event in events:
            if groups and groups[-1][0] == callback.event:
                groups[-1] = (callback.event, (*groups[-1][1], "\n", *callback.script))
            else:
                groups.append((callback.event, callback.script))
    if not groups:
        return None
    options = _options(step.policy)
    texts = [(options, *script, "\n") for _, script in groups]
    script = texts[0] if len(texts) == 1 else _isolated(texts)
    return Hook(index, step.name, side, step.policy, script)


def _options(policy: str) -> str:
    """Under `ignore` a failing command does not end the script."""
    return "" if policy.lower() == "ignore" else "set -o errexit\n"


def _isolated(texts: list[Text]) -> Text:
    parts: list[str | contract.SecretRef] = ["kedge_code=0\n"]
    for text in texts:
        parts += ["(\n", *text, ")\n", "kedge_last=$?\n", '[ "$kedge_code" -ne 0 ] || kedge_code=$kedge_last\n']
    return (*parts, 'exit "$kedge_code"\n')
