"""The scheduler's messages in words."""

from __future__ import annotations

import pytest

from kedge.engines.kubernetes.pods.scheduler_messages import sentence

TOLERATE = "if it may run there, have the site add the taint to `tolerations`"
LOOK = "have the site's administrator look at them"
NEW = (
    "0/4 nodes are available: 1 Insufficient memory, 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint "
    "{node-role.kubernetes.io/control-plane: }, 1 node(s) were unschedulable. preemption: 0/4 nodes are available: "
    "2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
)
TAINTED = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had taint {gpu: only}, that the pod didn't tolerate."
SILENT = "0/1 nodes are available: 1 node(s) had taint {node.kubernetes.io/unreachable: }, that the pod didn't tolerate"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (NEW, "none of 4 nodes can take it: 1 has too little memory free, 1 has too little nvidia.com/gpu free, 1 has "
         "the taint node-role.kubernetes.io/control-plane, which it does not tolerate, 1 is closed for new pods; wait "
         "until others end, or ask for less memory; wait until others end, or ask for less nvidia.com/gpu; "
         f"{TOLERATE}; have the site's administrator open them (kubectl uncordon)"),
        (TAINTED, "none of 2 nodes can take it: 1 has too little CPU free, 1 has the taint gpu=only, which it does not "
         f"tolerate; wait until others end, or ask for less CPU; {TOLERATE}"),
        (SILENT, f"the only node cannot take it: 1 does not answer; {LOOK}"),
        ("0/3 nodes are available: 1 Too many pods, 2 node(s) didn't match Pod's node affinity/selector.",
         "none of 3 nodes can take it: 1 holds as many pods as allowed, 2 lack labels that it asks for; wait until "
         "others end; check --kubernetes node-selector and the site's pod-patch against the labels of the nodes"),
        ("0/3 nodes are available: 3 something quite new.", "none of 3 nodes can take it: 3 something quite new"),
        ('persistentvolumeclaim "x" not found', 'persistentvolumeclaim "x" not found'),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
         "none of 3 nodes can take it: all find one of its volumes not bound yet; have the site's administrator look "
         "at its PersistentVolumeClaims (kubectl get pvc)"),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
    ],
)  # fmt: skip
def test_messages(message: str, words: str) -> None:
    assert sentence(message) == words
