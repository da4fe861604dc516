"""Asks Slurm, without waiting, which nodes are down."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection

from kedge.engines.slurm.commands import SlurmSite

_PATIENCE_SEC = 15.0
_DOWN = ("down", "fail", "unk", "power", "reboot")  # the beginnings of states in which nothing runs on a node


class NodeQuestion:
    """One question, about these nodes. OSError: sinfo cannot be started."""

    def __init__(self, site: SlurmSite, nodes: Collection[str]) -> None:
        import tempfile  # slow to load, and seldom needed

        self._answer = tempfile.TemporaryFile()  # noqa: SIM115  closed with the answer
        argv = [site.program("sinfo"), "--noheader", "--Node", "--format=%N|%T", f"--nodes={','.join(sorted(nodes))}"]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._answer, stderr=subprocess.DEVNULL, env=site.environment(),
            start_new_session=True,
        )  # fmt: skip
        self._end = time.monotonic() + _PATIENCE_SEC

    def answer(self) -> set[str] | None:
        """The nodes that are down; None before the answer has come. Without one, no node is."""
        if self._process.poll() is None:
            if time.monotonic() < self._end:
                return None
            self._process.kill()
            self._process.wait()
        with self._answer:
            self._answer.seek(0)
            return down(self._answer.read().decode(errors="replace"))


def down(text: str) -> set[str]:
    """The nodes that are down, of lines `NODE|STATE`."""
    lines = [line.strip().split("|") for line in text.splitlines() if line.count("|") == 1]
    return {node for node, state in lines if state.lower().startswith(_DOWN)}
