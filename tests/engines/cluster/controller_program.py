"""A controller as a process of its own: `controller_program.py RUN_FOLDER [ALLOCATION [LOCKS]]`.

LOCKS is `unlocked` if files cannot be locked on this node, `blind` if it does not see the claims of others. The
variable MIRRORED is that of the scene.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster.scene import ClusterScene

from kedge.engines.base import JobOutcome
from kedge.engines.cluster.claim import Claim
from kedge.engines.controller import resume
from kedge.engines.controller.allocation import Allocation
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.link.keys import LinkKeys
from kedge.plan.lossless import from_lossless
from kedge.runs import cluster_files, file_locks
from kedge.runs.folder import Run


def main(folder: str, number: str = "0", locks: str = "") -> None:
    cluster_files.HEARTBEAT_SEC = 0.3
    if locks == "unlocked":
        file_locks.why_not = lambda folder, patience_sec: "No locks available"
    scene = ClusterScene(Run(Path(folder)))
    scene.mirrored = int(os.environ["MIRRORED"]) if "MIRRORED" in os.environ else None
    scene.keys = LinkKeys.from_json(scene.files.read(scene.files.link))
    made = from_lossless(scene.files.read(scene.files.orders)["plan"])

    def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
        scene.emit = log  # type: ignore[method-assign]
        progress = resume.read(made, scene.run, Allocation(int(number), None, "it was queued again"))
        stack.enter_context(scene.controller(made, stops))
        scene.backend.heartbeat.before = claim.check
        return run_job(made, scene.run, scene.backend, stops, log, lambda: 0.0, progress)

    claim = Claim(scene.run, int(number), os.urandom(8).hex())
    claim.patience_sec = 1.0
    if locks == "blind":
        claim.check = lambda always=True: None  # type: ignore[method-assign]
    controlled(scene.run, body, made, claim)


if __name__ == "__main__":
    main(*sys.argv[1:])
