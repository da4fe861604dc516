"""Why an attempt failed: the exit specification's answer, then kedge's own, from the same evidence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from kedge import contract
from kedge.diagnose import termination
from kedge.diagnose.termination import Verdict
from kedge.runtime.postmortem import collect
from kedge.runtime.postmortem.case import Case
from kedge.runtime.postmortem.collect import Collected


def examine(case: Case) -> Iterator[dict[str, Any]]:
    """Yields `exit_code` and `termination` (the container's code and message; not where the runtime itself broke),
    then `diagnosis` and `evidence` as Report has them. `notes`, with both, are lines for the log."""
    found = collect.collect(case)
    notes: list[str] = []
    patterns = _patterns(case.site, notes)
    if not case.outcome.broken:
        verdict = _verdict(case, found, patterns, notes)
        yield {"exit_code": verdict.code, "termination": _message(case, found, verdict), "notes": notes}
    evidence = collect.summary(found.evidence, patterns.progress(found) if patterns else {})
    diagnosis = patterns.diagnosis(found, case, notes).to_json() if patterns else None
    yield {"diagnosis": diagnosis, "evidence": evidence, "notes": notes}


def _patterns(site: str | None, notes: list[str]) -> ModuleType | None:
    """kedge.runtime.postmortem.patterns. `site` goes last, so that nothing in it hides a module of ours or of Python."""
    if site:
        sys.path.append(site)
    try:
        return importlib.import_module("kedge.runtime.postmortem.patterns")
    except ImportError as error:
        notes.append(f"failures are told by their exit codes alone: google-re2 is not usable here ({error})")
        return None


def _verdict(case: Case, found: Collected, patterns: ModuleType | None, notes: list[str]) -> Verdict:
    """What could not be fetched for now is no matter of the exit specification."""
    if case.outcome.exit_code == contract.PREREQUISITE_TRANSIENT:
        return Verdict(contract.PREREQUISITE_TRANSIENT)
    if patterns is None:
        return Verdict(_plain_code(case))
    verdict: Verdict = patterns.verdict(found, case.spec.exit_spec, notes)
    return verdict


def _plain_code(case: Case) -> int:
    code = case.outcome.user_code
    return case.outcome.exit_code if code is None else contract.container_code(code)


def _message(case: Case, found: Collected, verdict: Verdict) -> str:
    logs = found.user.content, found.platform.content
    return termination.message(verdict, case.outcome.user_code, *logs).decode()
