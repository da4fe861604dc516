"""Hands a run over to a cluster: creates its objects, the anchor first and the driver's Job last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import Any

from kedge.contract import timestamp
from kedge.engines.kubernetes import archives, code_upload, old_job_folder, refusals
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.objects import code_pieces, driver_job, labels, network_policies, pull_secret, run_objects
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.runs.folder import Run
from kedge.runs.output_lists import OUTPUTS_CLAIM

_ABANDONED_SEC = 3600.0  # an anchor without a Job is removed after this long: no submission takes so long
_AT_ONCE = 4  # objects that are created
_MIB = 1 << 20


class _RefusedObject(CannotRun):
    """The server has refused an object, for sure."""


def submit(run: Run, plan: Plan, options: KubernetesOptions, say: Callable[[str], object]) -> None:
    """Submit a run whose orders are in its folder. CannotRun: the cluster refuses it, with its reason and what to
    change; nothing of it is left then. If this process is killed before the end, no task runs: the Job comes last, and
    after it at most the code, for which the driver waits. `say` tells the user what takes long."""
    if not options.image:
        raise CannotRun("no runtime image is named: set registry or engines.kubernetes.image in the site's file")
    seed, code = archives.seed(run), _code(run)
    api = KubernetesApi.connect(options.kubeconfig, options.context, options.namespace)
    try:
        old_job_folder.check(run, options, api)
        _sweep(api)
        _create_all(api, run, plan, options, seed, code, say)
    finally:
        api.close()


def _code(run: Run) -> bytes:
    """The archive of the job's code. CannotRun: it is too large."""
    try:
        return archives.code(run, code_upload.LARGEST)
    except archives.TooLarge:
        raise CannotRun(
            f"the job's code has more than {code_upload.LARGEST // _MIB} MiB (compressed), which is too much for "
            "a job on Kubernetes: name what the job does not need in .kedgeignore, put data in a storage, or code into "
            "the image"
        ) from None


def _create_all(
    api: KubernetesApi, run: Run, plan: Plan, options: KubernetesOptions, seed: bytes, code: bytes,
    say: Callable[[str], object],
) -> None:  # fmt: skip
    names, files = RunNames.of(run.id), run.cluster
    owner = ObjectOwner(names.name, "", run.id, plan.user, plan.job)
    job: dict[str, Any] = {
        "engine": "kubernetes", "server": api.server, "kubeconfig": api.kubeconfig or None,
        "context": api.context or None, "namespace": api.namespace, "name": names.name, "uid": None,
        "submitted": timestamp(time.time_ns()), "time": time.time(), OUTPUTS_CLAIM: options.outputs_volume or "",
    }  # fmt: skip
    files.write(files.job, job)  # first: it says what may be left if this process is killed
    anchor: dict[str, Any] | None = None
    try:
        anchor = _created(api, _incomplete(run_objects.anchor(owner, plan)))
        owner = owner._replace(uid=anchor["metadata"]["uid"])
        _create_at_once(api, _others(run, plan, options, owner, seed, code))
        _created(api, driver_job.driver_job(owner, options, str(options.image), takes_code=_is_sent(code)))
        files.write(files.job, job | {"uid": owner.uid})
        if _is_sent(code):
            code_upload.send(api, names, code, say)
    except BaseException as error:
        if anchor or not isinstance(error, _RefusedObject):  # a refused anchor may be that of somebody else
            _undo(api, names.anchor, anchor)
        raise
    with suppress(ApiError):  # the next submission does it
        api.patch("ConfigMap", names.anchor, {"metadata": {"labels": {labels.INCOMPLETE: None}}})


def _incomplete(anchor: dict[str, Any]) -> dict[str, Any]:
    anchor["metadata"]["labels"] = {**anchor["metadata"]["labels"], labels.INCOMPLETE: "true"}
    return anchor


def _others(
    run: Run, plan: Plan, options: KubernetesOptions, owner: ObjectOwner, seed: bytes, code: bytes
) -> Iterator[dict[str, Any]]:
    """All other objects but the driver's Job, which needs them."""
    yield run_objects.service(owner)
    yield from network_policies.network_policies(owner, options)
    yield run_objects.driver_secret(owner, seed)
    if pull_secret.is_needed(plan):
        files = run.cluster
        yield pull_secret.pull_secret(owner, plan, files.read(files.secrets)["texts"])
    if not _is_sent(code):
        yield from code_pieces.code_pieces(owner, code)
    yield run_objects.address(owner, {})


def _is_sent(code: bytes) -> bool:
    """Whether the code is too large for ConfigMaps."""
    return len(code) > code_pieces.LARGEST_CODE


def _create_at_once(api: KubernetesApi, objects: Iterable[dict[str, Any]]) -> None:
    """Create objects of which none needs another: each is a write to the cluster's disks. CannotRun: that of the first
    that is refused, when nothing is on its way any more."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        calls = [pool.submit(_created, api, obj) for obj in objects]
    for call in calls:
        call.result()


def _created(api: KubernetesApi, obj: dict[str, Any]) -> dict[str, Any]:
    try:
        return api.create(obj)
    except ApiError as error:
        kind = CannotRun if error.unreachable else _RefusedObject
        raise kind(refusals.explained(error, obj["kind"], api)) from None


def _undo(api: KubernetesApi, name: str, anchor: dict[str, Any] | None) -> None:
    """Delete the anchor, and with it all that it owns. Without an answer to its creation it may exist, too: its name is
    that of this run alone."""
    with suppress(ApiError):
        api.delete("ConfigMap", name, uid=anchor["metadata"]["uid"] if anchor else None)


def _sweep(api: KubernetesApi) -> None:
    """Remove what submitters have left that were killed a good while ago."""
    with suppress(ApiError):
        for anchor in api.list("ConfigMap", {labels.MANAGED_BY: labels.KEDGE, labels.INCOMPLETE: "true"})[0]:
            head = anchor["metadata"]
            if time.time() - _made(head) < _ABANDONED_SEC:
                continue
            if api.get("Job", RunNames(head["name"]).driver):
                api.patch("ConfigMap", head["name"], {"metadata": {"labels": {labels.INCOMPLETE: None}}})
            else:
                api.delete("ConfigMap", head["name"], uid=head["uid"])


def _made(head: dict[str, Any]) -> float:
    """When an object was made, by time.time(); now, if that is not understood."""
    try:
        return datetime.fromisoformat(str(head["creationTimestamp"]).replace("Z", "+00:00")).timestamp()
    except (KeyError, ValueError):
        return time.time()
