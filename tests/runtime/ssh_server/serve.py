"""A program: the action `ssh-server` in the present folder and environment, without a supervisor.

serve.py PAI REQUEST      (JSON of its parameters)
"""

from __future__ import annotations

import json
import signal
import sys

from kedge.runtime.actions.base import ActionJob
from kedge.runtime.ssh import server

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # as kedge.runtime.actions.program
    server.run(json.loads(sys.argv[2]), ActionJob(tasks=1, pai=sys.argv[1], secrets=(), reports=1))
