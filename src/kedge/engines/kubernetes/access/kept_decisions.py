"""What a cluster keeps of the records of a run whose folder has gone: the plan on its anchor, the decision log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.engines.kubernetes.access import copy_rules, copy_state
from kedge.engines.kubernetes.access.local_copy import RECORDS
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.in_driver import log_facts
from kedge.engines.kubernetes.in_driver.log_pieces import LogPieces
from kedge.runs.atomic_files import write_atomic
from kedge.runs.folder import Run

_PLAN = "plan.json"
_BUSY_SEC = 2.0  # how long another process may need for the copy


def restore(found: SubmittedRun, anchor: Mapping[str, Any]) -> bool:
    """Add to the copy of a run what it lacks of these records. Returns whether the log had any. CannotRun; OSError."""
    pieces = LogPieces(found.api, found.names.name, _none).read()
    parts = log_facts.parted("".join(piece.text for piece in pieces))
    if not parts.events:
        return False
    files = {path: value for path, value in parts.files.items() if copy_rules.group(path) is not None}
    with copy_state.taken(found.run.cluster, RECORDS, _BUSY_SEC) as lock:
        if lock is None:
            return False
        _add_plan(found.run, anchor)
        log_facts.restore(found.run, files)
        _continue_events(found.run, parts.events.encode())
    return True


def _add_plan(run: Run, anchor: Mapping[str, Any]) -> None:
    plan, file = (anchor.get("data") or {}).get(_PLAN), run.path / _PLAN
    if isinstance(plan, str) and not file.exists():
        write_atomic(file, plan.encode(), 0o600)


def _continue_events(run: Run, events: bytes) -> None:
    here = run.events.read_bytes() if run.events.exists() else b""
    if len(here) < len(events) and events.startswith(here):
        write_atomic(run.events, events, 0o644)


def _none(_number: int) -> Mapping[str, Any]:
    raise AssertionError("nothing is written")
