"""Passes signals of `kedge exec` on to its program. srun itself would end the step for most of them."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue

from kedge.engines.slurm import commands
from kedge.engines.slurm.commands import SlurmError, SlurmSite


class StepSignals:
    """Signals for the one task of a step that is found by its `name`. A thread sends them, as Slurm may be slow."""

    def __init__(self, site: SlurmSite) -> None:
        self.name = f"exec-{secrets.token_hex(4)}"
        self.has_sent = False
        self._site = site
        self._waiting: SimpleQueue[int] = SimpleQueue()

    def start(self, srun: subprocess.Popen[bytes]) -> None:
        """Start to send the signals that `send` was and will be called with."""
        threading.Thread(target=self._send_all, args=(srun,), daemon=True).start()

    def send(self, number: int) -> None:
        """Send this signal soon. Safe in a signal handler."""
        self._waiting.put(number)

    def _send_all(self, srun: subprocess.Popen[bytes]) -> None:
        while True:
            number = self._waiting.get()
            try:
                if step := self.step():
                    self.has_sent = True
                    commands.run(self._site, "scancel", f"--signal={number}", step)
                    continue
            except SlurmError as error:
                if srun.poll() is None:
                    print(
                        f"kedge exec: Slurm cannot deliver the signal, so the program is ended: {error}",
                        file=sys.stderr,
                    )
            with suppress(ProcessLookupError):  # the program has not started, or nobody can reach it in another way
                os.kill(srun.pid, number)

    def step(self) -> str:
        """The id of the step, as scancel takes it; empty if it has not started, or has ended. SlurmError."""
        # Steps of a component of a heterogeneous job have that component's own number.
        argv = ("squeue", "--all", "--steps", "--noheader", f"--user={os.getuid()}", "--format=%i %j")
        for line in commands.run(self._site, *argv).splitlines():
            step, _, name = line.strip().partition(" ")
            if name.strip() == self.name:
                return step
        return ""
