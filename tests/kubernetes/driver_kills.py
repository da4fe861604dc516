"""Ways and moments in which a driver is lost, chosen by chance."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.objects import labels
from kedge.runs.folder import Run
from kedge.runs.liveness import has_end
from kedge.testing.command import TIMEOUT

from .namespaces import Namespace

DELETED, FORCED, KILLED = "its pod is deleted", "its pod is removed by force", "its process is killed"
# What has been recorded of a run when its driver is lost; "": nothing, perhaps before there is a driver.
EARLY = ("", "", "attempt-started", "task-launched", "barrier-passed")
LATE = ("task-retrying", "task-retrying", "task-completed", "attempt-completed", "job-completed")
_LATER_SEC = 1.5  # at most, after that was recorded
_LOOK_SEC = 0.1


class DriverKill(NamedTuple):
    """`way` of losing the driver of a run, `later_sec` after `moment`."""

    way: str
    moment: str
    later_sec: float


def chosen(seed: int, moments: Sequence[str]) -> list[DriverKill]:
    """One for each moment."""
    chance = random.Random(seed)
    ways = [DELETED, FORCED, KILLED]
    return [DriverKill(chance.choice(ways), moment, chance.uniform(0.0, _LATER_SEC)) for moment in moments]


class DriverKiller:
    """Loses drivers of runs in a namespace. Returns from each of its methods once that is done."""

    def __init__(self, namespace: Namespace) -> None:
        self._api = KubernetesApi.connect(str(namespace.cluster.kubeconfig), namespace=namespace.name)
        self.lost: dict[str, str] = {}  # the uid of the pod of each run

    def kill(self, run: Path, how: DriverKill) -> None:
        """Lose the driver of a run, which is being submitted or has been."""
        end = time.monotonic() + TIMEOUT
        while not self.has_recorded(run, how.moment):
            assert time.monotonic() < end, f"{run.name} has not recorded {how.moment}"
            time.sleep(_LOOK_SEC)
        time.sleep(how.later_sec)  # by chance, so that it is any moment
        while not (pod := self.driver(run)) or not self.lose(pod, how.way):
            assert time.monotonic() < end, f"{run.name} has no driver"
            if has_end(Run(run)):  # and it was fetched: there is none any more
                return
            time.sleep(_LOOK_SEC)
        self.lost[run.name] = pod["metadata"]["uid"]

    def driver(self, run: Path) -> dict[str, Any] | None:
        """The pod of a driver that is not being deleted."""
        wanted = {labels.RUN: run.name, labels.COMPONENT: labels.DRIVER}
        with suppress(ApiError):
            for pod in self._api.list("Pod", wanted)[0]:
                if not pod["metadata"].get("deletionTimestamp"):
                    return pod
        return None

    def lose(self, pod: dict[str, Any], way: str) -> bool:
        """Whether that could be done."""
        if way == KILLED:
            return signalled(pod["metadata"]["uid"], signal.SIGKILL)
        grace = 0 if way == FORCED else None
        return self._api.delete("Pod", pod["metadata"]["name"], uid=pod["metadata"]["uid"], grace_sec=grace)

    def has_recorded(self, run: Path, moment: str) -> bool:
        """In the decision log: what the client has may be older."""
        with suppress(ApiError):
            pieces, _ = self._api.list("ConfigMap", labels.of_component(run.name, labels.LOG))
            return not moment or any(f'"{moment}"' in each["data"].get("events.jsonl", "") for each in pieces)
        return False

    def close(self) -> None:
        self._api.close()


def signalled(uid: str, number: int) -> bool:
    """Send a signal to the process of the driver in the pod with this uid, which runs on this machine. Returns whether
    there is one."""
    found = False
    for pid in processes(uid):
        with suppress(OSError):
            os.kill(pid, number)
            found = True
    return found


def processes(uid: str) -> list[int]:
    """The processes of this machine that are the driver in the pod with this uid."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            variables = Path("/proc", pid, "environ").read_bytes().split(b"\0")
            command = Path("/proc", pid, "cmdline").read_bytes()
            if f"KEDGE_POD_UID={uid}".encode() in variables and b"--driver" in command:
                found.append(int(pid))
    return found
