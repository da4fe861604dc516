"""A controller in an allocation as a process of its own: `controller_program.py RUN_FOLDER [KILL_AT]`.

It is killed before its act of that number: whatever it writes, renames, starts, signals or sends counts as one. What is
before an act is recorded, what comes after it is not done: so all numbers together are all moments at which a kill
makes a difference. It prints how many acts there were if it lives.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.engines.slurm.slurm_scene import SlurmScene

from kedge.engines.base import JobOutcome
from kedge.engines.cluster.claim import Claim
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller import resume
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.link.keys import LinkKeys
from kedge.plan.lossless import from_lossless
from kedge.runs.folder import Run

_ACTS = ("write", "replace", "rename", "link", "unlink", "mkdir", "fsync", "posix_spawn", "kill")


class Acts:
    """Counts what this process does that others see."""

    def __init__(self, kill_at: int) -> None:
        self.count, self._kill_at, self._own = 0, kill_at, os.getpid()
        for name in _ACTS:
            setattr(os, name, self._counted(getattr(os, name)))
        signal.pidfd_send_signal = self._counted(signal.pidfd_send_signal)  # type: ignore[assignment]
        socket.socket.send = self._counted(socket.socket.send)  # type: ignore[method-assign]

    def _counted(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() == self._own:
                self.count += 1
                if self.count == self._kill_at:
                    signal.raise_signal(signal.SIGKILL)
            return act(*args, **kwargs)

        return counted


def main(folder: str, kill_at: str = "0") -> None:
    scene = SlurmScene(Run(Path(folder)))
    scene.slurm = Path(folder).parent / "slurm"
    scene.keys = LinkKeys.from_json(scene.files.read(scene.files.link))
    made = from_lossless(scene.files.read(scene.files.orders)["plan"])
    acts = Acts(int(kill_at))

    def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
        scene.emit = log  # type: ignore[method-assign]
        backend = stack.enter_context(scene.backend_of(made, ClusterSettings(), stops))
        progress = resume.read(made, scene.run)
        return run_job(made, scene.run, backend, stops, log, lambda: 0.0, progress)

    controlled(scene.run, body, made, Claim(scene.run, 0, os.urandom(8).hex()))
    print(acts.count)


if __name__ == "__main__":
    main(*sys.argv[1:])
