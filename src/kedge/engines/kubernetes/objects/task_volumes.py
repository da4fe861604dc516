"""The volumes of a task pod, and where its containers mount them."""

from __future__ import annotations

from kedge.contract import JOB_DIR, OUTPUT_DIR
from kedge.engines.base import TaskAttempt
from kedge.engines.kubernetes.objects import code_pieces, pod_paths, storages
from kedge.engines.kubernetes.objects.names import RunNames, token_key
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.objects.quantities import memory
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.light.types import Any, NamedTuple
from kedge.plan.model import Plan, RolePlan

DEFAULT_SHM_MB = 512  # OpenPAI's
_READABLE = 0o444  # the container that mounts the token runs as any user, and nothing else is in it

Part = dict[str, Any]


class PodVolumes(NamedTuple):
    """The volumes of a pod, and the mounts of its containers."""

    volumes: list[Part]
    prepare: list[Part]
    app: list[Part]
    agent: list[Part]


def of(plan: Plan, attempt: TaskAttempt, options: KubernetesOptions, place: PodPlace) -> PodVolumes:
    """Those of a task attempt. CannotRun: a storage of the job cannot be mounted."""
    role = plan.role(attempt.task.role)
    names = RunNames(place.owner.name)
    all_of_pod = mount("pai", pod_paths.PAI)
    secrets = mount("secrets", pod_paths.SECRETS)
    agents = mount("agent", pod_paths.AGENT_FOLDER)
    found = PodVolumes(
        volumes=[
            {"name": "pai", "emptyDir": {}},
            {"name": "secrets", "emptyDir": {"medium": "Memory"}},
            {"name": "agent", "emptyDir": {}},
            _token(names, attempt),
            {"name": "address", "configMap": {"name": names.address}},
            _shm(role),
        ],
        prepare=[all_of_pod, agents],
        app=[all_of_pod, secrets, mount("dshm", "/dev/shm")],  # noqa: S108  (of the task's own container)
        agent=[
            all_of_pod,
            secrets,
            agents,
            mount("token", pod_paths.TOKEN_FOLDER, read_only=True),
            mount("address", pod_paths.ADDRESS_FOLDER, read_only=True),
        ],
    )
    _add_code(found, role, options, place)
    _add_outputs(found, attempt, options, place)
    for volume, storage in storages.of(plan, options):
        _add(found, volume)
        found.app.append(storage)
    return found


def _add(found: PodVolumes, volume: Part) -> str:
    """Add a volume unless it is there; its name."""
    if volume not in found.volumes:
        found.volumes.append(volume)
    return str(volume["name"])


def mount(volume: str, path: str, *, read_only: bool = False, below: str = "") -> Part:
    """A mount of a volume, or of the folder `below` in it."""
    more = ({"readOnly": True} if read_only else {}) | ({"subPath": below} if below else {})
    return {"name": volume, "mountPath": path, **more}


def kept_folder(name: str) -> str:
    """The folder of a run on the site's `outputs_volume`. What is in it has the paths that it would have in a run
    folder."""
    return f"{name}.outputs"


def outputs_folder(name: str, attempt: TaskAttempt) -> str:
    """Where the outputs of a task attempt are on the site's `outputs_volume`."""
    (role, index), job_attempt, task_attempt = attempt
    retry = f".{task_attempt}" if task_attempt else ""
    return f"{kept_folder(name)}/attempt-{job_attempt}/{role}-{index}{retry}/{OUTPUT_DIR}"


def job_folder(name: str) -> str:
    """Where `$KEDGE_JOB_DIR` of a run is on the site's `outputs_volume`."""
    return f"{kept_folder(name)}/{JOB_DIR}"


def _token(names: RunNames, attempt: TaskAttempt) -> Part:
    item = {"key": token_key(*attempt.task), "path": pod_paths.TOKEN_KEY}
    secret = {"secretName": names.tokens(attempt.job_attempt), "items": [item], "defaultMode": _READABLE}
    return {"name": "token", "secret": secret}


def _shm(role: RolePlan) -> Part:
    return {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": memory(role.shm_mb or DEFAULT_SHM_MB)}}


def _add_code(found: PodVolumes, role: RolePlan, options: KubernetesOptions, place: PodPlace) -> None:
    """Only the init container sees it, and only that of a role which starts in it."""
    if not role.code or not (place.code_pieces or place.code_on_volume):
        return
    name, below = place.owner.name, ""
    if place.code_on_volume:
        volume, below = _add(found, storages.claim(str(options.code_volume))), code_pieces.folder(name)
    else:
        volume = _add(found, code_pieces.volume(name, place.code_pieces))
    found.prepare.append(mount(volume, pod_paths.CODE_PIECES, read_only=True, below=below))


def _add_outputs(found: PodVolumes, attempt: TaskAttempt, options: KubernetesOptions, place: PodPlace) -> None:
    """Only the task sees them: the agent sends nothing of them."""
    if not options.outputs_volume:
        return
    volume = _add(found, storages.claim(options.outputs_volume))
    outputs = mount(volume, pod_paths.OUTPUT, below=outputs_folder(place.owner.name, attempt))
    found.app.extend([outputs, mount(volume, pod_paths.JOB_FOLDER, below=job_folder(place.owner.name))])
