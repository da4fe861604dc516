"""Asks Slurm about the nodes of unreachable tasks, without waiting for the answer."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from kedge.engines.slurm.commands import SlurmSite
from kedge.late_patterns import late_pattern

_PATIENCE_SEC = 15.0
_FACT = late_pattern(r"(?:^| )(NodeName|State|BootTime)=(\S*)")
_DOWN = frozenset({"DOWN", "POWERED_DOWN", "REBOOT_ISSUED"})  # parts of states in which nothing runs on a node


class NodeFacts(NamedTuple):
    """`booted` is when it was started, by time.time() on Slurm's own clock; 0 if that is not known."""

    is_down: bool
    booted: float


class NodeQuestion:
    """One question, about these nodes. OSError: scontrol cannot be started."""

    def __init__(self, site: SlurmSite, nodes: Collection[str]) -> None:
        import tempfile  # slow to load, and seldom needed

        self._answer = tempfile.TemporaryFile()  # noqa: SIM115  closed with the answer
        argv = [site.program("scontrol"), "--oneliner", "--all", "show", "node", ",".join(sorted(nodes))]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._answer, stderr=subprocess.DEVNULL, env=site.environment(),
            start_new_session=True,
        )  # fmt: skip
        self._end = time.monotonic() + _PATIENCE_SEC

    def answer(self) -> dict[str, NodeFacts] | None:
        """What is known of each node; None before the answer has come. Empty if there is none."""
        if self._process.poll() is None:
            if time.monotonic() < self._end:
                return None
            self._process.kill()
            self._process.wait()
        with self._answer:
            self._answer.seek(0)
            return read(self._answer.read().decode(errors="replace"))


def read(text: str) -> dict[str, NodeFacts]:
    """The nodes in what scontrol prints, a line each."""
    found = {}
    for line in text.splitlines():
        facts: dict[str, str] = dict(_FACT.findall(line))
        if name := facts.get("NodeName"):
            parts = {part.rstrip("*~#!%$@^-") for part in facts.get("State", "").split("+")}
            found[name] = NodeFacts(bool(parts & _DOWN), _time(facts.get("BootTime", "")))
    return found


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # it has never answered
        return 0.0
