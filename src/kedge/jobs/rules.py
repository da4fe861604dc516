"""A job's own rules for causes of failures: exit specs of OpenPAI, and rule files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.exit_spec.exitspec import ExitSpec, is_exit_spec
from kedge.diagnose.rules import rule_files
from kedge.errors import InputError
from kedge.runs.atomic_files import write_atomic, write_json
from kedge.runs.folder import Run
from kedge.settings.table import RULES
from kedge.settings.values import AllSettings

if TYPE_CHECKING:
    from kedge.plan.model import Plan  # which loads what a diagnosis does not need


def with_usual(files: Sequence[str], settings: AllSettings) -> tuple[str, ...]:
    """These files after those of the settings. An exit spec among them replaces that of the settings."""
    usual = settings.get(RULES).value or ()
    replaced = any(map(is_exit_spec, files))
    return (*(path for path in usual if not (replaced and is_exit_spec(path))), *files)


def write(run: Run, plan: Plan) -> None:
    """Write the job's rule files in the form that the runtime reads. InputError: one is invalid, or there are several
    exit specs."""
    if spec := exit_spec(plan.rules):
        write_json(run.exit_spec, exitspec.to_json(spec))
    for number, path in enumerate(plan.rules):
        if not is_exit_spec(path):
            write_atomic(run.rule_file(number), rule_files.compiled(Path(path)))


def exit_spec(files: Sequence[str]) -> ExitSpec | None:
    """The exit spec among rule files; None if there is none. InputError: it is invalid, or there are several."""
    specs = [path for path in files if is_exit_spec(path)]
    if len(specs) > 1:
        raise InputError(f"only one exit spec can be used, not {' and '.join(specs)}")
    return exitspec.load(specs[0]) if specs else None
