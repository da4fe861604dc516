"""Pods that wait, for ever if nobody ends that: what is said of them, and how their tasks end."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from tests.dropin.real_registry import registry

from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .kedge_on_kubernetes import OnKubernetes

SMALL = {"cpu": 0.1, "memoryMB": 64, "gpu": 0}


def quota(name: str, **hard: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}


def test_an_image_comes_from_a_registry_and_one_that_it_lacks_fails(kedge: OnKubernetes, tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    with registry(tmp_path, tmp_path / "storage") as address:
        image = f"{address}/team/tool:1"
        for command in (["tag", kedge.image], ["push", "--tls-verify=false"], ["rmi"]):
            subprocess.run(["podman", *command, image], check=True, capture_output=True)
        kedge.site(image_wait="5s")
        kedge.image = image
        good = kedge.start("run", kedge.job("echo from $(hostname)", name="good"))
        kedge.image = f"{address}/team/tool:2"
        said = kedge.finish(kedge.start("run", kedge.job("true", name="bad")), 1)
        assert "Succeeded" in kedge.finish(good, 0)
    (end,) = [event for event in kedge.named("task-completed") if event["state"] == "failed"]
    assert end["code"] == 254
    assert "not retried: container_failure is permanent, a retry would fail the same way" in said
    assert re.search(
        rf"worker:0 failed: the image does not exist \(node node\d\): {address}/team/tool:2: not found", said
    )
    assert "Check the image's name, tag and access." in said


def test_a_quota_is_waited_for(kedge: OnKubernetes) -> None:
    kedge.namespace.kubectl("apply", "--filename=-", given=quota("pods", pods=0))
    kedge("run", "--detach", kedge.job("true", roles={"worker": {"resourcePerInstance": SMALL}}))
    shown = kedge.wait_for_show("the namespace's quota has no room for the driver's pod")
    assert "Pending for" in shown
    kedge.namespace.kubectl("apply", "--filename=-", given=quota("pods", pods=1))
    shown = kedge.wait_for_show("the quota pods of the namespace")
    assert "worker:0  waiting" in shown
    kedge.namespace.kubectl("delete", "quota", "pods")
    assert "succeeded" in kedge("wait", kedge.only_run().name).stdout


def test_what_a_namespace_does_not_allow_fails_at_once(kedge: OnKubernetes) -> None:
    limits = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    given = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": limits}
    kedge.namespace.kubectl("apply", "--filename=-", given=given)
    large = {"worker": {"resourcePerInstance": {**SMALL, "memoryMB": 2048}}}
    said = kedge.finish(kedge.start("run", kedge.job("true", roles=large)), 1)
    (end,) = kedge.named("task-completed")
    assert end["code"] == -200
    assert "not retried: bad_config is permanent, a retry would fail the same way" in said
    assert "maximum memory usage per Container is 1Gi, but limit is 2Gi. Ask for less in resourcePerInstance" in said


def test_a_task_that_no_node_can_take_gives_up_and_is_tried_again_later(kedge: OnKubernetes) -> None:
    kedge.site(pending="3s")
    job = kedge.job("true", roles={"worker": {"instances": 2, "resourcePerInstance": SMALL}})
    process = kedge.start("run", "--kubernetes", "node-selector=disk=fast", job)
    wait_until(lambda: bool(kedge.named("job-retrying")), TIMEOUT, "the word that it is tried again")
    (retried,) = kedge.named("job-retrying")
    assert retried["delay_sec"] >= 60
    wait_until(lambda: kedge.pods() == [], TIMEOUT, "the end of all pods: all is given back meanwhile")
    kedge("stop", kedge.only_run().name)
    said = kedge.finish(process, 1)
    ends = kedge.named("task-completed")
    assert 251 in [end["code"] for end in ends]
    assert "none of 2 nodes can take it: 2 lack labels that it asks for" in said
    assert "check --kubernetes node-selector" in said
    assert kedge.leftovers() == []
