"""Whether a run can begin with a copy of the job folder of an earlier one (`kedge rerun --with-job-dir`). Its driver
copies it (in_driver.outputs_volume), so both must be on the same volume."""

from __future__ import annotations

from typing import Any

from kedge.engines.kubernetes.access import kept_outputs
from kedge.engines.kubernetes.access.submitted import ENGINE, SubmittedRun
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.runs.folder import Run
from kedge.runs.output_lists import OUTPUTS_CLAIM


def check(run: Run, options: KubernetesOptions, api: KubernetesApi) -> None:
    """CannotRun: it cannot, and why."""
    info = run.info()
    if info.with_job_dir and info.rerun_of and (why := _why_not(Run(run.path.with_name(info.rerun_of)), options, api)):
        raise CannotRun(f"--with-job-dir: {why}; leave the option out, and copy what you need with kedge cp")


def _why_not(old: Run, options: KubernetesOptions, api: KubernetesApi) -> str:
    facts = old.cluster.object(old.cluster.job)
    if not options.outputs_volume:
        return "tasks on Kubernetes have a job folder only where the site names a volume for it (outputs-volume)"
    if facts.get("engine") != ENGINE:
        return f"the job folder of {old.id} is not in a cluster of Kubernetes, and only what is there can be copied"
    where = [facts.get("namespace"), facts.get("server")]
    if where != [api.namespace, api.server]:
        return f"the job folder of {old.id} is in another namespace: {where[0]} of {where[1]}"
    claim = _claim(old, facts)
    if claim != options.outputs_volume:
        of_old = f"on the claim {claim}" if claim else "on no claim"
        return f"the job folder of {old.id} is {of_old}, and that of the new run would be on {options.outputs_volume}"
    return ""


def _claim(old: Run, facts: dict[str, Any]) -> str:
    known = facts.get(OUTPUTS_CLAIM)
    return known if isinstance(known, str) else kept_outputs.claim(SubmittedRun(old).job())
