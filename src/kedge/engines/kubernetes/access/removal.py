"""Removes the folders of an ended run from the volumes of its site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kedge.engines.kubernetes.access import reader_pod
from kedge.engines.kubernetes.access.file_source import BUSYBOX, ProgramOutput
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.objects import code_pieces, driver_job, pod_paths, task_volumes
from kedge.errors import CannotRun

# Prints the owners of what cannot be removed.
_REMOVE = '"$0" rm -rf "$@"; "$0" find "$@" -exec "$0" stat -c %u "{}" "+" 2>/dev/null | "$0" sort -u'
_FORBIDDEN = 403


def remove(found: SubmittedRun, job: dict[str, Any], anchor: dict[str, Any]) -> None:
    """Remove what a run has on volumes. CannotRun: not all of it can be removed."""
    volumes = {name: path for name, path in _folders(found) if _is_there(found, job, name)}
    if not volumes:
        return
    others = _try(found, job, anchor, volumes)
    if others:  # they may remove what is theirs; what is left then is the driver's
        for user in sorted(others - {0}):
            _try(found, job, anchor, volumes, user)
        others = _try(found, job, anchor, volumes)
    if others:
        claims = ", ".join(_claim(job, name) for name in volumes)
        raise CannotRun(
            f"not all files of {found.run.id} on {claims} can be removed, since they belong to the users "
            f"{', '.join(map(str, sorted(others)))}; kubectl delete configmap {found.names.anchor} "
            f"-n {found.api.namespace} removes the rest of the run"
        )


def _folders(found: SubmittedRun) -> Iterator[tuple[str, str]]:
    """The volumes of a driver, and the run's folders there."""
    yield driver_job.RUN, f"{pod_paths.JOBS}/{found.run.id}"
    yield driver_job.CODE, f"{pod_paths.CODE_VOLUME}/{code_pieces.folder(found.names.name)}"
    yield driver_job.OUTPUTS, f"{pod_paths.OUTPUTS_VOLUME}/{task_volumes.kept_folder(found.names.name)}"


def _is_there(found: SubmittedRun, job: dict[str, Any], volume: str) -> bool:
    """Whether a volume of the driver is a claim that exists."""
    claim = _claim(job, volume)
    try:
        return bool(claim) and found.api.get("PersistentVolumeClaim", claim) is not None
    except ApiError as error:
        if error.status == _FORBIDDEN:  # most users may not look
            return True
        raise


def _claim(job: dict[str, Any], volume: str) -> str:
    return str(reader_pod.volume(job, volume).get("persistentVolumeClaim", {}).get("claimName", ""))


def _try(
    found: SubmittedRun, job: dict[str, Any], anchor: dict[str, Any], volumes: dict[str, str], user: int | None = None
) -> set[int]:
    """Remove what can be removed. The owners of the rest."""
    with reader_pod.started(found, job, anchor, tuple(volumes), user) as name:
        argv = (BUSYBOX, "sh", "-c", _REMOVE, BUSYBOX, *volumes.values())
        with found.api.exec(name, driver_job.CONTAINER, argv, stdin=False) as stream:
            said = ProgramOutput(stream, f"the volume of {found.run.id}")
            text = b"".join(said.all())
            said.check()
    return set(map(int, text.split()))
