"""kedge as a user of a login node starts it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.e2e.conftest import Loaded

from .cluster import SlurmCluster


class OnSlurm(Loaded):
    """Jobs of all roles run on a test cluster. All runs share one cache, so that the bundle is built once."""

    def __init__(self, folder: Path, slurm: SlurmCluster, cache: Path, options: tuple[str, ...] = ()) -> None:
        super().__init__(folder, "slurm", options)
        self.slurm = slurm
        self.environment |= {**slurm.variables, "XDG_CACHE_HOME": str(cache)}

    def leftovers(self) -> list[str]:
        """Processes, jobs of Slurm, and folders of agents."""
        found = super().leftovers()
        for run in self.runs():
            found += [str(path) for path in Path(tempfile.gettempdir()).glob(f"kedge-agent-*{run.name}*")]
        names = "--format=%i %j %T"
        return found + self.slurm.run("squeue", "--noheader", "--states=RUNNING,PENDING", names).splitlines()
