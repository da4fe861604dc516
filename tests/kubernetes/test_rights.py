"""Rights in the namespace that are missing: of the user, and of the driver's account."""

from __future__ import annotations

from kedge.testing.wait import wait_until

from .kedge_on_kubernetes import CLEANING_SEC, OnKubernetes
from .namespaces import ACCOUNT


def test_what_a_user_lacks_is_named_before_anything_is_created(kedge: OnKubernetes) -> None:
    rule = {"op": "replace", "path": "/rules", "value": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]}
    kedge.namespace.kubectl("patch", "role", "kedge-user", "--type=json", f"--patch={[rule]}".replace("'", '"'))
    said = kedge("run", kedge.job("true"), code=4).stderr
    assert f"you may not run jobs in the namespace {kedge.namespace.name}" in said
    assert "you lack create configmaps, patch configmaps, delete configmaps, create secrets, create services" in said
    assert "can give you the Role kedge-user: kedge kubernetes setup" in said
    assert kedge.namespace.get("configmap", labels={"app.kubernetes.io/managed-by": "kedge"}) == []


def test_that_the_driver_has_no_rights_is_said_and_when_it_has_them_the_job_runs(kedge: OnKubernetes) -> None:
    kedge.namespace.kubectl("delete", "rolebinding", ACCOUNT)
    kedge("run", "--detach", kedge.job("true"))
    shown = kedge.wait_for_show("its driver ended: its account system:serviceaccount:", "may not get configmaps")
    assert "`kedge kubernetes setup` prints what the namespace needs" in shown
    kedge.namespace.allow()
    assert "succeeded" in kedge("wait", kedge.only_run().name).stdout


def test_a_job_whose_driver_has_lost_its_rights_can_be_killed(kedge: OnKubernetes) -> None:
    kedge("run", "--detach", kedge.job("echo here; sleep 600"))
    kedge.wait_for_log("here")
    kedge.namespace.kubectl("delete", "rolebinding", ACCOUNT)
    run = kedge.only_run().name
    done = kedge("stop", "--kill", run)
    assert "its driver has not acted within 30 s, so all that the cluster had of it was deleted" in done.stderr
    assert done.stdout == f"{run} stopped\n"
    assert kedge.task_log() == "here\n"
    assert kedge.leftovers() == []
    wait_until(lambda: kedge.pods("driver") == [], CLEANING_SEC, "the end of the driver")
