"""The storages of a job as volumes of a pod: claims of the namespace, exports of NFS servers, folders of the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.engines.kubernetes.objects.names import claim_volume, storage_volume
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.light.types import Any
from kedge.plan.model import Plan
from kedge.resolve.model import Mount

_NFS = "nfs"


def check(plan: Plan, options: KubernetesOptions) -> None:
    """CannotRun: a storage of the job cannot be mounted in pods; the error says what can be done."""
    for _ in of(plan, options):
        pass


def of(plan: Plan, options: KubernetesOptions) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """For each mount of a job its volume, which may be that of an earlier one, and the mount in a container.
    CannotRun."""
    for wanted in plan.mounts:
        if not wanted.place:
            continue
        if ":" in wanted.path:
            raise CannotRun(f"storage {wanted.name}: Kubernetes mounts nothing at a path with a colon: {wanted.path}")
        volume = claim(wanted.claim.name) if wanted.claim else _volume(wanted, options)
        yield volume, _mount(wanted, volume["name"])


def claim(name: str) -> dict[str, Any]:
    """The volume that is a PersistentVolumeClaim of the namespace."""
    return {"name": claim_volume(name), "persistentVolumeClaim": {"claimName": name}}


def _mount(wanted: Mount, volume: str) -> dict[str, Any]:
    below = {"subPath": wanted.claim.path} if wanted.claim and wanted.claim.path else {}
    access = {"readOnly": True} if wanted.read_only else {}
    return {"name": volume, "mountPath": wanted.path, **access, **below}


def _volume(wanted: Mount, options: KubernetesOptions) -> dict[str, Any]:
    return {"name": storage_volume(wanted.name), **_source(wanted, options)}


def _source(wanted: Mount, options: KubernetesOptions) -> dict[str, Any]:
    if wanted.remote and wanted.remote.kind == _NFS and not (wanted.remote.options or options.restricted):
        access = {"readOnly": True} if wanted.read_only else {}
        return {"nfs": {"server": wanted.remote.server, "path": wanted.remote.path, **access}}
    on_node = wanted.folder and any(_is_inside(wanted.folder, folder) for folder in options.host_paths)
    if on_node and not options.restricted:
        return {"hostPath": {"path": wanted.folder, "type": "Directory"}}
    raise CannotRun(f"the storage {wanted.name} is {wanted.place}, {_reason(wanted, options)}: {_remedy(wanted)}")


def _reason(wanted: Mount, options: KubernetesOptions) -> str:
    """Why pods cannot mount it."""
    if options.restricted and (wanted.folder or (wanted.remote and wanted.remote.kind == _NFS)):
        return "which pods of the Pod Security standard restricted cannot mount"
    if wanted.remote and wanted.remote.kind == _NFS:
        return f"and pods mount NFS without options ({wanted.remote.options})"
    if wanted.remote:
        return "which pods cannot mount by themselves"
    return "a folder that the site's file does not let pods mount from their nodes (engines.kubernetes.host-paths)"


def _remedy(wanted: Mount) -> str:
    return f"make a PersistentVolumeClaim for it in the namespace and set storages.{wanted.name}.pvc in the site's file"


def _is_inside(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
