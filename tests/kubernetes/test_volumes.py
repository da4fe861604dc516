"""Volumes of a namespace: what all its nodes share, and what jobs keep there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest

from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .kedge_on_kubernetes import OnKubernetes
from .namespaces import Namespace


def test_pods_of_both_nodes_share_a_claim(namespace: Namespace) -> None:
    folder = namespace.claim("shared")
    claim = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
    container = {"name": "app", "image": "localhost/kedge/busybox:1"}
    for node in ("node1", "node2"):
        script = f"id -u > /shared/{node}"
        mounts = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
        command = {"command": ["sh", "-c", script], "securityContext": {"runAsUser": 1234}}
        namespace.run(f"on-{node}", "", nodeName=node, volumes=[claim], containers=[{**container, **command, **mounts}])
    for node in ("node1", "node2"):
        namespace.wait_for_phase(f"on-{node}", "Succeeded")
        assert (folder / node).read_text() == "1234\n"


MEET = [
    'umask 077; echo "of $PAI_TASK_INDEX" > "$KEDGE_OUTPUT_DIR/result"; mkdir "$KEDGE_OUTPUT_DIR/deep"',
    'head -c 3000000 /dev/urandom > "$KEDGE_OUTPUT_DIR/deep/random"; touch "$KEDGE_JOB_DIR/task-$PAI_TASK_INDEX"',
    'until [ -e "$KEDGE_JOB_DIR/task-0" ] && [ -e "$KEDGE_JOB_DIR/task-1" ]; do sleep 0.2; done; echo met',
    'until [ -e "$KEDGE_JOB_DIR/flag" ]; do sleep 0.2; done',
]


def test_a_run_is_kept_on_claims_and_removed_there(kedge: OnKubernetes) -> None:
    kept, runs = kedge.namespace.claim("outputs"), kedge.namespace.claim("runs", 0o777)
    kedge.site(**{"outputs-volume": "outputs", "run-volume": "runs"})
    kedge("run", "--detach", kedge.job(MEET, roles={"worker": {"instances": 2}}))
    run = kedge.only_run()
    wait_until(lambda: all("met" in log(kedge, task) for task in ("worker-0", "worker-1")), TIMEOUT, "both tasks")
    assert listed(kedge, run.name) == RESULTS | {("job", "task-0"), ("job", "task-1")}
    kedge("cp", f"{run.name}/worker-1:result", kedge.folder / "copied")
    assert (kedge.folder / "copied").read_text() == "of 1\n"
    (kedge.folder / "flag").write_text("")
    kedge("cp", kedge.folder / "flag", f"{run.name}:")
    assert "succeeded" in kedge("wait", run.name).stdout
    wait_until(lambda: [pod["status"]["phase"] for pod in kedge.pods("driver")] == ["Succeeded"], TIMEOUT, "the driver")
    shutil.rmtree(run)
    kedge("ps", "--engine", "kubernetes")  # as on another machine
    assert kedge("logs", run.name, "worker-0").stdout == "met\n"
    assert listed(kedge, run.name) == RESULTS | {("job", "task-0"), ("job", "task-1"), ("job", "flag")}
    kedge("cp", f"{run.name}/worker-0:", kedge.folder / "all")
    assert (kedge.folder / "all/result").read_text() == "of 0\n"
    assert (kedge.folder / "all/deep/random").stat().st_size == 3_000_000
    kedge("rm", run.name)
    assert (list(kept.iterdir()), list(runs.iterdir())) == ([], [])


RESULTS = {(f"worker:{index}", name) for index in (0, 1) for name in ("result", "deep/random")}


def test_files_of_other_users_are_read_and_removed(kedge: OnKubernetes) -> None:
    kept = kedge.namespace.claim("outputs")
    patch = kedge.folder / "patch.yaml"
    patch.write_text("spec: {containers: [{name: app, securityContext: {runAsUser: 4321}}]}")
    kedge.site(**{"outputs-volume": "outputs", "restricted": True, "pod-patch": str(patch)})
    write = 'id -u | tee "$KEDGE_OUTPUT_DIR/a/b/c" > "$KEDGE_JOB_DIR/d"'
    kedge("run", kedge.job(['mkdir -p "$KEDGE_OUTPUT_DIR/a/b"', write]))
    run = kedge.only_run().name
    assert listed(kedge, run) == {("worker:0", "a/b/c"), ("job", "d")}
    kedge("cp", f"{run}:d", kedge.folder / "d")
    assert (kedge.folder / "d").read_text() == "4321\n"
    kedge("rm", run)
    assert list(kept.iterdir()) == []


def test_outputs_of_a_running_task_without_a_volume(kedge: OnKubernetes) -> None:
    wait = 'until [ -e "$KEDGE_OUTPUT_DIR/flag" ]; do sleep 0.2; done; rm "$KEDGE_OUTPUT_DIR/flag"'
    kedge("run", "--detach", kedge.job(['umask 077; echo one > "$KEDGE_OUTPUT_DIR/result"; echo ready', wait]))
    run = kedge.only_run().name
    wait_until(lambda: "ready" in log(kedge, "worker-0"), TIMEOUT, "the task")
    assert listed(kedge, run) == {("worker:0", "result")}
    kedge("cp", f"{run}/worker-0:result", kedge.folder / "copied")
    assert (kedge.folder / "copied").read_text() == "one\n"
    (kedge.folder / "flag").write_text("")
    kedge("cp", kedge.folder / "flag", f"{run}/worker-0:")
    kedge("wait", run)
    assert listed(kedge, run) == {("worker:0", "result")}


def listed(kedge: OnKubernetes, run: str) -> set[tuple[str, str]]:
    """What `kedge outputs` lists: tasks and paths."""
    found = map(json.loads, kedge("outputs", "--json", run).stdout.splitlines())
    return {(each["task"] or "job", each["path"]) for each in found}


def log(kedge: OnKubernetes, task: str) -> str:
    """What a task has printed so far."""
    try:
        return kedge.task_log(task)
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize("volume", [True, False])
def test_large_code_comes_to_all_tasks(kedge: OnKubernetes, volume: bool) -> None:
    kept = kedge.namespace.claim("code") if volume else None
    if volume:
        kedge.site(**{"code-volume": "code"})
    data = os.urandom(9 << 20)  # nothing compresses it
    (kedge.folder / "code/inner").mkdir(parents=True)
    (kedge.folder / "code/inner/data").write_bytes(data)
    code = {"name": "code", "type": "script", "uri": "./code"}
    roles = {"worker": {"script": "code", "instances": 2}}
    kedge("run", kedge.job("sha256sum inner/data; touch new", roles=roles, prerequisites=[code]))
    run = kedge.only_run().name
    for task in ("worker-0", "worker-1"):
        assert kedge.task_log(task) == f"{hashlib.sha256(data).hexdigest()}  inner/data\n"
    notes = [event["text"] for event in kedge.events() if event["event"] == "note"]
    assert any("if the node of the driver is lost, the job ends" in text for text in notes) is not volume
    kedge("rm", run)
    assert kept is None or list(kept.iterdir()) == []


def test_storages_are_claims_and_folders_of_the_nodes(kedge: OnKubernetes) -> None:
    claim, on_node = kedge.namespace.claim("corpus"), kedge.namespace.claim("nodes")  # the folder is on all nodes
    (claim / "part").mkdir()
    (claim / "part/data").write_text("of the claim\n")
    (on_node / "data").write_text("of the node\n")
    kedge.site(**{"host-paths": [str(on_node)]})
    storages = f'[storages.corpus]\npvc = "corpus"\nsubPath = "part"\n[storages.local]\npath = "{on_node}"\n'
    site = kedge.folder / "site.toml"
    site.write_text(site.read_text() + storages)
    wanted = [
        {
            "name": name,
            "type": "storage",
            "plugin": "pvc_storage",
            "plugin_params": {"name": name, "mountPath": f"/{name}"},
        }
        for name in ("corpus", "local")
    ]
    roles = {"worker": {"prerequisites": ["corpus", "local"]}}
    script = "cat /corpus/data /local/data; echo result > /corpus/new; echo result > /local/new"
    kedge("run", kedge.job(script, roles=roles, prerequisites=wanted))
    assert kedge.task_log() == "of the claim\nof the node\n"
    assert (claim / "part/new").read_text() == (on_node / "new").read_text() == "result\n"
