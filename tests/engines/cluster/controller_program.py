"""A controller as a process of its own: `controller_program.py RUN_FOLDER`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster.scene import ClusterScene

from kedge.engines.base import JobOutcome
from kedge.engines.controller import resume
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.link.keys import LinkKeys
from kedge.plan.lossless import from_lossless
from kedge.runs.folder import Run


def main(folder: str) -> None:
    scene = ClusterScene(Run(Path(folder)))
    scene.keys = LinkKeys.from_json(scene.files.read(scene.files.link))
    made = from_lossless(scene.files.read(scene.files.orders)["plan"])

    def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
        scene.emit = log  # type: ignore[method-assign]
        progress = resume.read(made, scene.run)
        stack.enter_context(scene.controller(made, stops))
        return run_job(made, scene.run, scene.backend, stops, log, lambda: 0.0, progress)

    controlled(scene.run, body, made)


if __name__ == "__main__":
    main(sys.argv[1])
