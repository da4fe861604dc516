"""Plans: built from a job alone, and small for any number of tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kedge.contract import StopPolicy, TaskSpec
from kedge.plan.build import build
from kedge.plan.model import Plan
from kedge.plan.task import Placement, task_spec
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.spec.parse import parse


def plan(**keys: Any) -> Plan:
    role = {
        "instances": 2,
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 4, "memoryMB": 8192, "gpu": 1, "ports": {"mpi": 2}},
        "commands": ["echo <% $secrets.s %>"],
    }
    ps = {
        **role,
        "instances": 1,
        "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 0},
        "extraContainerOptions": {"shmMB": 64},
    }
    document = {
        "protocolVersion": 2,
        "name": "test",
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "busybox"}],
        "secrets": {"s": "hunter2-and-more"},
        "taskRoles": {"taskrole": role, "taskrole_1": {**ps, "completion": {"minSucceededInstances": -1}}},
        **keys,
    }
    return build(resolve(parse(yaml.safe_dump(document, sort_keys=False)), Inputs("test_user")))


def spec(made: Plan, role: str, index: int) -> TaskSpec:
    place = Placement(
        "id",
        1,
        2,
        "uid",
        "/run/task",
        "/run/work",
        "127.0.0.1",
        {"http": [8080]},
        "/run/peers.json",
        "/run/jobs",
        extra={"A": "b"},
    )
    return task_spec(made, role, index, place)


def test_a_plan_counts_the_resources_of_all_tasks() -> None:
    made = plan()
    assert (made.task_count, made.port_count, made.gpu_count) == (3, 2 * 4 + 2, 2)
    assert list(made.tasks()) == [("taskrole", 0), ("taskrole", 1), ("taskrole_1", 0)]
    with pytest.raises(KeyError):
        made.role("other")


def test_the_variables_of_the_pod_are_those_of_the_manual() -> None:
    environment = spec(plan(), "taskrole_1", 0).environment
    expected = {
        "PAI_JOB_NAME": "test_user~test",
        "PAI_USERNAME": "test_user",
        "PAI_VIRTUAL_CLUSTER": "default",
        "PAI_TASK_ROLE_COUNT": "2",
        "PAI_JOB_TASK_ROLE_LIST": "taskrole,taskrole_1",
        "PAI_TASKS_NUM": "3",
        "PAI_TASK_ROLE_TASK_COUNT_taskrole": "2",
        "PAI_RESOURCE_taskrole": "1,4,8192,0",
        "PAI_RESOURCE_taskrole_1": "0,1,512,64",
        "PAI_MIN_FAILED_TASK_COUNT_taskrole": "1",
        "PAI_MIN_SUCCEEDED_TASK_COUNT_taskrole": "2",
        "PAI_MIN_SUCCEEDED_TASK_COUNT_taskrole_1": "-1",
        "PAI_CURRENT_TASK_ROLE_NAME": "taskrole_1",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
        "FC_TASKROLE_NAME": "taskrole1",
        "FC_FRAMEWORK_NAME": "0fc91ea6e37625ea79fce7f32891d139",
        "FC_FRAMEWORK_ATTEMPT_ID": "1",
        "FC_TASK_ATTEMPT_INSTANCE_UID": "2_uid",
        "NVIDIA_VISIBLE_DEVICES": "none",
        "A": "b",
    }
    assert {name: environment.get(name) for name in expected} == expected
    assert "NVIDIA_VISIBLE_DEVICES" not in spec(plan(), "taskrole", 0).environment


def test_settings_of_the_job_reach_the_plan_and_the_task() -> None:
    roles = {"taskrole": {"stop": {"signal": "USR1", "target": "command"}}}
    kedge = {
        "stop": {"signal": "INT", "graceSec": 3},
        "mask": False,
        "retry": {"maxTransient": 4, "backoffSec": 0.5},
        "taskRoles": roles,
    }
    made = plan(jobRetryCount=7, extras={"kedge": kedge, "gangAllocation": False})
    assert (made.gang, made.mask, made.stop) == (False, False, StopPolicy("INT", 3))
    assert (made.retry.job, made.retry.max_transient, made.retry.backoff_sec) == (7, 4, 0.5)
    assert spec(made, "taskrole", 1).stop == StopPolicy("USR1", 3, "command")
    assert spec(made, "taskrole_1", 0).stop == StopPolicy("INT", 3)


def test_a_task_spec_survives_json() -> None:
    made = spec(plan(), "taskrole", 1)
    assert TaskSpec.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_the_same_job_gives_the_same_plan_and_json_without_secrets() -> None:
    assert plan() == plan()
    text = json.dumps(plan().to_json())
    assert "hunter2-and-more" not in text
    assert "<% $secrets.s %>" in text


def test_keys_without_effect_give_a_note() -> None:
    assert plan().notes == ()
    (note,) = plan(extras={"hivedScheduler": {}}).notes
    assert "hivedScheduler" in note


def test_the_size_of_a_plan_does_not_depend_on_the_number_of_tasks() -> None:
    def size(instances: int) -> int:
        role = {"instances": instances, "dockerImage": "image", "commands": ["a"]}
        role["resourcePerInstance"] = {"cpu": 1, "memoryMB": 1024, "gpu": 0}
        return len(json.dumps(plan(taskRoles={"w": role}).to_json()))

    assert size(100_000) - size(10) < 100
