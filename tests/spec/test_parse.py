from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.errors import InputError, Problem
from kedge.spec.model import Auth, Completion, DeploymentRole, KedgeExtras, KedgeRole, RuntimePlugin, StopSettings
from kedge.spec.parse import load, parse

JOB = """\
protocolVersion: 2
name: resnet
type: job
version: 1.0
prerequisites:
  - name: pytorch
    type: dockerimage
    uri: pytorch/pytorch
    auth: {username: me, password: <% $secrets.registry %>}
  - {name: mnist, type: data, uri: /data/mnist}
  - name: hello
    type: script
    callbacks: [{event: containerStart, commands: [echo hello]}]
secrets: {registry: abc}
taskRoles:
  worker: &worker
    instances: 3
    dockerImage: pytorch
    data: mnist
    prerequisites: [hello]
    resourcePerInstance: {cpu: 2, memoryMB: 1e3, gpu: 1, ports: {rdzv: 2, http: 3}}
    commands:
      - python train.py
  chief:
    <<: *worker
    instances: 1
    completion: {minFailedInstances: 0, minSucceededInstances: -1}
    extraContainerOptions: {shmMB: 64}
"""


def problems(text: str) -> list[Problem]:
    with pytest.raises(InputError) as caught:
        parse(text)
    found = [problem for problem in caught.value.problems if isinstance(problem, Problem)]
    assert len(found) == len(caught.value.problems)
    return found


def test_a_file_becomes_a_job_with_defaults(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    job, problems = load(tmp_path / "job.yaml")
    assert problems == ()
    assert (job.name, job.version, job.virtual_cluster, job.gang_allocation) == ("resnet", "1.0", "default", True)
    assert job.prerequisites[0].auth == Auth("me", "<% $secrets.registry %>", None)
    assert job.prerequisites[1].uri == ("/data/mnist",)
    assert [item.plugin for item in job.prerequisites] == [None, None, "cmd"]
    assert job.prerequisites[2].path == ("prerequisites", 2)
    assert job.secrets == {"registry": "abc"}
    assert job.kedge == KedgeExtras()
    assert job.inert == ()
    assert job.source.file == str(tmp_path / "job.yaml")


def test_a_role_has_the_protocols_defaults() -> None:
    worker = parse(JOB).task_roles["worker"]
    assert worker.completion == Completion(1, 3)
    assert list(worker.resources.ports.items()) == [("rdzv", 2), ("http", 3), ("ssh", 1)]
    assert (worker.resources.memory_mb, type(worker.resources.memory_mb)) == (1000, int)
    assert (worker.task_retry_count, worker.shm_mb, worker.infiniband) == (0, None, False)


def test_a_merged_role_keeps_its_own_values() -> None:
    chief = parse(JOB).task_roles["chief"]
    assert (chief.instances, chief.completion, chief.shm_mb) == (1, Completion(1, -1), 64)
    assert chief.commands == ("python train.py",)


def test_an_undefined_name_is_shown_with_its_line_and_the_nearest_name() -> None:
    with pytest.raises(InputError) as caught:
        parse(JOB.replace("dockerImage: pytorch", "dockerImage: pytroch"))
    assert str(caught.value) == (
        "job.yaml:18:18: taskRoles.worker.dockerImage: "
        "no dockerimage prerequisite is named 'pytroch'; did you mean 'pytorch'?\n"
        "        dockerImage: pytroch\n"
        "                     ^"
    )


def test_all_kinds_of_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = JOB.replace("version: 1.0", "verison: 1.0").replace("data: mnist", "data: mnits").replace("echo", "echo <%")
    text += "defaults: {deployment: prod}\ndefaults: {}\n"
    found = problems(text)
    assert [(p.line, p.where) for p in found] == [
        (4, "verison"),
        (13, "prerequisites[2].callbacks[0].commands[0]"),
        (19, "taskRoles.worker.data"),
        (29, "defaults.deployment"),
        (30, "defaults"),
    ]
    assert found[4].message == "duplicate key 'defaults'; it is already in line 29"


def test_references_are_checked_beside_other_problems_except_given_names() -> None:
    text = JOB.replace("type: job", "typ: job\nparameters: {lr: 1}", 1)
    text = text.replace("python train.py", "python <% $parameters.lrr %> <% $parameters.lr %> <% $secrets.given %>")
    with pytest.raises(InputError) as caught:
        parse(text, given={"given"})
    assert [str(problem).splitlines()[0] for problem in caught.value.problems] == [
        "job.yaml:3:1: typ: unknown key 'typ'; did you mean 'type'?",
        "job.yaml:24:16: taskRoles.worker.commands[0]: no parameter is named 'lrr'; did you mean 'lr'?",
    ]


@pytest.mark.parametrize("section", ["paramters: {lr: 1}", "parameters: [lr]"])
def test_an_error_in_a_section_is_not_repeated_for_every_reference_to_it(section: str) -> None:
    text = JOB.replace("python train.py", "python <% $parameters.lr %>") + section
    assert [problem.where for problem in problems(text)] == [section.partition(":")[0]]


def test_an_error_in_an_aliased_value_is_reported_once() -> None:
    assert [p.where for p in problems(JOB.replace("gpu: 1", "gpu: -1"))] == ["taskRoles.worker.resourcePerInstance.gpu"]


def test_a_mistyped_key_is_not_reported_as_missing_too() -> None:
    found = problems(JOB.replace("    commands:", "    comands:"))
    assert [p.message for p in found] == ["unknown key 'comands'; did you mean 'commands'?"]
    assert (found[0].line, found[0].column) == (22, 5)


def test_a_missing_key_is_reported_at_its_parent() -> None:
    found = problems(JOB.replace("    dockerImage: pytorch\n", ""))
    assert [(p.line, p.column, p.message) for p in found] == [
        (16, 3, "the key 'dockerImage' is missing"),
        (23, 3, found[1].message),
    ]


def test_an_unclosed_tag_is_found_inside_a_block() -> None:
    text = JOB.replace(
        "      - python train.py\n", "      - |\n        echo <% $data.name %>\n        cat <% $data.uri\n"
    )
    (found,) = problems(text)
    assert (found.line, found.column, found.excerpt) == (25, 13, "        cat <% $data.uri")


def test_secrets_are_never_shown() -> None:
    for bad in ("secrets: hunter2", "secrets: {a: hunter2, a: hunter2}", 'secrets: {a: "hunter2', "secrets: [hunter2]"):
        with pytest.raises(InputError) as caught:
            parse(JOB.replace("secrets: {registry: abc}", bad))
        assert "hunter2" not in str(caught.value), bad
        assert "hunter2" not in repr(caught.value), bad


def test_keys_without_effect_are_listed(changed: Any) -> None:
    job = changed(
        {
            "taskRoles/w/extraContainerOptions": {"foo": 1},
            "extras": {
                "submitFrom": "laptop",
                "gangAllocation": False,
                "hivedscheduler": {},
                "kedge": {"mask": False, "hold": True},
                "mine": 1,
            },
        }
    )
    assert job.inert == ("extraContainerOptions.foo", "hivedScheduler", "mine (unknown)", "kedge.hold")
    assert not job.gang_allocation


def test_runtime_plugins_and_deployments(changed: Any) -> None:
    entry = {"plugin": "cmd", "parameters": None, "failurePolicy": "Ignore", "taskroles": ["w"]}
    job = changed(
        {
            "deployments": [{"name": "p", "taskRoles": {"w": {"preCommands": [" x "]}}}],
            "defaults": {"deployment": "p"},
            "extras": {"com.microsoft.pai.runtimeplugin": [entry]},
        }
    )
    path = ("extras", "com.microsoft.pai.runtimeplugin", 0)
    assert job.runtime_plugins == (RuntimePlugin("cmd", {}, "ignore", ("w",), path),)
    assert job.deployments == {"p": {"w": DeploymentRole((" x ",), ())}}
    assert job.active_deployment == "p"


def test_a_job_as_the_web_portal_writes_it() -> None:
    job = parse(
        """\
protocolVersion: 2
name: two_roles
type: job
jobRetryCount: 0
prerequisites:
  - {type: dockerimage, uri: 'example/pytorch:v1.0.0', name: docker_image_0}
taskRoles:
  taskrole: &r
    instances: 1
    completion: {minFailedInstances: 1}
    taskRetryCount: 0
    dockerImage: docker_image_0
    resourcePerInstance: {gpu: 1, cpu: 6, memoryMB: 73994}
    commands: [env]
  taskrole_1: *r
defaults: {virtualCluster: k80}
extras:
  com.microsoft.pai.runtimeplugin:
    - {plugin: ssh, parameters: {jobssh: true, userssh: {type: custom, value: ''}}}
    - {plugin: teamwise_storage, parameters: {storageConfigNames: [share]}}
  hivedScheduler:
    taskRoles:
      taskrole: {skuNum: 1, skuType: gpu-machine-k80}
      taskrole_1: {skuNum: 1, skuType: gpu-machine-k80}
"""
    )
    assert list(job.task_roles) == ["taskrole", "taskrole_1"]
    assert [role.name for role in job.task_roles.values()] == ["taskrole", "taskrole_1"]
    assert job.virtual_cluster == "k80"
    assert job.inert == ("hivedScheduler",)


def test_extras_kedge(changed: Any) -> None:
    job = changed(
        {
            "extras/kedge": {
                "stop": {"signal": "SIGINT", "graceSec": "2.5s"},
                "mask": False,
                "retry": {"maxTransient": 3, "backoffSec": 0},
                "unknownReferences": "keep",
                "workdir": "/w",
                "code": "readOnly",
                "capabilities": {"w": ["MKNOD"]},
                "env": {"A": 1.0},
                "taskRoles": {"w": {"env": {"B": True}, "stop": {"target": "command"}}},
            }
        }
    )
    assert job.kedge == KedgeExtras(
        StopSettings("INT", "group", 2.5),
        False,
        3,
        0.0,
        True,
        "/w",
        capabilities={"w": ("MKNOD",)},
        env={"A": 1.0},
        task_roles={"w": KedgeRole({"B": True}, StopSettings("INT", "command", 2.5))},
        shares_code=True,
    )


@pytest.mark.parametrize(("cpu", "why"), [(".nan", "at least 0.01, not nan"), (".inf", "at most 2147483647, not inf")])
def test_a_number_of_cpus_is_finite(changed: Any, cpu: str, why: str) -> None:
    text = changed({}).source.text
    with pytest.raises(InputError, match=f"resourcePerInstance.cpu: must be {why}"):
        parse(re.sub('"cpu": [0-9]+', f'"cpu": {cpu}', text))


@pytest.mark.parametrize(("cpu", "meant"), [("1.0", "1"), ("0.5", "0.5"), ("1e1", "10")])
def test_a_fraction_of_a_cpu_is_kept(changed: Any, cpu: str, meant: str) -> None:
    job = parse(re.sub('"cpu": [0-9]+', f'"cpu": {cpu}', changed({}).source.text))
    assert str(job.task_roles["w"].resources.cpu) == meant


def test_old_spellings_of_hived_are_read(changed: Any) -> None:
    old = {"taskRoles": {"w": {"gpuType": "k80", "skuNum": 1}}, "jobPriorityClass": "crit"}
    job = changed({"extras": {"hivedscheduler": old}})
    assert job.extras == {
        "hivedScheduler": {"taskRoles": {"w": {"skuType": "k80", "skuNum": 1}}, "jobPriorityClass": "crit"}
    }


def test_the_model_can_be_imported_without_yaml_and_the_schema() -> None:
    code = "import sys, kedge.spec.model; print(sorted({'jsonschema', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nan_is_not_a_duration() -> None:
    text = (
        "protocolVersion: 2\nname: j\ntype: job\nextras: {kedge: {stop: {graceSec: .nan}, retry: {backoffSec: .NaN}}}\n"
    )
    with pytest.raises(InputError) as caught:
        parse(text)
    messages = [str(problem).partition("\n")[0] for problem in caught.value.problems]
    assert "job.yaml:4:35: extras.kedge.stop.graceSec: must be at least 0 seconds, not nan" in messages
    assert "job.yaml:4:62: extras.kedge.retry.backoffSec: must be at least 0 seconds, not nan" in messages


def test_references_of_every_root_are_checked_even_if_the_file_has_errors() -> None:
    lines = "echo <% $script.uri %> <% $data.nam %> <% $output %> <% $parameters.x %> <% $data.uri[3] %>"
    found = problems(JOB.replace("python train.py", lines).replace("gpu: 1", "gpu: x") + "parameters: {lr: 1}\n")
    messages = [problem.message for problem in found if problem.where.startswith("taskRoles.worker.commands")]
    assert messages == [
        "this task role names no script prerequisite",
        "$data has no 'nam'; did you mean 'name'?",
        "this task role names no output prerequisite",
        "no parameter is named 'x'",
        "$data.uri is neither a mapping nor a list; it has nothing below it",
    ]
