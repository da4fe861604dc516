"""The folder RUN/cluster/: what a run in a cluster has besides, for its submitter, its controller and its tasks.

RUN/cluster/
  orders.json     what the controller runs: engine, options, plan; removed when the job ends, as a job file may hold
                  passwords
  secrets.json    the values of secrets, removed when the job ends
  link.json       the keys of the link between controller and tasks, removed when the job ends
  address.json    where the controller listens, written each time it does
  heartbeat       rewritten by the controller every HEARTBEAT_SEC while it lives
  controller.json which controller writes to the run: the latest that has come
  scheduler.json  what the scheduler said last about the job
  job.json        the job as the scheduler knows it: how to ask, and its id once there is one
  script.sh       the script as it was submitted
  steps.jsonl     the processes with which the controller has started tasks
  allocation.json the node of the controller in the latest allocation, or why that has ended
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kedge import untrusted
from kedge.light import json
from kedge.own_files import clear
from kedge.runs.atomic_files import write_json

HEARTBEAT_SEC = 15.0
_FOLDER = "cluster"
_LARGEST = 1 << 20  # bytes
_LARGEST_OF_USER = 256 << 20  # of orders, with the plan, and of secrets, each of which may have 1 MiB


class ClusterFiles(NamedTuple):
    """The paths of these files. Nothing exists before `make`."""

    folder: Path

    @property
    def orders(self) -> Path:
        return self.folder / "orders.json"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def link(self) -> Path:
        return self.folder / "link.json"

    @property
    def address(self) -> Path:
        return self.folder / "address.json"

    @property
    def heartbeat(self) -> Path:
        return self.folder / "heartbeat"

    @property
    def controller(self) -> Path:
        return self.folder / "controller.json"

    @property
    def allocation(self) -> Path:
        return self.folder / "allocation.json"

    @property
    def scheduler(self) -> Path:
        return self.folder / "scheduler.json"

    @property
    def job(self) -> Path:
        return self.folder / "job.json"

    @property
    def script(self) -> Path:
        return self.folder / "script.sh"

    @property
    def steps(self) -> Path:
        return self.folder / "steps.jsonl"

    @property
    def ssh(self) -> Path:
        """What clients of ssh need (jobs.ssh), removed when the job ends."""
        return self.folder / "ssh"

    @property
    def exists(self) -> bool:
        """Whether the run is one in a cluster."""
        return os.path.lexists(self.folder)

    def make(self) -> None:
        """Make the folder, private to this user."""
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def read(self, path: Path) -> Any:
        """The content of one of the JSON files. OSError, ValueError."""
        if path in (self.orders, self.secrets):  # what the user has written: numbers of any length
            return json.loads(untrusted.read(self.folder, path.name, _LARGEST_OF_USER))
        return untrusted.read_json(self.folder, path.name, _LARGEST)

    def object(self, path: Path) -> dict[str, Any]:
        """The content of one of the JSON files if it is an object; empty if it is damaged or not there."""
        try:
            found = self.read(path)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, path: Path, value: Any, *, synced: bool = True) -> None:
        """Replace one of the JSON files, readable by this user only. DiskFull."""
        write_json(path, value, synced=synced)

    def beat(self) -> None:
        """Say that the controller, which is this process, lives."""
        value = {"host": os.uname().nodename, "pid": os.getpid(), "time": time.time()}
        self.write(self.heartbeat, value, synced=False)

    def remove_secrets(self) -> None:
        """Remove the orders, the values of secrets, the keys of the link and of ssh, if they are there."""
        for path in (self.orders, self.secrets, self.link, self.ssh):
            with suppress(OSError):
                clear(path)


def of(run: Path) -> ClusterFiles:
    """The files of the run in this folder."""
    return ClusterFiles(run / _FOLDER)
