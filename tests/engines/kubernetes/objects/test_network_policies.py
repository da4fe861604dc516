"""Who may reach the pods of a run."""

from __future__ import annotations

from typing import Any

from kedge.engines.base import Task
from kedge.engines.kubernetes.objects.driver_job import driver_job
from kedge.engines.kubernetes.objects.network_policies import network_policies
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions

from ..jobs import planned, role
from .test_task_pod import OWNER, PLACE

PLAN = planned({"worker": role(2, 1, 100)})
TASK = task_pod(PLAN, Task("worker", 0), 0, 0, KubernetesOptions(), PLACE)["metadata"]["labels"]
DRIVER = driver_job(OWNER, KubernetesOptions(), "image")["spec"]["template"]["metadata"]["labels"]


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    found: dict[str, str] = selector["podSelector"]["matchLabels"]
    return found.items() <= labels.items()


def test_without_the_setting_there_are_none() -> None:
    assert network_policies(OWNER, KubernetesOptions()) == []


def test_all_pods_of_a_run_may_receive_from_each_other_and_from_nobody_else() -> None:
    (policy,) = network_policies(OWNER, KubernetesOptions(network_policy="ingress"))
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress"], "what they send is as free as before"
    ((peers,),) = (rule["from"] for rule in spec["ingress"])
    for pod in (TASK, DRIVER):
        assert selects(spec, pod)
        assert selects(peers, pod)
    others = driver_job(OWNER._replace(name="other"), KubernetesOptions(), "image")["spec"]["template"]["metadata"]
    assert not selects(peers, others["labels"])


def test_with_both_they_reach_each_other_and_dns_and_the_driver_the_api_server() -> None:
    run, driver = (policy["spec"] for policy in network_policies(OWNER, KubernetesOptions(network_policy="both")))
    assert run["policyTypes"] == ["Ingress", "Egress"]
    assert [rule.get("to") for rule in run["egress"]] == [run["ingress"][0]["from"], None]
    assert {(each["protocol"], each["port"]) for each in run["egress"][1]["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert selects(driver, DRIVER)
    assert not selects(driver, TASK), "tasks have no business with the API server"
    assert [each["port"] for each in driver["egress"][0]["ports"]] == [443, 6443]
