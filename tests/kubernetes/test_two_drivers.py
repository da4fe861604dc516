"""Two drivers at once: only one of them acts."""

from __future__ import annotations

import signal
from typing import Any

from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .driver_kills import DriverKiller, signalled
from .kedge_on_kubernetes import OnKubernetes
from .namespaces import UNTIL_TOLD
from .pods_seen import PodsSeen
from .test_driver_lost import DECIDED, LOGS, ROLES, decided, logs


def test_of_two_drivers_one_acts_though_it_was_suspended_for_long(kedge: OnKubernetes) -> None:
    """A second pod of the driver's Job is made by hand. The first driver is suspended until the second one has its
    Lease, and then goes on."""
    killer = DriverKiller(kedge.namespace)
    go = f"{UNTIL_TOLD} sleep 0.2; done"
    roles = {name: {**role, "commands": [*role["commands"], go]} for name, role in ROLES.items()}
    with PodsSeen(kedge.namespace) as seen:
        process = kedge.start("run", kedge.job([], roles=roles, extras={"gangAllocation": False}))
        wait_until(lambda: len(kedge.runs()) == 1 and killer.has_recorded(kedge.only_run(), "barrier-passed"), TIMEOUT)
        (first,) = kedge.pods("driver")
        second = _copy(kedge, first)
        assert _holder(kedge) == first["metadata"]["uid"]
        wait_until(
            lambda: "another driver controls the run" in _driver_log(kedge, second), TIMEOUT, "the second driver"
        )
        assert signalled(first["metadata"]["uid"], signal.SIGSTOP)
        wait_until(lambda: _holder(kedge) == kedge.namespace.pod(second)["metadata"]["uid"], TIMEOUT, "its turn")
        assert signalled(first["metadata"]["uid"], signal.SIGCONT)
        wait_until(lambda: _restarts(kedge, first["metadata"]["name"]) == 1, TIMEOUT, "the first driver has left")

        def go_on() -> bool:  # the pod of a retry may come late
            for task in kedge.pods():
                kedge.namespace.let_go_on(task["metadata"]["name"], check=False)
            return process.poll() is not None

        wait_until(go_on, TIMEOUT, "the end of the job")
        said = kedge.finish(process, 0)
    print(said)
    run = kedge.only_run()
    assert decided(run) == DECIDED
    assert logs(run) == LOGS
    assert set(seen.of_tasks(run.name).values()) == {1}
    killer.close()
    assert kedge.leftovers() == []


def _copy(kedge: OnKubernetes, pod: dict[str, Any]) -> str:
    """Another pod with the spec of this one, which its Job does not know. Returns its name."""
    head = pod["metadata"]
    kept = {key: value for key, value in head["labels"].items() if key not in ("controller-uid", "job-name")}
    anchor = kedge.namespace.get("configmap", kedge.only_run().name)["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": anchor["name"], "uid": anchor["uid"]}
    name = f"{kedge.only_run().name}-driver-second"
    metadata = {"name": name, "labels": kept, "annotations": head["annotations"], "ownerReferences": [owner]}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    kedge.namespace.cluster.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, namespace=kedge.namespace.name
    )
    return name


def _driver_log(kedge: OnKubernetes, pod: str) -> str:
    return kedge.namespace.kubectl("logs", pod, check=False)


def _holder(kedge: OnKubernetes) -> str:
    """The uid of the pod that has the Lease."""
    (lease,) = kedge.namespace.get("lease")
    return str(lease["spec"]["holderIdentity"]).partition("/")[0]


def _restarts(kedge: OnKubernetes, pod: str) -> int:
    return int(kedge.namespace.pod(pod)["status"]["containerStatuses"][0]["restartCount"])
