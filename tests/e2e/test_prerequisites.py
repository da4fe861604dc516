"""Jobs that say what they need by name, run for real: the protocol's own examples, with local stand-ins for what they
fetch, and what the commands around prerequisites say."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .conftest import EXAMPLES, Kedge, tool

SSH = """
extras:
  com.microsoft.pai.runtimeplugin:
    - {plugin: ssh, parameters: {jobssh: true}}
"""
IMAGES = ("openpai/standard:python_3.6-pytorch_1.2.0-gpu", "siaimes/pytorch1.10.0:v1.0.0")
IMAGE = f"  - {{type: dockerimage, uri: '{IMAGES[0]}', name: docker_image_0}}\n"


def role(listed: str, command: str = "sleep 0s", more: str = "") -> str:
    return f"""
taskRoles:
  taskrole:
    instances: 1
    completion: {{minFailedInstances: 1}}
    taskRetryCount: 0
    prerequisites: [{listed}]
    dockerImage: docker_image_0
    resourcePerInstance: {{gpu: 0, cpu: 3, memoryMB: 29065}}
    commands: ['{command}']
    {more}
defaults: {{virtualCluster: default}}
"""


def head(name: str, prerequisites: str) -> str:
    return f"protocolVersion: 2\nname: {name}\ntype: job\njobRetryCount: 0\nprerequisites:\n{prerequisites}{IMAGE}"


def hooks(name: str, **events: str) -> str:
    callbacks = "".join(f"      - {{event: {event}, commands: [{lines}]}}\n" for event, lines in events.items())
    plugin = "com.microsoft.pai.runtimeplugin.cmd"
    return f"  - type: script\n    name: {name}\n    plugin: {plugin}\n    callbacks:\n{callbacks}"


def write(kedge: Kedge, text: str, name: str = "job.yaml") -> Path:
    file = kedge.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for image in IMAGES:
        text = text.replace(image, kedge.image)
    file.write_text(text)
    return file


def runtime_log(kedge: Kedge, task: str = "taskrole-0") -> list[str]:
    """The messages of a task's runtime.log, without time and program."""
    text = (kedge.only_run() / "attempt-0" / task / "runtime.log").read_text()
    return [line.split("] ", 2)[-1] for line in text.splitlines()]


def in_order(log: list[str], *wanted: str) -> None:
    """Each of `wanted` is a whole message, one after the other."""
    rest = iter(log)
    for message in wanted:
        assert message in rest, f"{message!r} is missing or too early in {log}"


@pytest.fixture
def stubs(kedge: Kedge) -> dict[str, str]:
    """Programs that are not on this machine, and repositories of github.com, as variables."""
    repository = kedge.folder / "github.com" / "ieee8023" / "covid-chestxray-dataset.git"
    repository.mkdir(parents=True)
    (repository / "metadata.csv").write_text("patientid\n")
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for argv in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "x")):
        subprocess.run(["git", *argv], cwd=repository, check=True)
    for name in ("apt", "wget", "pai_copy"):
        stub = write(kedge, f'#!/bin/sh\necho "{name} $*"\n', f"bin/{name}")
        stub.chmod(0o755)
    return {
        "PATH": f"{kedge.folder}/bin:{kedge.environment['PATH']}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{kedge.folder}/github.com/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }


@pytest.fixture(params=["local", "container"])
def equipped(request: pytest.FixtureRequest) -> Iterator[tuple[Kedge, dict[str, str]]]:
    """A kedge whose tasks have the stubs, and the variables for that: none in containers, whose image has them all."""
    stubs = request.getfixturevalue("stubs")
    if request.param == "local":
        yield request.getfixturevalue("kedge"), stubs
        return
    kedge = request.getfixturevalue("in_containers")("git")
    box = f"kedge-{os.urandom(4).hex()}"
    tool("create", "--name", box, kedge.image, "true")
    tool("cp", str(kedge.folder / "bin"), f"{box}:/stubs")
    tool("cp", str(kedge.folder / "github.com"), f"{box}:/github.com")
    variables = {key: value.replace(str(kedge.folder), "") for key, value in stubs.items()}
    variables["PATH"] = "/stubs:/usr/sbin:/usr/bin"
    changes = [word for key, value in variables.items() for word in ("--change", f"ENV {key}={value}")]
    kedge.image = f"localhost/kedge/test-{box}:1"
    tool("commit", *changes, box, kedge.image)
    tool("rm", box)
    yield kedge, {}
    tool("rmi", "--force", kedge.image)


def test_a_cmd_prerequisite_runs_around_the_command(on_engine: Kedge) -> None:
    items = hooks("justecho", taskStarts="echo 111, echo 222", taskSucceeds="echo 333, echo 444")
    done = on_engine("run", write(on_engine, head("pre1", items) + role("justecho") + SSH))
    in_order(
        runtime_log(on_engine), "[INFO] Starting to exec precommands", "111", "222", "[INFO] Precommands finished",
        "[INFO] USER COMMAND START", "[INFO] USER COMMAND END", "333", "444",
    )  # fmt: skip
    assert done.stderr.count("ssh") == 1


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
    plan = json.loads(kedge("plan", "--json", file).stdout)
    assert plan["storages"] == [{"name": "nfsconfig", "mountPath": "/mnt/nfs-storage-1"}]
    order = ["install-pai-copy", "nfs-storage-1", "mnist-data", "output-dir", "enable-ssh"]
    assert [entry["name"] for entry in plan["prerequisites"]] == order
    done = kedge("run", file, **stubs)
    assert "/mnt/nfs-storage-1/mnist and /tmp/output" in done.stdout
    in_order(runtime_log(kedge), "[INFO] USER COMMAND END", "pai_copy upload paiuploadtest //", "data exits")
    assert done.stderr.count("nfsconfig at /mnt/nfs-storage-1") == 1  # nothing is mounted unless a folder is named
    assert done.stderr.count("ssh") == 1


MARKET = {
    "install_wget": """\
name: install_wget
plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands: ["apt update", "apt install -y wget"]
""",
    "mnist": """\
name: mnist
require:
  - name: marketplace://name/install_wget
plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands:
        - mkdir -p {{ dataPath }}
        - wget http://1.2.3.4/mnist.zip -O {{ dataPath }}
        - cd {{ dataPath }}
template_variables:
  - name: dataPath
""",
    "confignfs_pvc": """\
name: confignfs_pvc
plugin: pvc_storage
plugin_params:
  name: confignfs
  mountPath: {{ mountPath }}
template_variables:
  - name: mountPath
""",
    "imagenet": """\
name: imagenet
require:
  - name: marketplace://name/confignfs_pvc
    template_variables: {mountPath: /mnt/confignfs_pvc}
plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands:
        - mkdir -p {{ dataPath }}
        - cp -r /mnt/confignfs_pvc/imagenet/* {{ dataPath }}
template_variables:
  - name: dataPath
""",
    "debug_hook": """\
name: debug_hook
plugin: cmd
plugin_params:
  callbacks:
    - event: taskFails
      commands:
        - echo "will sleep for {{ min }} minutes for debugging..."
        - sleep {{ min }}m
template_variables:
  - name: min
""",
    "mnist_data": """\
name: mnist_data
type: data
plugin: com.microsoft.pai.runtimeplugin.cmd
pathForUser: /dataset/mnist
requireStorages:
  - {name: confignfs, mountPath: /mnt/confignfs}
callbacks:
  - event: containerStarts
    commands: ['wget "https://host/x" -O /dataset/mnist/x']
""",
}


@pytest.fixture
def market(kedge: Kedge) -> Path:
    """A folder that is a marketplace."""
    for name, text in MARKET.items():
        write(kedge, text, f"market/{name}.yaml")
    return kedge.folder / "market"


def references(name: str, **values: str) -> str:
    given = ", ".join(f"{key}: {value}" for key, value in values.items())
    return (
        "extras:\n  reference_prerequisites:\n"
        f"    - name: {name}\n      require:\n        - name: marketplace://name/{name}\n"
        f"          template_variables: {{{given}}}\n"
    )


def planned(kedge: Kedge, market: Path, name: str, **values: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The scripts of all steps by name and event, and the storages."""
    file = write(kedge, head(name, "") + role(name) + references(name, **values))
    plan = json.loads(kedge("plan", "--json", "--marketplace", market, file).stdout)
    steps = plan["roles"][0]["steps"]
    return {f"{s['name']} {c['event']}": c["script"] for s in steps for c in s["callbacks"]}, plan["storages"]


def test_an_item_of_the_marketplace_with_values(kedge: Kedge, market: Path) -> None:
    scripts, storages = planned(kedge, market, "mnist", dataPath="/dataset/mnist")
    assert list(scripts) == ["install_wget taskStarts", "mnist taskStarts"]
    assert scripts["mnist taskStarts"].startswith(
        "mkdir -p /dataset/mnist\nwget http://1.2.3.4/mnist.zip -O /dataset/mnist\n"
    )
    assert storages == []
    scripts, storages = planned(kedge, market, "imagenet", dataPath="/dataset/imagenet")
    assert scripts == {
        "imagenet taskStarts": "mkdir -p /dataset/imagenet\ncp -r /mnt/confignfs_pvc/imagenet/* /dataset/imagenet\n"
    }
    assert storages == [{"name": "confignfs", "mountPath": "/mnt/confignfs_pvc"}]
    scripts, storages = planned(kedge, market, "debug_hook", min="30")
    assert scripts == {"debug_hook taskFails": 'echo "will sleep for 30 minutes for debugging..."\nsleep 30m\n'}
    assert storages == []


def test_an_item_without_its_value_is_refused(kedge: Kedge, market: Path) -> None:
    text = head("mnist", "") + role("mnist") + references("mnist")
    done = kedge("run", write(kedge, text), "--marketplace", market, code=2)
    assert "Template variable dataPath of prerequisite mnist is not fulfilled." in done.stderr
    assert "extras.reference_prerequisites[0].require[0].name" in done.stderr


def test_data_of_the_marketplace_is_there_when_the_command_runs(
    equipped: tuple[Kedge, dict[str, str]], market: Path
) -> None:
    kedge, stubs = equipped
    path = kedge.folder / "dataset"
    text = head("mnist", "") + role("mnist", f"ls -d {path}") + references("mnist", dataPath=str(path))
    done = kedge("run", write(kedge, text), KEDGE_MARKETPLACE=str(market), **stubs)
    assert str(path) in done.stdout
    in_order(runtime_log(kedge), "apt update", "apt install -y wget", f"wget http://1.2.3.4/mnist.zip -O {path}")


@pytest.mark.parametrize(("command", "code", "shown"), [("exit 3", 1, True), ("true", 0, False)])
def test_a_hook_for_failures_runs_only_then(
    on_engine: Kedge, market: Path, command: str, code: int, shown: bool
) -> None:
    text = head("debug", "") + role("debug_hook", command) + references("debug_hook", min="0")
    on_engine("run", write(on_engine, text), "--marketplace", market, code=code)
    assert ("will sleep for 0 minutes for debugging..." in runtime_log(on_engine)) is shown


def test_an_item_by_its_id_needs_no_entry_in_the_job(equipped: tuple[Kedge, dict[str, str]], market: Path) -> None:
    kedge, stubs = equipped
    index = {"items": [{"id": "2", "name": "MNIST", "type": "data", "path": "mnist_data.yaml"}]}
    write(kedge, json.dumps(index), "market/index.json")
    text = head("by-id", "") + role('"marketplace://prerequisites/itemId/2", "marketplace://data/MNIST"')
    kedge("run", write(kedge, text), "--marketplace", market, **stubs)
    assert runtime_log(kedge).count("wget https://host/x -O /dataset/mnist/x") == 1


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
    done = on_engine("run", write(on_engine, both))
    for task in ("taskrole-0", "taskrole_1-0"):
        said = on_engine.said(task)
        assert "PAI_HOST_IP_taskrole_1_0=" in said
        assert "PAI_HOST_IP_taskrole1_0=" in said
    assert done.stderr.count("share at /mnt/share") == 1


# The commands around prerequisites.


def locked(kedge: Kedge, market: Path) -> Path:
    """A job with an item of the marketplace, one in a file and a repository, and its lock file."""
    write(kedge, "name: local\ncallbacks: [{event: taskStarts, commands: [echo local]}]\n", "local.yaml")
    repository = kedge.folder / "repo"
    subprocess.run(["git", "init", "-q", repository], check=True)
    commit(repository)
    git = f"  - {{name: code, type: script, plugin: git, repo_uri: 'file://{repository}', clone_dir: code}}\n"
    text = head("locked", git) + role("install_wget, ./local.yaml, code", "git -C code rev-parse HEAD")
    text += references("install_wget").replace("template_variables: {}", "")
    file = write(kedge, text)
    done = kedge("lock", file, "--marketplace", market)
    assert "job.lock: 1 external prerequisite, 1 file, 1 repository, 1 image" in done.stdout
    return file


def commit(repository: Path) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=repository, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_locked_job_runs_what_was_locked_and_offline(kedge: Kedge, market: Path, stubs: dict[str, str]) -> None:
    file = locked(kedge, market)
    lock = json.loads((kedge.folder / "job.lock").read_text())
    (pin,) = lock["git"].values()
    assert commit(kedge.folder / "repo") != pin["value"]
    market.rename(kedge.folder / "gone")
    done = kedge("run", file, "--offline", **stubs)
    assert pin["value"] in done.stdout
    assert json.loads((kedge.folder / "job.lock").read_text()) == lock


def test_a_locked_job_refuses_what_has_changed(kedge: Kedge, market: Path, stubs: dict[str, str]) -> None:
    file = locked(kedge, market)
    before = (kedge.folder / "job.lock").read_text()
    item = market / "install_wget.yaml"
    item.write_text(item.read_text().replace("apt update", "apt upgrade"))
    write(kedge, "name: local\ncallbacks: [{event: taskStarts, commands: [echo changed]}]\n", "local.yaml")
    refused = kedge("run", file, "--marketplace", market, code=2, **stubs)
    assert "it has changed since job.lock was written; --update-lock install_wget accepts the change" in refused.stderr
    assert '-      commands: ["apt update", "apt install -y wget"]' in refused.stderr
    assert kedge.runs() == []
    kedge("plan", file, "--marketplace", market, "--update-lock", "install_wget")
    assert (kedge.folder / "job.lock").read_text() == before
    accepted = kedge("run", file, "--marketplace", market, "--update-lock", "install_wget", **stubs)
    assert "local.yaml has changed since job.lock was written" in accepted.stderr
    in_order(runtime_log(kedge), "apt upgrade", "changed")
    again = kedge("plan", file, "--marketplace", market)
    assert "has changed" not in again.stderr
    assert (kedge.folder / "job.lock").read_text() != before


def test_the_cache_is_shown_and_pruned(kedge: Kedge, market: Path) -> None:
    file = locked(kedge, market)
    sha256 = json.loads((kedge.folder / "job.lock").read_text())["items"]["marketplace://name/install_wget"]["sha256"]
    shown = kedge("cache").stdout
    assert sha256 in shown
    assert "1 document," in shown
    assert "deleted 0 documents" in kedge("cache", "--prune", "--days", "1").stdout
    assert "deleted 1 document," in kedge("cache", "--prune").stdout
    assert "0 documents, 0 bytes" in kedge("cache").stdout
    assert "it is not in the cache" in kedge("run", file, "--offline", code=4).stderr


def test_the_plan_shows_who_needs_what(kedge: Kedge, market: Path) -> None:
    text = head("graph", "  - {name: both, type: data, require: [mnist, 'marketplace://name/install_wget']}\n")
    file = write(kedge, text + role("both") + references("mnist", dataPath="/a<b"))
    shown = kedge("plan", "--graph", "tree", "--marketplace", market, file).stdout
    assert shown.splitlines() == [
        "taskrole",
        "  both",
        "  ├─ mnist",
        f"  │  └─ mnist  from {market}/mnist.yaml  (dataPath=/a<b)",
        f"  │     └─ install_wget  from {market}/install_wget.yaml",
        "  └─ install_wget  (above)",
    ]
    assert "└─ install_wget  (above)" in kedge("plan", "--marketplace", market, file).stdout
    drawing = kedge("plan", "--graph", "svg", "--marketplace", market, file).stdout
    assert drawing.startswith("<svg xmlns=")
    assert drawing.count("<rect") == 1 + 5
    assert drawing.count("<path") == 5
    assert "/a&lt;b" in drawing
    assert ElementTree.fromstring(drawing).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_composed_example(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "composed.yaml", "-p", "count=100")
    assert "worker:0 | the sum is 5050" in done.stdout
    log = runtime_log(kedge, "worker-0")
    (size,) = [line for line in log if line.endswith("results/sum.txt")]
    assert size.split()[0] == str(len("the sum is 5050\n"))
    (took,) = [line for line in log if line.startswith("all of it took")]
    in_order(log, "[INFO] USER COMMAND END", size, took)
