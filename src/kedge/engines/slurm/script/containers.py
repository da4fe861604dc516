"""How a step runs its agents in containers, on clusters that have pyxis or Apptainer. Pure.

The run folder, the bundle and the folders of storages have the same paths inside as outside. The storages are also at
their mount paths.
"""

from __future__ import annotations

from collections.abc import Iterator

from kedge.engines.slurm.options import APPTAINER, PYXIS, SlurmOptions
from kedge.image_names import split_registry, without_tag
from kedge.plan.model import Plan, RolePlan
from kedge.resolve.model import Mount

# What an agent reads of Slurm's variables must not come from the image.
_VARIABLES = ("SLURM_PROCID", "SLURMD_NODENAME")
_ADDRESS = "://"


def srun_options(plan: Plan, role: RolePlan, options: SlurmOptions, folders: tuple[str, ...]) -> Iterator[str]:
    """The options of srun that make pyxis start a container for each task. `folders` are mounted as they are."""
    if options.container != PYXIS:
        return
    yield f"--container-image={pyxis_image(role)}"
    yield f"--container-mounts={','.join(_mounts(plan, folders, ''))}"
    yield f"--container-workdir={folders[0]}"
    yield f"--container-env={','.join(_VARIABLES)}"
    yield "--no-container-mount-home"
    yield "--no-container-entrypoint"


def program(plan: Plan, role: RolePlan, options: SlurmOptions, folders: tuple[str, ...]) -> Iterator[str]:
    """The beginning of the command line of each task, if Apptainer runs it. `folders` are mounted as they are."""
    if options.container != APPTAINER:
        return
    yield from ("apptainer", "exec", "--no-home", "--writable-tmpfs")
    if role.resources.gpu:
        yield "--nv"
    for mount in _mounts(plan, folders, ":rw"):
        yield from ("--bind", mount)
    yield from ("--pwd", folders[0])
    yield apptainer_image(role)


def pyxis_image(role: RolePlan) -> str:
    """The image as enroot writes it: a `#` follows the registry."""
    registry, rest = split_registry(_pinned(role))
    return f"{registry}#{rest}" if registry else rest


def apptainer_image(role: RolePlan) -> str:
    """The image as Apptainer writes it."""
    return role.image if _ADDRESS in role.image or role.image.startswith("/") else f"docker://{_pinned(role)}"


def _pinned(role: RolePlan) -> str:
    digest = role.pin or ""
    return f"{without_tag(role.image)}@{digest}" if digest.startswith("sha256:") else role.image


def _mounts(plan: Plan, folders: tuple[str, ...], writable: str) -> Iterator[str]:
    """Each mount as `SOURCE:TARGET:MODE`, none twice."""
    found = dict.fromkeys(f"{folder}:{folder}{writable}" for folder in folders)
    for mount in plan.mounts:
        if mount.folder:
            mode = ":ro" if mount.read_only else writable
            found |= dict.fromkeys(f"{mount.folder}:{target}{mode}" for target in _targets(mount))
    yield from found


def _targets(mount: Mount) -> tuple[str, ...]:
    return (mount.folder or "", mount.path)
