"""Renders a plan and a placement into the container that will be started. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from kedge.bundle import build
from kedge.bundle.build import Bundle
from kedge.contract import CODE_DIR, DATA_CACHE_DIR, JOB_DIR, LOADER_VARIABLES, OUTPUT_DIR, PAI_HOME, SHELVED, SPEC_FILE
from kedge.engines.base import Task
from kedge.engines.container.api.engine_answers import Facts, LocalImage
from kedge.engines.container.images import pinned_images
from kedge.engines.container.options import DEFAULT_PIDS
from kedge.engines.container.rendering import container_spec
from kedge.engines.container.rendering.container_spec import Bind, ContainerSpec, Volume
from kedge.plan.model import Plan, RolePlan
from kedge.quick_dataclasses import dataclass

PAI = PAI_HOME
BUNDLE = f"{PAI}/kedge"
SHARED = f"{PAI}/shared"  # shared by the tasks of a job attempt
SECRETS = f"{PAI}/secrets"
SCRIPTS = f"{PAI}/scripts"
DATA_CACHE = f"{PAI}/{DATA_CACHE_DIR}"
SNAPSHOT = f"{PAI}/snapshot"  # of the code, for the supervisor to copy
# Below PAI, because mount points can be made there, even if the root of the image is read-only.
OUTPUT = f"{PAI}/{OUTPUT_DIR}"
JOB_FOLDER = f"{PAI}/{JOB_DIR}"
GATE, STATUS = "gate", "status"

DEFAULT_SHM_MB = 512  # OpenPAI's
# Default capabilities of engines that training does not need and that attacks often start with.
DROPPED = ("NET_RAW", "MKNOD", "AUDIT_WRITE", "SETFCAP")
_MIB = 1 << 20
_LONGEST_HOSTNAME = 63


class ContainerOptions(NamedTuple):
    """The submitter's options for all containers; `user` and `userns` are as in ContainerSpec."""

    user: str | None = None
    userns: str | None = None
    pids: int = DEFAULT_PIDS


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """The placement of one task attempt. Paths are those of this machine; the rest is as in ContainerSpec.

    `uid` is unique to the attempt; `code` is the snapshot, which the tasks copy or share; `secrets` are files by their
    name in the container; `storages` mount folders and `volumes`.
    """

    run_id: str
    job_attempt: int
    task_attempt: int
    uid: str
    folder: str
    shared: str
    job_dir: str
    bundle: Bundle
    network: str
    address: str | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    shares_code: bool = False
    cache: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    storages: tuple[Bind, ...] = ()
    volumes: tuple[Volume, ...] = ()
    gpus: tuple[str, ...] = ()
    infiniband: tuple[str, ...] = ()
    options: ContainerOptions = field(default_factory=ContainerOptions)


def render(plan: Plan, task: Task, place: ContainerPlace, image: LocalImage, facts: Facts) -> ContainerSpec:
    """The container of one attempt of a task."""
    role = plan.role(task.role)
    locked = role.infiniband and bool(place.infiniband)
    return ContainerSpec(
        name=container_name(place.run_id, task, place.job_attempt, place.task_attempt),
        image=image.id if role.pin and image.id else pinned_images.reference(role),
        hostname=hostname(task),
        entrypoint=_entrypoint(place),
        environment=_environment(image, place),
        labels=labels(place.run_id, plan.user, task, place.job_attempt, place.task_attempt) | _gpus(place.gpus),
        binds=_binds(role, place),
        tmpfs=(SECRETS,) if place.secrets else (),
        memory=min(role.resources.memory_mb * _MIB, facts.memory) if facts.limits_memory else None,
        cpus=min(role.resources.cpu, facts.cpus) if facts.limits_cpu else None,
        shm=min((role.shm_mb or DEFAULT_SHM_MB) * _MIB, facts.memory),
        network=place.network,
        address=place.address,
        hosts=place.hosts,
        devices=place.infiniband if role.infiniband else (),
        gpus=place.gpus,
        locked_memory=locked,
        user=place.options.user,
        pids=place.options.pids if facts.limits_pids else None,
        dropped=tuple(name for name in DROPPED if name not in role.capabilities),
        added=(*role.capabilities, *(("IPC_LOCK",) if locked else ())),
        security=security(facts),
        mounts=("nosuid", "nodev") if facts.podman else (),  # Docker takes no such options
        userns=place.options.userns,
        volumes=place.volumes,
    )


def security(facts: Facts) -> tuple[str, ...]:
    """The values for `--security-opt`. With SELinux, mounts are not relabelled, since they are the user's own files."""
    return ("no-new-privileges", *(("label=disable",) if facts.selinux else ()))


def container_name(run_id: str, task: Task, job_attempt: int, task_attempt: int) -> str:
    """`kedge-RUN-worker-0`, with `-a1` inserted for a later job attempt, and `.1` appended for a later task attempt."""
    attempt = f"-a{job_attempt}" if job_attempt else ""
    retry = f".{task_attempt}" if task_attempt else ""
    return f"kedge-{run_id}{attempt}-{task.role}-{task.task_index}{retry}"


def hostname(task: Task) -> str:
    """The host name of a task, by which its peers reach it: `worker-0`."""
    return f"{task.role}-{task.task_index}"[-_LONGEST_HOSTNAME:]


def labels(run_id: str, user: str, task: Task, job_attempt: int, task_attempt: int) -> dict[str, str]:
    """The labels of a task's container."""
    return {
        container_spec.JOB: run_id,
        container_spec.USER: user,
        container_spec.ROLE: task.role,
        container_spec.TASK: str(task),
        container_spec.ATTEMPT: f"{job_attempt}.{task_attempt}",
    }


def _gpus(names: tuple[str, ...]) -> dict[str, str]:
    return {container_spec.GPUS: ",".join(name.rpartition("=")[2] for name in names)} if names else {}


def log_folder(uid: str) -> str:
    """TaskSpec.folder in the container."""
    return f"{PAI}/logs/{uid}"


def _entrypoint(place: ContainerPlace) -> tuple[str, ...]:
    options = ("--status", f"{SHARED}/{STATUS}", "--gate", f"{SHARED}/{GATE}")
    return (*build.command(place.bundle, BUNDLE), f"{log_folder(place.uid)}/{SPEC_FILE}", *options)


def _environment(image: LocalImage, place: ContainerPlace) -> dict[str, str]:
    """The variables of the container. The image's own loader settings must not reach the bundle's loader; the runtime
    restores them for the user's command."""
    set_by_image = [name for name in LOADER_VARIABLES if name in image.environment]
    shelved = {SHELVED + name: image.environment[name] for name in set_by_image}
    return {**dict.fromkeys(set_by_image, ""), **shelved, "NVIDIA_VISIBLE_DEVICES": _visible(place.gpus)}


def _visible(gpus: tuple[str, ...]) -> str:
    """NVIDIA_VISIBLE_DEVICES, for engines whose default runtime is NVIDIA's; CUDA images request all GPUs by it."""
    if not gpus:
        return "none"
    return "void" if "=" in gpus[0] else ",".join(gpus)  # with CDI the runtime must do nothing


def _binds(role: RolePlan, place: ContainerPlace) -> tuple[Bind, ...]:
    """The bind mounts in mounting order: outer folders before inner ones."""
    binds = [
        Bind(f"{place.folder}/pai", PAI),
        Bind(place.folder, log_folder(place.uid)),
        Bind(str(place.bundle.path), BUNDLE, read_only=True),
        Bind(place.shared, SHARED, read_only=True),
        Bind(f"{place.folder}/{OUTPUT_DIR}", OUTPUT),
        Bind(place.job_dir, JOB_FOLDER),
    ]
    if place.code and place.shares_code:
        binds.append(Bind(place.code, f"{SCRIPTS}/{role.code}", read_only=True))
    elif place.code:
        binds += [Bind(place.code, SNAPSHOT, read_only=True), Bind(f"{place.folder}/{CODE_DIR}", SCRIPTS)]
    if place.cache:
        binds.append(Bind(place.cache, DATA_CACHE, read_only=True))
    binds += [Bind(source, f"{SECRETS}/{name}", read_only=True) for name, source in place.secrets.items()]
    return (*binds, *place.storages)
