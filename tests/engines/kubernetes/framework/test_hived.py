"""What a job requests of HiveD."""

from __future__ import annotations

from typing import Any

import yaml
from tests.engines.slurm.jobs import planned, role

from kedge.engines.kubernetes.framework import addons, hived, render
from kedge.engines.kubernetes.framework.site import FrameworkSite

ROLES = {"worker": role(2, 4, 4096, gpu=4), "ps": role(1, 1, 1024, gpu=1)}
SITE = FrameworkSite("runtime:1", hived="hivedscheduler")


def specs(extras: dict[str, Any], **job: Any) -> dict[str, Any]:
    plan = planned(ROLES, job)
    return {name: yaml.safe_load(cells.text) for name, cells in hived.cells(plan, extras, "hivedscheduler").items()}


def test_a_gang_is_one_group() -> None:
    wanted = {"jobPriorityClass": "prod", "taskRoles": {"worker": {"skuType": "K80"}}}
    assert specs({"hivedScheduler": wanted})["worker"] == {
        "virtualCluster": "default", "priority": 100, "pinnedCellId": None, "leafCellType": "K80", "leafCellNumber": 4,
        "affinityGroup": {
            "name": "ada~train/default",
            "members": [{"podNumber": 1, "leafCellNumber": 1}, {"podNumber": 2, "leafCellNumber": 4}],
        },
    }  # fmt: skip


def test_groups_of_the_job_and_older_names() -> None:
    wanted = {"taskRoles": {"worker": {"reservationId": "r1", "affinityGroupName": "g"}}}
    found = specs({"hivedscheduler": wanted})
    assert (found["worker"]["pinnedCellId"], found["worker"]["priority"]) == ("r1", 10)
    assert found["worker"]["affinityGroup"] == {
        "name": "ada~train/g", "members": [{"podNumber": 2, "leafCellNumber": 4}],
    }  # fmt: skip
    assert found["ps"]["affinityGroup"] is None


def test_without_a_gang_there_is_no_group() -> None:
    assert specs({}, gangAllocation=False)["worker"]["affinityGroup"] is None


def test_pods_ask_that_scheduler_instead_of_naming_devices() -> None:
    plan = planned(ROLES)
    found = render.framework(plan, "", SITE, addons.names(plan, has_secrets=False))
    pod = found["spec"]["taskRoles"][0]["task"]["pod"]
    assert hived.ANNOTATION in pod["metadata"]["annotations"]
    assert pod["spec"]["schedulerName"] == "hivedscheduler-ds-default"
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits[hived.ENABLED] == 1
    assert "nvidia.com/gpu" not in limits
    shown = {each["name"] for each in pod["spec"]["containers"][0]["env"] if "valueFrom" in each}
    assert "NVIDIA_VISIBLE_DEVICES" in shown
