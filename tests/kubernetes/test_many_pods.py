"""Twenty tasks of several roles in one job."""

from __future__ import annotations

import json

from kedge.contract import CURRENT, USER_STDERR, USER_STDOUT

from .kedge_on_kubernetes import OnKubernetes
from .pods_seen import PodsSeen

LINES = 200
# Each task prints lines of its own on both streams, and what it knows of all others.
COMMAND = f"""
for i in $(seq {LINES}); do echo "$PAI_CURRENT_TASK_ROLE_NAME:$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX out $i"; done
for i in 1 2 3; do echo "err $i" >&2; done
echo peers $PAI_TASK_ROLE_server_HOST_LIST $PAI_TASK_ROLE_worker_HOST_LIST
echo ports $PAI_CONTAINER_HOST_web_PORT_LIST
""".strip()
AMOUNTS = {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"web": 2}}
ROLES = {"server": 4, "worker": 15, "evaluator": 1}


def test_twenty_tasks_of_three_roles(kedge: OnKubernetes) -> None:
    keys = {name: {"instances": count, "resourcePerInstance": AMOUNTS} for name, count in ROLES.items()}
    with PodsSeen(kedge.namespace) as seen:
        said = kedge("run", kedge.job(COMMAND.splitlines(), roles=keys)).stdout
    assert "Succeeded" in said
    (run,) = kedge.runs()
    assert seen.of_tasks(run.name) == {f"a0-{name}-{n}": 1 for name, count in ROLES.items() for n in range(count)}
    peers = set()
    for name, count in ROLES.items():
        for index in range(count):
            out = stream(kedge, f"{name}-{index}", USER_STDOUT).splitlines()
            assert out[:LINES] == [f"{name}:{index} out {i}" for i in range(1, LINES + 1)]
            assert stream(kedge, f"{name}-{index}", USER_STDERR) == "err 1\nerr 2\nerr 3\n"
            peers.add(out[LINES])
            first, *others = out[LINES + 1 :]
            assert len(first.split()[1].split(",")) == 2
            assert others == []
    (found,) = peers  # all were told the same
    addresses = [host.split(":")[0] for each in found.split()[1:] for host in each.split(",")]
    assert len(addresses) == len(set(addresses)) == ROLES["server"] + ROLES["worker"]
    report = json.loads((run / "report.json").read_text())
    assert report["state"] == "succeeded"
    assert kedge.leftovers() == []


def stream(kedge: OnKubernetes, task: str, name: str) -> str:
    """What a task has printed on one of its streams."""
    return (kedge.task(task) / name / CURRENT).read_text()
