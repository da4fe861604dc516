"""The archive of the job's code in its driver, which the submitter sends there if it is too large for ConfigMaps."""

from __future__ import annotations

import time
from pathlib import Path

from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.in_driver import leaving
from kedge.engines.kubernetes.in_driver.driver_pod import DriverPod
from kedge.engines.kubernetes.objects import code_pieces, labels, pod_paths
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan

_LOOK_SEC, _ASK_SEC = 0.2, 2.0
_QUIET_SEC = 600.0  # after so long without a byte the submitter is gone
_MIB = 1 << 20


def needs_archive(plan: Plan, place: PodPlace) -> bool:
    """Whether the code of a job is not in ConfigMaps."""
    return not place.code_pieces and any(role.code for role in plan.roles)


def awaited(here: DriverPod, top: str = pod_paths.CODE_VOLUME) -> Path:
    """The archive, once it is there. CannotRun: it does not come, or is lost."""
    path = Path(top, code_pieces.folder(here.owner.name), code_pieces.ARCHIVE)
    _wait(here, path)
    return path


def note(archive: Path, options: KubernetesOptions) -> str:
    """What the user should know about where the archive is; empty if nothing."""
    if options.code_volume:
        return ""
    return (
        f"the job's code has {archive.stat().st_size / _MIB:.0f} MiB, and this site has no volume for code, so it is "
        "in the driver: if the node of the driver is lost, the job ends"
    )


def _wait(here: DriverPod, path: Path) -> None:
    size, heard = -1, time.monotonic()
    ask = 0.0
    while not path.exists():
        here.lease.check()
        now, had = time.monotonic(), size
        size = _size(path.with_name("new"))
        heard = now if size != had else heard
        if now >= ask:
            ask = now + _ASK_SEC
            if not _is_being_submitted(here) and not path.exists():
                raise CannotRun(
                    "the job's code, which was on the node of an earlier driver, is lost with that: run the job again; "
                    "a site with a volume for code (engines.kubernetes.code-volume) keeps it"
                )
        if now > heard + _QUIET_SEC:
            raise CannotRun("the job's code has not been sent to its driver: run the job again")
        time.sleep(_LOOK_SEC)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _is_being_submitted(here: DriverPod) -> bool:
    while True:
        here.lease.check()
        try:
            anchor = here.api.get("ConfigMap", here.names.anchor)
            return bool(anchor and labels.INCOMPLETE in (anchor["metadata"].get("labels") or {}))
        except ApiError as error:
            leaving.wait_for_api(error)
