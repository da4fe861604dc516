"""How a task ended, from what its srun printed."""

from __future__ import annotations

import errno

from kedge.engines.base import Task
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.slurm.in_allocation.step_log import TaskExit
from kedge.engines.slurm.in_allocation.step_process import SlurmStep

_NOT_EXECUTED = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)  # of a task whose program slurmstepd could not execute


def of_exit(step: SlurmStep, task: Task, found: TaskExit) -> Gone:
    """srun has reported how the main process of the task ended."""
    facts = step.facts
    if facts.cause:
        return Gone(task, step.attempt, facts.cause, facts.cause_text, found.code)
    if facts.not_executed and found.code in _NOT_EXECUTED:
        return Gone(task, step.attempt, GoneKind.NOT_STARTED, facts.why)
    memory = found.out_of_memory or (facts.out_of_memory and found.code in (-9, 137))
    kind = GoneKind.OUT_OF_MEMORY if memory else GoneKind.ENDED
    return Gone(task, step.attempt, kind, f"Slurm reports for its main process: {found.text}", found.code)


def of_node(step: SlurmStep, task: Task, why: str) -> Gone:
    """Slurm has reported a failure of the task's node."""
    return Gone(task, step.attempt, GoneKind.NODE_LOST, why)


def of_step(step: SlurmStep, task: Task) -> Gone:
    """The srun of the step has ended, and with it all its tasks."""
    facts = step.facts
    if facts.cause:
        return Gone(task, step.attempt, facts.cause, facts.cause_text)
    if task.task_index not in facts.nodes:
        return Gone(task, step.attempt, GoneKind.NOT_STARTED, facts.why or _how(step))
    return Gone(task, step.attempt, GoneKind.ENDED, _how(step))


def _how(step: SlurmStep) -> str:
    if step.code is None:
        return f"the srun of {step.role} has ended"
    how = f"was killed by signal {-step.code}" if step.code < 0 else f"ended with exit code {step.code}"
    return f"the srun of {step.role} {how}"
