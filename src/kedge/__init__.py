"""kedge runs deep-learning jobs from one file: on this machine, on Slurm or on Kubernetes.

The names of the Python API (docs/python-api.md) are loaded when they are first used. Importing kedge, or a part of it,
loads nothing else.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` would load more than the rest of this file
if TYPE_CHECKING:
    from typing import Any

    from kedge.api import diagnose, load, plan, run, runs
    from kedge.contract import Report, TaskSpec
    from kedge.diagnose.model import Diagnosis
    from kedge.errors import CannotRun, InputError, KedgeError, Problem
    from kedge.plan.model import Plan
    from kedge.resolve.model import Inputs, ResolvedJob
    from kedge.runs.folder import Run, RunInfo
    from kedge.runs.status import JobStatus, TaskStatus
    from kedge.spec.model import Job

__version__ = "0.1.0"
__all__ = [
    "CannotRun",
    "Diagnosis",
    "InputError",
    "Inputs",
    "Job",
    "JobStatus",
    "KedgeError",
    "Plan",
    "Problem",
    "Report",
    "ResolvedJob",
    "Run",
    "RunInfo",
    "TaskSpec",
    "TaskStatus",
    "__version__",
    "diagnose",
    "load",
    "plan",
    "run",
    "runs",
]


def __getattr__(name: str) -> Any:
    """Load a public name. It is kept, so that this happens once."""
    if name not in __all__:
        raise AttributeError(f"module 'kedge' has no attribute {name!r}")
    from kedge.lazy_modules import PUBLIC, load_place

    found = load_place(PUBLIC[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(type(sys)):  # type: ignore[misc]  # the class of modules, without importing `types`
    """The functions plan, runs and diagnose have the names of parts. Importing a part must not replace them."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in __all__ or not isinstance(value, type(sys)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
