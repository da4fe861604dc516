"""The environment variables known before tasks are placed: those that OpenPAI puts into the pod specification."""

from __future__ import annotations

from collections.abc import Mapping

from kedge.contract import converted_role
from kedge.light.hashlib import md5
from kedge.resolve.model import ResolvedJob
from kedge.spec.model import TaskRole


def job_environment(resolved: ResolvedJob) -> dict[str, str]:
    """The variables that are the same for every task of the job: those of the OpenPAI manual, and undocumented ones
    that scripts use."""
    job = resolved.job
    framework = f"{resolved.user}~{job.name}"
    roles = tuple(job.task_roles.values())
    role_list = ",".join(role.name for role in roles)
    task_count = str(sum(role.instances for role in roles))
    values = {
        "PAI_FRAMEWORK_NAME": framework,
        "PAI_JOB_NAME": framework,
        "PAI_USER_NAME": resolved.user,
        "PAI_USERNAME": resolved.user,
        "PAI_DEFAULT_FS_URI": "",
        "PAI_VIRTUAL_CLUSTER": job.virtual_cluster,
        "PAI_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_TASK_ROLES_NUM": str(len(roles)),
        "PAI_JOB_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_TASK_ROLE_LIST": role_list,
        "PAI_JOB_TASK_ROLE_LIST": role_list,
        "PAI_TASKS_NUM": task_count,
        "PAI_JOB_TASK_COUNT": task_count,
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": framework_name(framework),
        "FC_CONFIGMAP_NAME": f"{framework_name(framework)}-attempt",
    }
    for role in roles:
        values |= _about_role(role)
    return values


def role_environment(role: TaskRole) -> dict[str, str]:
    """The variables that a role adds: its name in both forms, and no GPUs if it requests none."""
    values = {"PAI_CURRENT_TASK_ROLE_NAME": role.name, "FC_TASKROLE_NAME": converted_role(role.name)}
    if role.resources.gpu == 0:
        values["NVIDIA_VISIBLE_DEVICES"] = "none"
    return values


def task_environment(shared: Mapping[str, str], index: int) -> dict[str, str]:
    """The variables that one task adds for its index; `shared` are those of its job and role."""
    return {
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
        "PAI_TASK_INDEX": str(index),
        "FC_TASK_INDEX": str(index),
        "FC_POD_NAME": f"{shared['FC_FRAMEWORK_NAME']}-{shared['FC_TASKROLE_NAME']}-{index}",
    }


def framework_name(framework: str) -> str:
    """The object name of the framework `user~job`: its MD5 in hex, used as a name and not for security."""
    return md5(framework.encode(), usedforsecurity=False).hexdigest()


def _about_role(role: TaskRole) -> dict[str, str]:
    # An unset shmMB counts as 0 here, although 512 is used, because existing scripts expect that.
    # CPUs are whole numbers here for the same reason.
    amounts = (role.resources.gpu, role.resources.whole_cpus, role.resources.memory_mb, role.shm_mb or 0)
    return {
        f"PAI_TASK_ROLE_TASK_COUNT_{role.name}": str(role.instances),
        f"PAI_RESOURCE_{role.name}": ",".join(map(str, amounts)),
        f"PAI_MIN_FAILED_TASK_COUNT_{role.name}": str(role.completion.min_failed),
        f"PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}": str(role.completion.min_succeeded),
    }
