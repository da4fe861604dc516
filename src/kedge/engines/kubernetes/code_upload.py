"""Sends the code of a job to its driver, where it is too large for ConfigMaps. There it comes to the site's volume, or
to one of the driver alone: so there is one way for both, and the driver knows when all of it is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.objects import code_pieces, driver_job, labels, pod_paths
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.pods import driver_problems
from kedge.errors import CannotRun

LARGEST = 1 << 30  # bytes of the archive
_BUSYBOX = f"{pod_paths.IMAGE_BUNDLE}/shell/busybox"
_TAKE = (
    '"$0" mkdir -p "$1" && "$0" head -c "$3" > "$1/new" && [ "$("$0" stat -c %s "$1/new")" = "$3" ] '
    '&& "$0" mv "$1/new" "$1/$2"'
)
_START_SEC = 900.0  # for the driver's node and image
_LOOK_SEC = 0.5
_QUIET_SEC = 5.0  # then the user hears what it waits for, and again when that changes
_TRIES = 5
_BLOCK = 1 << 20


def send(api: KubernetesApi, names: RunNames, archive: bytes, say: Callable[[str], object]) -> None:
    """Send the archive as soon as the driver runs. `say` tells the user what it waits for. CannotRun: it does not
    start, or cannot take it."""
    end, tries = time.monotonic() + _START_SEC, 0
    size, told, look_at = f"{len(archive) / (1 << 20):.0f} MiB", "", time.monotonic() + _QUIET_SEC
    while True:
        pods, _ = api.list("Pod", labels.of_component(names.name, labels.DRIVER))
        if running := next(filter(_is_running, pods), None):
            try:
                return _send_to(api, running["metadata"]["name"], names.name, archive)
            except ApiError as error:  # its pod is being replaced, or the connection broke
                tries += 1
                if tries == _TRIES:
                    raise CannotRun(f"the code of the job cannot be sent to its driver: {error}") from None
        elif look_at <= time.monotonic() < end:
            look_at = time.monotonic() + _QUIET_SEC
            if (why := _why_not(api, names, pods)) != told:
                told = why
                say(f"the code ({size}) is sent to the job's driver as soon as that runs: {why}")
        elif time.monotonic() > end:
            raise CannotRun(
                f"the driver of the job, to which its code is sent, has not started for {_START_SEC / 60:g} minutes: "
                f"{_why_not(api, names, pods)}"
            )
        time.sleep(_LOOK_SEC)


def _is_running(pod: dict[str, Any]) -> bool:
    states = pod.get("status", {}).get("containerStatuses") or ()
    return any("running" in each.get("state", {}) for each in states) and not pod["metadata"].get("deletionTimestamp")


def _why_not(api: KubernetesApi, names: RunNames, pods: list[dict[str, Any]]) -> str:
    job = api.get("Job", names.driver)
    try:
        of_job, of_pod = ([] if each is None else api.events_of(each["metadata"]["uid"]) for each in (job, *pods[:1]))
    except (ApiError, ValueError):
        of_job = of_pod = []
    return driver_problems.why_not_running(job, pods, of_job, of_pod) or "nothing says why"


def _send_to(api: KubernetesApi, pod: str, name: str, archive: bytes) -> None:
    folder = f"{pod_paths.CODE_VOLUME}/{code_pieces.folder(name)}"
    argv = (_BUSYBOX, "sh", "-c", _TAKE, _BUSYBOX, folder, code_pieces.ARCHIVE, str(len(archive)))
    said = b""
    with api.exec(pod, driver_job.CONTAINER, argv, stdin=True) as stream:
        for at in range(0, len(archive), _BLOCK):
            stream.write(archive[at : at + _BLOCK])
        while frame := stream.read():
            said += frame.data
    if stream.exit_code:
        why = said.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {stream.exit_code}"
        raise CannotRun(f"the driver of the job cannot keep its code: {why}")
