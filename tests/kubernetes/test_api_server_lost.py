"""The API server is away for a minute while jobs run."""

from __future__ import annotations

import time

from kedge.runs.folder import Run
from kedge.runs.liveness import has_begun
from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .driver_kills import DriverKiller
from .kedge_on_kubernetes import OnKubernetes
from .own_cluster import OwnCluster
from .pods_seen import PodsSeen

AWAY_SEC = 60.0
# Two tasks end while it is away, one of them with a failure of its own; the last one ends when it is back.
COMMANDS = {
    "short": "for i in $(seq 60); do echo short $i; sleep 0.5; done",
    "failing": "for i in $(seq 50); do echo failing $i; sleep 0.5; done; exit 7",
    "long": "for i in $(seq 160); do echo long $i; sleep 0.5; done",
}
ENDS_ALL = {"minSucceededInstances": -1, "minFailedInstances": -1}


def test_a_job_goes_on_without_an_api_server(kedge: OnKubernetes, cluster_alone: OwnCluster) -> None:
    roles = {name: {"commands": [command], "completion": ENDS_ALL} for name, command in COMMANDS.items()}
    killer = DriverKiller(kedge.namespace)
    with PodsSeen(kedge.namespace) as seen:
        process = kedge.start("run", kedge.job([], roles=roles))
        wait_until(lambda: len(kedge.runs()) == 1 and killer.has_recorded(kedge.only_run(), "barrier-passed"), TIMEOUT)
        wait_until(lambda: has_begun(Run(kedge.only_run())), TIMEOUT, "what the command itself has copied")
        cluster_alone.stop_api_server()
        time.sleep(AWAY_SEC)
        assert process.poll() is None
        cluster_alone.start_api_server()
        said = kedge.finish(process, 0)
    killer.close()
    print(said)
    run = kedge.only_run()
    assert "the state of job" in said
    assert "continues" in said
    for name in COMMANDS:
        count = {"short": 60, "failing": 50, "long": 160}[name]
        assert kedge.task_log(f"{name}-0") == "".join(f"{name} {number}\n" for number in range(1, count + 1))
    ends = {each["role"]: each for each in kedge.events() if each["event"] == "task-completed"}
    assert {name: each["user_exit_code"] for name, each in ends.items()} == {"short": 0, "failing": 7, "long": 0}
    assert seen.of_tasks(run.name) == {f"a0-{name}-0": 1 for name in COMMANDS}
    assert [each["event"] for each in kedge.events()].count("task-launched") == 3
    assert kedge.leftovers() == []
