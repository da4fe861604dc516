"""The controller of a cluster as a process of its own, whose engine is the cluster of this machine."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster.scene import ClusterScene

from kedge import lazy_modules
from kedge.controller import in_cluster
from kedge.engines.base import JobOutcome
from kedge.engines.cluster.claim import Claim
from kedge.engines.controller import resume
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.link.keys import LinkKeys
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


def run(plan: Plan, run: Run, secrets: Secrets, options: Mapping[str, Any]) -> JobOutcome:
    scene = ClusterScene(run)
    scene.keys = LinkKeys.from_json(scene.files.read(scene.files.link))
    claim = Claim(run, 0, random.randbytes(8).hex())

    def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
        scene.emit = log  # type: ignore[method-assign]
        progress = resume.read(plan, run)
        stack.enter_context(scene.controller(plan, stops))
        return run_job(plan, run, scene.backend, stops, log, lambda: 0.0, progress)

    return controlled(run, body, plan, claim)


if __name__ == "__main__":
    lazy_modules.CONTROLLERS["process"] = "cluster.in_cluster_program:run"
    sys.exit(in_cluster.main(sys.argv[1:]))
