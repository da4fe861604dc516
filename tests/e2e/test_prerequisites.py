"""Jobs that name what they need, run for real: the protocol's own examples, with stand-ins for what they fetch."""

from __future__ import annotations

import json

import pytest

from .conftest import EXAMPLES, Kedge
from .prerequisite_jobs import head, hooks, in_order, role, runtime_log, write

SSH = """
extras:
  com.microsoft.pai.runtimeplugin:
    - {plugin: ssh, parameters: {jobssh: true}}
"""


def test_a_cmd_prerequisite_runs_around_the_command(on_engine: Kedge) -> None:
    items = hooks("justecho", taskStarts="echo 111, echo 222", taskSucceeds="echo 333, echo 444")
    done = on_engine("run", write(on_engine, head("pre1", items) + role("justecho") + SSH))
    in_order(
        runtime_log(on_engine), "[INFO] Starting to exec precommands", "111", "222", "[INFO] Precommands finished",
        "[INFO] USER COMMAND START", "[INFO] USER COMMAND END", "333", "444",
    )  # fmt: skip
    assert "ssh" not in done.stderr


def test_several_prerequisites_start_in_order_and_end_in_reverse(on_engine: Kedge) -> None:
    items = hooks("justecho_first", taskStarts="echo 111", taskSucceeds="echo 222")
    items += hooks("justecho_later", taskStarts="echo aaa", taskSucceeds="echo bbb")
    on_engine("run", write(on_engine, head("pre2", items) + role("justecho_first, justecho_later") + SSH))
    in_order(
        runtime_log(on_engine), "111", "aaa", "[INFO] USER COMMAND START", "[INFO] USER COMMAND END", "bbb", "222"
    )  # fmt: skip


def test_a_wrong_name_is_refused_at_its_place(kedge: Kedge) -> None:
    items = hooks("justecho", taskStarts="echo 111")
    done = kedge("run", write(kedge, head("pre3", items) + role("justecho_wrong") + SSH), code=2)
    assert (
        "job.yaml:18:21: taskRoles.taskrole.prerequisites[0]: Prerequisite justecho_wrong does not exist."
        in done.stderr
    )
    assert "Did you mean 'justecho'?" in done.stderr
    assert kedge.runs() == []


def test_a_job_from_before_prerequisites_had_hooks(equipped: tuple[Kedge, dict[str, str]]) -> None:
    kedge, stubs = equipped
    items = (
        "  - name: covid-chestxray-dataset\n    type: data\n"
        "    uri: ['https://github.com/ieee8023/covid-chestxray-dataset.git']\n"
    )
    text = head("covid-chestxray-dataset_88170423", items)
    text += role("", "git clone <% $data.uri[0] %>", "data: covid-chestxray-dataset").replace(
        "prerequisites: []\n", "\n"
    )
    file = write(kedge, text)
    command = json.loads(kedge("plan", "--json", file).stdout)["roles"][0]
    assert command["command"] == "git clone https://github.com/ieee8023/covid-chestxray-dataset.git"
    assert command["steps"] == []
    done = kedge("run", file, **stubs)
    assert "Cloning into 'covid-chestxray-dataset'..." in done.stdout
    if kedge.engine == "local":  # a container's own files are gone with it
        assert (kedge.only_run() / "attempt-0/taskrole-0/work/covid-chestxray-dataset/metadata.csv").exists()


def test_data_is_there_when_the_command_runs(equipped: tuple[Kedge, dict[str, str]]) -> None:
    kedge, stubs = equipped
    data = kedge.folder / "dataset" / "covid-19"
    clone = f"mkdir -p {data}, git clone https://github.com/ieee8023/covid-chestxray-dataset.git {data}"
    items = hooks("install-git", taskStarts="apt update, apt install -y git") + hooks("covid-19-data", taskStarts=clone)
    file = write(kedge, head("pre1_f7a15a5c", items) + role("install-git, covid-19-data", f"ls -la {data}") + SSH)
    done = kedge("run", file, **stubs)
    assert "metadata.csv" in done.stdout
    in_order(runtime_log(kedge), "apt update", "apt install -y git", "[INFO] USER COMMAND START")


@pytest.mark.parametrize("written", ["'111'", "111"])
def test_parameters_and_secrets_reach_hooks(on_engine: Kedge, written: str) -> None:
    items = hooks("justecho", taskStarts="echo <% $parameters.x %>, echo <% $secrets.y %>")
    text = head("pre_secret_parameters", items) + role("justecho") + SSH
    done = on_engine("run", write(on_engine, text + f"parameters: {{x: {written}}}\nsecrets: {{'y': '222'}}\n"))
    in_order(runtime_log(on_engine), "111", "222", "[INFO] USER COMMAND START")
    assert "not masked in logs" in done.stderr


LARGE = """\
protocolVersion: 2
name: large
type: job
prerequisites:
  - {name: default_image, type: dockerimage, uri: busybox}
  - name: install-pai-copy
    type: script
    plugin: com.microsoft.pai.runtimeplugin.cmd
    callbacks:
      - event: containerStart
        commands: [xxx, npm install -g @swordfaith/pai_copy]
    failurePolicy: ignore
  - name: nfs-storage-1
    type: storage
    plugin: com.microsoft.pai.rest.storage
    config: nfsconfig
    mountPoint: /mnt/nfs-storage-1
  - name: mnist-data
    type: data
    plugin: com.microsoft.pai.runtimeplugin.cmd
    require: [nfs-storage-1]
    callbacks:
      - event: containerStart
        commands: ['export MNIST_DIR=<% this.mountPoint %>/mnist']
      - event: containerExits
        commands: [echo data exits]
  - name: output-dir
    type: output
    plugin: com.microsoft.pai.runtimeplugin.cmd
    require: [nfs-storage-1]
    callbacks:
      - event: containerStart
        commands: [export OUTPUT_DIR=/tmp/output]
      - event: containerExit
        commands:
          - 'if [ -z ${OUTPUT_DIR+x} ]; then'
          - echo "Not found OUTPUT_DIR environ"
          - else
          - pai_copy upload paiuploadtest //
          - fi
  - name: enable-ssh
    type: script
    plugin: com.microsoft.pai.runtimeplugin.ssh
    jobssh: true
    publicKeys: []
taskRoles:
  taskrole:
    dockerImage: default_image
    prerequisites: [install-pai-copy, mnist-data, output-dir, enable-ssh]
    resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 100}
    commands: ['echo "$MNIST_DIR and $OUTPUT_DIR"']
"""


def test_what_prerequisites_set_reaches_the_command_and_storages_reach_the_plan(
    equipped: tuple[Kedge, dict[str, str]],
) -> None:
    kedge, stubs = equipped
    file = write(kedge, LARGE.replace("uri: busybox", f"uri: {kedge.image}"))
    storage = ("--storage", f"nfsconfig={kedge.folder}")
    plan = json.loads(kedge("plan", "--json", file, *storage).stdout)
    assert [(s["name"], s["mountPath"]) for s in plan["storages"]] == [("nfsconfig", "/mnt/nfs-storage-1")]
    order = ["install-pai-copy", "nfs-storage-1", "mnist-data", "output-dir", "enable-ssh"]
    assert [entry["name"] for entry in plan["prerequisites"]] == order
    done = kedge("run", file, *storage, **stubs)
    assert "/mnt/nfs-storage-1/mnist and /tmp/output" in done.stdout
    in_order(runtime_log(kedge), "[INFO] USER COMMAND END", "pai_copy upload paiuploadtest //", "data exits")
    assert "ssh" not in done.stderr


TWO_ROLES = """\
protocolVersion: 2
name: siaimes
type: job
jobRetryCount: 0
prerequisites:
  - {type: dockerimage, uri: 'siaimes/pytorch1.10.0:v1.0.0', name: docker_image_0}
taskRoles:
  taskrole: &r
    instances: 1
    completion: {minFailedInstances: 1}
    taskRetryCount: 0
    dockerImage: docker_image_0
    resourcePerInstance: {gpu: 0, cpu: 6, memoryMB: 73994}
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


def test_roles_whose_names_differ_by_an_underscore(on_engine: Kedge) -> None:
    # Else the role that ends first ends the job, and the other one may not have said anything yet.
    both = TWO_ROLES.replace("{minFailedInstances: 1}", "{minFailedInstances: 1, minSucceededInstances: -1}")
    done = on_engine("run", write(on_engine, both), "--storage", f"share={on_engine.folder}")
    for task in ("taskrole-0", "taskrole_1-0"):
        said = on_engine.task_log(task)
        assert "PAI_HOST_IP_taskrole_1_0=" in said
        assert "PAI_HOST_IP_taskrole1_0=" in said
    assert done.stderr.count("teamwise_storage: deprecated") == 1
    assert "KEDGE_STORAGE_SHARE=" in on_engine.task_log("taskrole-0")


def test_the_composed_example(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "composed.yaml", "-p", "count=100")
    assert "worker:0 | the sum is 5050" in done.stdout
    log = runtime_log(kedge, "worker-0")
    (size,) = [line for line in log if line.endswith("results/sum.txt")]
    assert size.split()[0] == str(len("the sum is 5050\n"))
    (took,) = [line for line in log if line.startswith("all of it took")]
    in_order(log, "[INFO] USER COMMAND END", size, took)
