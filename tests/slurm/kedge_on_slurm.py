"""kedge as a user of a login node starts it."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

from tests.e2e.conftest import TIMEOUT, Kedge, Loaded
from tests.e2e.test_lost import AS_NOBODY

from kedge.contract import CURRENT, EVENTS_FILE, USER_ALL
from kedge.testing.wait import wait_until

from .cluster import SlurmCluster

CLEANING_SEC = 30.0  # for agents and Slurm, after the end of a job


class OnSlurm(Loaded):
    """Jobs of all roles run on a test cluster. All runs share one cache, so that the bundle is built once."""

    def __init__(self, folder: Path, slurm: SlurmCluster, cache: Path, options: tuple[str, ...] = ()) -> None:
        super().__init__(folder, "slurm", options)
        self.slurm = slurm
        self.environment |= {**slurm.variables, "XDG_CACHE_HOME": str(cache)}

    def controller(self) -> int:
        """The pid of the only run's controller, once it runs."""
        file = self.only_run() / "cluster" / "heartbeat"
        wait_until(file.exists, TIMEOUT, "the first heartbeat of the controller")
        return int(json.loads(file.read_bytes())["pid"])

    def number(self, run: str) -> str:
        """The number of a run's job in Slurm."""
        return str(json.loads((self.jobs / run / "cluster" / "job.json").read_bytes())["job"])

    def let_go(self, run: str) -> None:
        """Let the tasks of a run end that wait for a file `go` in the folder that they share."""
        (self.jobs / run / "job-dir" / "go").touch()

    def wait_for_line(self, run: str, text: str) -> None:
        """Wait until the first worker of a run has printed this text."""
        log = self.jobs / run / "attempt-0" / "worker-0" / USER_ALL / CURRENT
        wait_until(lambda: log.exists() and text in log.read_text(), TIMEOUT, f"{text!r} from {run}")

    def leftovers(self, lost: str = "") -> list[str]:
        """Processes, jobs of Slurm, and folders of agents. When a job has ended, agents still clean up, and Slurm.
        What the first attempt of the task `lost` has left on a lost node is none."""
        end = time.monotonic() + CLEANING_SEC
        while (found := self._leftovers(lost)) and time.monotonic() < end and all(map(_has_ended, self.runs())):
            time.sleep(0.1)
        return found

    def _leftovers(self, lost: str) -> list[str]:
        found = super().leftovers()
        for run in self.runs():
            folders = Path(tempfile.gettempdir()).glob(f"kedge-agent-*{run.name}*")
            found += [str(path) for path in folders if not lost or not path.name.endswith(f"-0-{lost}")]
        jobs = self.slurm.run("squeue", "--noheader", "--format=%i %T %k").splitlines()
        return found + [job for job in jobs if any(run.name in job for run in self.runs())]


def _has_ended(run: Path) -> bool:
    """Whether the run's end is recorded."""
    return b'"job-completed"' in (run / EVENTS_FILE).read_bytes()


class AsNobody(OnSlurm):
    """kedge of a user without privileges, who has everything in a folder of their own."""

    def __init__(self, folder: Path, slurm: SlurmCluster) -> None:
        super().__init__(folder, slurm, folder / "cache")
        self.environment["HOME"] = str(folder)

    def argv(self, args: tuple[object, ...]) -> list[str]:
        return [*AS_NOBODY, *super().argv(args)]

    def execute(self, args: tuple[object, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return Kedge.execute(self, args, environment)
