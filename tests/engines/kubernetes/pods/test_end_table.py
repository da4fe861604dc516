"""Every way in which a pod ends has a test, on a real cluster where one can be made to do it; and every kind of end is
in the table of docs/kubernetes.md."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.cluster.base import EndKind
from kedge.engines.cluster.task_ends import KINDS
from kedge.engines.kubernetes.pods import kinds

ROOT = Path(__file__).parents[4]
REAL, FAKE, PODS = "tests/kubernetes", "tests/engines/kubernetes/in_driver", "tests/engines/kubernetes/pods"
OF_1_20 = f"{PODS}/test_pod_end.py::test_pods_of_a_real_cluster_of_1_20"
OTHERS = f"{PODS}/test_pod_end.py::test_pods_of_other_clusters"
FROM_OUTSIDE = f"{REAL}/test_pod_ends.py::test_each_end_from_outside_has_its_cause"
PREEMPTED = f"{REAL}/test_pod_ends.py::test_a_pod_that_is_preempted_is_tried_again"
SILENT = f"{REAL}/test_node_ends.py::test_a_node_that_does_not_answer_is_no_end_until_the_cluster_says_so"
DRAINED = f"{REAL}/test_node_ends.py::test_a_drained_node_ends_tasks_and_the_driver_and_all_go_on_elsewhere"
WAITS = f"{REAL}/test_waiting_pods.py::test"

# What ends a pod, or keeps it from running, and where that is tried. Those in tests/kubernetes run on a real cluster,
# of Kubernetes 1.20 with version 1 of control groups; the others with pods as such a cluster really had them, or as the
# documentation of later ones describes them.
TESTS = {
    "the command ends": (f"{REAL}/test_jobs.py::test_a_job_runs_to_its_end", OF_1_20),
    "a process is killed for lack of memory": (FROM_OUTSIDE,),
    "the whole container is killed for lack of memory": (OF_1_20, OTHERS),
    "the scheduler preempts it": (PREEMPTED, OTHERS),
    "its node is drained": (DRAINED, OTHERS),
    "the eviction API": (FROM_OUTSIDE, OTHERS),
    "node pressure": (OTHERS,),
    "node shutdown": (OTHERS,),
    "it exceeds a limit of its own volumes": (FROM_OUTSIDE,),
    "it exceeds its limit of ephemeral storage": (OF_1_20,),
    "its node does not answer": (
        SILENT, f"{PODS}/test_pod_end.py::test_a_pod_on_a_lost_node_has_not_ended_until_it_is_removed",
    ),
    "kedge removes the pod of such a node by force": (
        f"{FAKE}/test_driver_losses.py::test_a_lost_node_is_waited_for_and_then_its_pod_is_removed_by_force",
        f"{PODS}/test_pod_end.py::test_a_pod_that_was_removed_by_force_may_still_run",
    ),
    "Kueue preempts it": (OTHERS,),
    "somebody deletes it": (
        FROM_OUTSIDE, f"{REAL}/test_jobs.py::test_a_pod_that_somebody_deletes_is_a_transient_failure",
    ),
    "it exits with 0 when it is deleted or evicted": (OF_1_20, OTHERS),
    "its node does not admit it": (OF_1_20, OTHERS),
    "the pod's own deadline": (OF_1_20,),
    "its image is missing": (f"{WAITS}_an_image_comes_from_a_registry_and_one_that_it_lacks_fails",),
    "other errors of images": (f"{PODS}/test_waiting.py::test_pods_of_a_real_cluster_of_1_20",),
    "no node can take it": (f"{WAITS}_a_task_that_no_node_can_take_gives_up_and_is_tried_again_later",),
    "a quota is used up": (f"{WAITS}_a_quota_is_waited_for",),
    "a limit of the namespace": (f"{WAITS}_what_a_namespace_does_not_allow_fails_at_once",),
    "the driver has no rights": (
        f"{REAL}/test_rights.py::test_that_the_driver_has_no_rights_is_said_and_when_it_has_them_the_job_runs",
    ),
    "the init container fails": (OF_1_20, OTHERS),
    "the agent ends": (OF_1_20,),
}  # fmt: skip


@pytest.mark.parametrize("what", TESTS)
def test_every_end_is_tried(what: str) -> None:
    for test in TESTS[what]:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], test


def test_every_kind_of_end_is_in_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [kind for kind in vars(kinds).values() if isinstance(kind, EndKind)] + list(KINDS.values())
    shown = [kind for _, kind in _documented(monkeypatch).ENDS]
    # On Slurm only, where jobs are cancelled.
    assert {kind for kind in known if kind.cause != "job_cancelled"} == set(shown)
    assert len(shown) == len(set(shown))


def _documented(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    spec = importlib.util.find_spec("pod_ends")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pod_ends", module)
    spec.loader.exec_module(module)
    return module
