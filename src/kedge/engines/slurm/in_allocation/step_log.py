"""Reads what srun prints about the tasks of a step (with --verbose). Checked with Slurm 22.05."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import NamedTuple

from kedge.engines.cluster.base import GoneKind

_STEP = re.compile(r"srun: launching StepId=([\d+]+\.\d+) on host (\S+), \d+ tasks?: (\S+)")
_TASKS = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+|\[[\d,-]+\]): (.+)")
_CODE = re.compile(r"Exited with exit code (\d+)")
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
_CANCELLED = re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON \S+ (?:CANCELLED|FAILED)(?: AT \S+)?(.*?) *\*\*\*")
# Slurm itself has counted (OverMemoryKill) and ends all tasks of the step; the kernel kills single processes.
_STEP_MEMORY = re.compile(r"slurmstepd(?:-(\S+))?: error: StepId=\S+ exceeded memory limit \((\d+) > (\d+)\)")
_OUT_OF_MEMORY = re.compile(r"oom_kill|OOM Killed|Out Of Memory|Exceeded .*memory limit", re.IGNORECASE)
_NO_OPTION = re.compile(r"srun: unrecognized option '(--container-[\w-]+)")
_NOT_EXECUTED = re.compile(r"slurmstepd(?:-\S+)?: error: execve\(\): (.+)")
_WHY = re.compile(r"srun: (?:error: )?(.*(?:launch failed|[Uu]nable to |Requested nodes are busy|failed on node).*)")
_BY = {  # the words after DUE TO
    "TIME LIMIT": GoneKind.OUT_OF_TIME,
    "PREEMPTION": GoneKind.PREEMPTED,
    "NODE FAILURE": GoneKind.NODE_LOST,
    "JOB REQUEUE": GoneKind.PREEMPTED,
}
_SIGNALS = {  # as the C library describes them
    "Killed": signal.SIGKILL, "Terminated": signal.SIGTERM, "Aborted": signal.SIGABRT, "Interrupt": signal.SIGINT,
    "Segmentation fault": signal.SIGSEGV, "Bus error": signal.SIGBUS, "Hangup": signal.SIGHUP,
}  # fmt: skip
_MIB = 1 << 20
_LONGEST = 300  # characters of a line that are quoted; a list of tasks may be much longer


class TaskExit(NamedTuple):
    """The end of one task of a step. `code` is -n for signal n, None if it is not known."""

    node: str
    text: str
    code: int | None
    out_of_memory: bool


class StepFacts:
    """What is known of one step. `id` is what `scancel` takes. `nodes` has the node of each task that was launched,
    `exits` the tasks that failed, `failed_nodes` why a node counts as failed. `cause` is why Slurm itself has ended the
    step, `why` what kept it from starting. `not_executed`: the program that starts its tasks, such as that of
    containers, is not on a node."""

    def __init__(self) -> None:
        self.id = ""
        self.nodes: dict[int, str] = {}
        self.exits: dict[int, TaskExit] = {}
        self.failed_nodes: dict[str, str] = {}
        self.cause: GoneKind | None = None
        self.cause_text = ""
        self.why = ""
        self.not_executed = False
        self.out_of_memory = False

    def take(self, line: str) -> None:
        """Learn from one line."""
        line = line.strip()
        if found := _STEP.search(line):
            self.id = found[1]
            self.nodes.update(dict.fromkeys(numbers(found[3]), found[2]))
        elif found := _TASKS.search(line):
            text = found[3][:_LONGEST]
            exits = TaskExit(found[1], text, exit_code(text), bool(_OUT_OF_MEMORY.search(text)))
            self.exits.update({index: self.exits.get(index, exits) for index in numbers(found[2])})
        else:
            self._take_words(line[:_LONGEST])

    def _take_words(self, line: str) -> None:
        if found := _NODE_FAILURE.search(line):
            self.failed_nodes |= dict.fromkeys(found[1].split(","), "Slurm has marked the node as failed")
        elif found := _STEP_MEMORY.search(line):
            self._over_memory(found[1] or "", int(found[2]), int(found[3]))
        elif found := _CANCELLED.search(line):
            self._cancelled(found[0].strip("* "), found[1])
        elif _OUT_OF_MEMORY.search(line):
            self.out_of_memory = True
        elif found := _NOT_EXECUTED.search(line):
            self.why, self.not_executed = f"{found[1]} (on its node)", True
        elif found := _NO_OPTION.search(line):
            self.why = f"srun has no option {found[1]}, so this cluster has no pyxis (engines.slurm.container)"
        elif found := _WHY.search(line):
            self.why = found[1]

    def _cancelled(self, text: str, due: str) -> None:
        due = due.removeprefix(" DUE TO ")
        kind = next((kind for words, kind in _BY.items() if due.startswith(words)), GoneKind.CANCELLED)
        if self.cause in (None, GoneKind.CANCELLED) and "FAILED" not in text:
            self.cause, self.cause_text = kind, text

    def _over_memory(self, node: str, used: int, most: int) -> None:
        """Slurm ends the step, which it then calls cancelled. The numbers, in bytes, are of all its tasks on a node."""
        if self.cause in (None, GoneKind.CANCELLED):
            tasks = f"its tasks on {node}" if node else "its tasks on one node"
            text = (
                f"{tasks} together used {used // _MIB:,} MiB, above the limit of {most // _MIB:,} MiB; Slurm then ends "
                "the whole role"
            )
            self.cause, self.cause_text = GoneKind.OUT_OF_MEMORY, text


def exit_code(text: str) -> int | None:
    """The exit code in srun's words about a task: -n for signal n."""
    if found := _CODE.search(text):
        return int(found[1])
    return next((-number for words, number in _SIGNALS.items() if text.startswith(words)), None)


def numbers(text: str) -> Iterator[int]:
    """The numbers of a list such as `0-3,7` or `[0-3,7]`."""
    for part in text.strip("[]").split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
