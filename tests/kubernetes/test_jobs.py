"""Jobs that run on a cluster as it should be."""

from __future__ import annotations

from .kedge_on_kubernetes import OnKubernetes


def test_a_job_runs_to_its_end(kedge: OnKubernetes) -> None:
    done = kedge("run", kedge.job("echo hello from $(hostname)"))
    assert "Succeeded" in done.stdout
    assert kedge.task_log() == "hello from worker-0\n"
    assert kedge.leftovers() == []
