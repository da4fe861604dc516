"""What `kedge plan --engine kubernetes` shows: golden files, and that they hold no secret."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kedge.engines.base import Task
from kedge.engines.kubernetes import plan_manifests
from kedge.engines.kubernetes.objects import labels

from .jobs import CASES, GOLDEN, text


@pytest.mark.parametrize("name", CASES)
def test_what_is_shown_is_the_golden_file(name: str) -> None:
    assert text(CASES[name]) == (GOLDEN / f"{name}.yaml").read_text()


def test_there_is_a_case_for_every_golden_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()))


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_stream_of_objects_with_the_anchor_first(name: str) -> None:
    found = documents(name)
    kinds = [each["metadata"]["labels"][labels.COMPONENT] for each in found]
    assert kinds[0] == labels.ANCHOR
    assert kinds[-1] == labels.TASK
    assert "ownerReferences" not in found[0]["metadata"]
    assert all(each["metadata"]["ownerReferences"][0]["name"] == "run-id" for each in found[1:])
    assert len({(each["kind"], each["metadata"]["name"]) for each in found}) == len(found)


@pytest.mark.parametrize("name", CASES)
def test_what_pods_refer_to_is_there(name: str) -> None:
    found = documents(name)
    there = {(each["kind"], each["metadata"]["name"]) for each in found}
    specs = [each["spec"] for each in found if each["kind"] == "Pod"]
    (driver,) = (each["spec"]["template"]["spec"] for each in found if each["kind"] == "Job")
    for spec in (*specs, driver):
        assert ("Service", spec["subdomain"]) in there
        for volume in spec["volumes"]:
            if "secret" in volume:
                assert ("Secret", volume["secret"]["secretName"]) in there
            for source in [volume, *volume.get("projected", {}).get("sources", [])]:
                if "configMap" in source:
                    assert ("ConfigMap", source["configMap"]["name"]) in there
        own = [each["name"] for each in spec.get("imagePullSecrets", ()) if each["name"].startswith("run-id")]
        assert all(("Secret", each) in there for each in own)
        names = {volume["name"] for volume in spec["volumes"]}
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths))
            assert {mount["name"] for mount in container["volumeMounts"]} <= names


def test_nothing_shown_holds_a_secret() -> None:
    for path in GOLDEN.iterdir():
        assert "hunter2" not in path.read_text()
    for each in documents("everything"):
        assert "data" not in each or each["kind"] != "Secret"


def test_a_task_is_shown_by_its_pod_alone() -> None:
    case = CASES["ps-worker-gpus"]
    (only,) = plan_manifests.requests(case.plan, case.options, Task("worker", 3))
    pod = yaml.safe_load(only.command)
    assert pod["metadata"]["name"] == "run-id-a0-worker-3"
    assert only.title == "# the pod of worker:3"
