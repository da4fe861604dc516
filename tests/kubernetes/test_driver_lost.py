"""Drivers are lost at any moment: their jobs go on as if nothing had happened."""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kedge.contract import CURRENT, USER_ALL
from kedge.runs import events
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .driver_kills import EARLY, LATE, DriverKill, DriverKiller, chosen
from .kedge_on_kubernetes import OnKubernetes
from .pods_seen import PodsSeen

SEED = int(os.environ.get("KEDGE_TEST_SEED", "") or int.from_bytes(os.urandom(3)))
# One task prints all the time; the other one fails once, is tried again alone, and ends early.
LINES = 24
TICKS = f"for i in $(seq {LINES}); do echo tick $i; sleep 0.25; done"
ONCE = "echo try $FC_TASK_ATTEMPT_ID; sleep 0.5; [ $FC_TASK_ATTEMPT_ID = 1 ]"
ROLES = {
    "ticks": {"commands": [TICKS], "completion": {"minSucceededInstances": -1}},
    "once": {"commands": [ONCE], "taskRetryCount": 1, "completion": {"minSucceededInstances": -1}},
}
PODS = {"a0-ticks-0": 1, "a0-once-0": 1, "a0-once-0-t1": 1}
LOGS = {
    "ticks-0": "".join(f"tick {number}\n" for number in range(1, LINES + 1)), "once-0": "try 0\n", "once-0.1": "try 1\n"
}  # fmt: skip
DECISIONS = (
    JobEvent.ATTEMPT_STARTED, JobEvent.TASK_LAUNCHED, JobEvent.TASK_RETRYING, JobEvent.TASK_COMPLETED,
    JobEvent.ATTEMPT_COMPLETED, JobEvent.JOB_COMPLETED,
)  # fmt: skip
DECIDED = Counter(
    {
        (JobEvent.ATTEMPT_STARTED, None, None): 1,
        (JobEvent.TASK_LAUNCHED, "ticks", 0): 1,
        (JobEvent.TASK_LAUNCHED, "once", 0): 1,
        (JobEvent.TASK_RETRYING, "once", 0): 1,
        (JobEvent.TASK_LAUNCHED, "once", 1): 1,
        (JobEvent.TASK_COMPLETED, "ticks", 0): 1,
        (JobEvent.TASK_COMPLETED, "once", 1): 1,
        (JobEvent.ATTEMPT_COMPLETED, None, None): 1,
        (JobEvent.JOB_COMPLETED, None, None): 1,
    }
)
SHOWN = Counter(f"ticks:0 | tick {number}" for number in range(1, LINES + 1))
SHOWN += Counter(["once:0 | try 0", "once:0.1 | try 1"])


def test_a_driver_is_lost_early(kedge: OnKubernetes) -> None:
    _lose_drivers(kedge, chosen(SEED, EARLY))


def test_a_driver_is_lost_late(kedge: OnKubernetes) -> None:
    """The run folder is on a volume: without one, what has come last may go with a driver that is lost at once."""
    kedge.namespace.claim("runs")
    kedge.site(**{"run-volume": "runs"})
    _lose_drivers(kedge, chosen(SEED, LATE))


def _lose_drivers(kedge: OnKubernetes, kills: list[DriverKill]) -> None:
    print(f"KEDGE_TEST_SEED={SEED}")
    killer = DriverKiller(kedge.namespace)
    with PodsSeen(kedge.namespace) as seen, ThreadPoolExecutor(len(kills)) as pool:
        wrong = list(filter(None, pool.map(lambda one: _run(kedge, killer, *one), enumerate(kills))))
    killer.close()
    print(*wrong, sep="\n\n")
    assert not wrong
    for run in kedge.runs():
        assert seen.of_tasks(run.name) == PODS
    assert kedge.leftovers() == []


def _run(kedge: OnKubernetes, killer: DriverKiller, number: int, kill: DriverKill) -> str:
    """Run a job whose driver is lost once. Returns what is not as it should be."""
    job = kedge.job([], name=f"job{number}", roles=ROLES, extras={"gangAllocation": False})
    process = kedge.start("run", job)
    wait_until(lambda: bool(_named(kedge, number)) or process.poll() is not None, TIMEOUT, "a run folder")
    (run,) = _named(kedge, number)
    killer.kill(run, kill)
    said = kedge.finish(process, 0)
    shown = Counter(re.sub(" +", " ", line) for line in said.splitlines() if re.match("(once|ticks).* \\| ", line))
    found = {"decided": decided(run) != DECIDED, "logs": logs(run) != LOGS, "shown": shown != SHOWN}
    if not any(found.values()):
        return ""
    return f"{kill}: {found}\n{decided(run)}\n{logs(run)}\n{said}"


def decided(run: Path) -> Counter[tuple[str, str | None, int | None]]:
    """How often each thing was decided."""
    return Counter(
        (each["event"], each.get("role"), each.get("task_attempt"))
        for each in events.read(Run(run).events)
        if each["event"] in DECISIONS
    )


def logs(run: Path) -> dict[str, str]:
    """What the tasks have printed."""
    return {task: _log(run / "attempt-0" / task) for task in LOGS}


def _named(kedge: OnKubernetes, number: int) -> list[Path]:
    return [run for run in kedge.runs() if run.name.startswith(f"job{number}-") and (run / "run.json").exists()]


def _log(task: Path) -> str:
    file = task / USER_ALL / CURRENT
    return file.read_text() if file.exists() else ""
