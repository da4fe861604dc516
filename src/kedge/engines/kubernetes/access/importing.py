"""Makes run folders on this machine for runs that another one has submitted: from their anchors in the namespace."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from kedge import __version__
from kedge.contract import timestamp
from kedge.engines.kubernetes.access import fetching, submitted
from kedge.engines.kubernetes.access.copy_session import CopySession
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.options import FRAMEWORK
from kedge.errors import CannotRun
from kedge.own_files import clear
from kedge.runs.atomic_files import disk_errors, write_atomic
from kedge.runs.events import EventLog
from kedge.runs.folder import Run, RunInfo
from kedge.runs.job_events import JobEvent
from kedge.terminal_text import one_line

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_LONGEST = 200  # characters of the name of a job


def import_runs(options: Mapping[str, Any], jobs: Path, wanted: str | None) -> list[Run]:
    """The runs in the namespace of these options that have no folder in `jobs`, each with a new folder; those whose id
    begins with `wanted`, or whose job has that name. CannotRun: the cluster cannot be reached."""
    given = [options.get(key) for key in ("kubeconfig", "context", "namespace")]
    api = KubernetesApi.connect(*given)
    try:
        anchors, _ = api.list("ConfigMap", {labels.MANAGED_BY: labels.KEDGE, labels.COMPONENT: labels.ANCHOR})
        place = {"kubeconfig": given[0], "context": api.context or None, "namespace": api.namespace}
        place |= {"server": api.server}
        found = [_imported(anchor, jobs, wanted, place) for anchor in anchors]
        if options.get("controller") == FRAMEWORK:
            frameworks = importlib.import_module("kedge.engines.kubernetes.framework.importing")  # few sites have any
            found += [_of_framework(each, jobs, wanted, place) for each in frameworks.found(api)]
    finally:
        api.close()
    return [run for run in found if run]


def _imported(anchor: Mapping[str, Any], jobs: Path, wanted: str | None, place: Mapping[str, Any]) -> Run | None:
    """A folder for the run of an anchor; None if there is one, or it is not wanted, or its anchor is none of ours."""
    head = anchor["metadata"]
    texts = head.get("annotations") or {}
    run_id, job = str(texts.get(labels.RUN_ID, "")), one_line(str(texts.get(labels.JOB, "")))[:_LONGEST]
    if not _ID.fullmatch(run_id) or RunNames.of(run_id).name != head["name"] or head.get("deletionTimestamp"):
        return None
    if wanted is not None and not (run_id.startswith(wanted) or job == wanted):
        return None
    created = _time(head.get("creationTimestamp"))
    facts = {
        "engine": submitted.ENGINE, **place, "name": head["name"], "uid": head["uid"],
        "submitted": timestamp(int(created * 1e9)), "time": created, "imported": True,
    }  # fmt: skip
    user = one_line(str(texts.get(labels.USER, "")))[:_LONGEST]
    info = RunInfo(run_id, job or run_id, user, submitted.ENGINE, facts["submitted"], __version__, "")
    return _made(Run(jobs / run_id), info, facts)


def _of_framework(found: Any, jobs: Path, wanted: str | None, place: Mapping[str, Any]) -> Run | None:
    """A folder for a run by FrameworkController (framework.importing.FoundFramework), None as from `_imported`."""
    if wanted is not None and not (found.run_id.startswith(wanted) or found.job == wanted):
        return None
    created = _time(found.created)
    submitted_at = timestamp(int(created * 1e9))
    facts = {
        "engine": FRAMEWORK, **place, "name": found.name, "uid": found.uid, "priority": found.priority,
        "submitted": submitted_at, "time": created,
    }  # fmt: skip
    job = one_line(found.job)[:_LONGEST] or found.run_id
    info = RunInfo(found.run_id, job, one_line(found.user)[:_LONGEST], submitted.ENGINE, submitted_at, __version__, "")
    run = Run(jobs / found.run_id)

    def fill() -> None:
        write_atomic(run.job_file, found.config.encode())
        with EventLog(run.events) as log:
            log.append(JobEvent.JOB_SUBMITTED, time=submitted_at, roles=found.roles)

    return _made(run, info, facts, fill)


def _made(run: Run, info: RunInfo, facts: Mapping[str, Any], fill: Callable[[], None] | None = None) -> Run | None:
    with disk_errors(run.path):
        run.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            run.path.mkdir(mode=0o700)
        except FileExistsError:
            return None
        try:
            run.cluster.make()
            run.cluster.write(run.cluster.job, dict(facts))
            run.job_dir.mkdir(mode=0o700)
            if fill:
                fill()
            run.save(info if fill else _with_original(run, info))  # last: from now on it is listed
        except BaseException:
            clear(run.path)
            raise
    return run


def _with_original(run: Run, info: RunInfo) -> RunInfo:
    """The description of a run with what its own run.json says about the job, if its driver runs."""
    try:
        session = CopySession(fetching.stream(SubmittedRun(run)))
        try:
            found = RunInfo.from_json(session.greeting().get("run"))
        finally:
            session.close()
    except (CannotRun, OSError, ValueError):
        return info
    return replace(
        info, source=found.source, version=found.version, parameters=found.parameters, options=found.options,
        rerun_of=found.rerun_of,
    )  # fmt: skip


def _time(text: Any) -> float:
    with suppress(ValueError, TypeError):
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    return time.time()
