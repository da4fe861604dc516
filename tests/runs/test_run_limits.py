"""The time limits of a run, from a plan that tasks may have damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kedge.runs import run_limits
from kedge.runs.folder import create
from kedge.runs.run_limits import RoleLimits, RunLimits

ROLE = {"name": "w", "timeLimit": {"key": "k", "sec": 7}, "attemptTimeLimit": None, "warnBeforeSec": 2}
OTHER = {"name": "ps", "timeLimit": None, "attemptTimeLimit": None, "warnBeforeSec": 2}


@pytest.mark.parametrize(
    ("plan", "wanted"),
    [
        (
            {"timeLimit": {"key": "k", "sec": 9}, "roles": [ROLE, OTHER]},
            RunLimits(9.0, (RoleLimits("w", 7.0, None, 2.0), RoleLimits("ps", None, None, 2.0))),
        ),
        ({"timeLimit": None, "roles": [OTHER]}, RunLimits()),
        ({"roles": []}, RunLimits()),
        ({"timeLimit": {"sec": "x"}, "roles": []}, RunLimits()),
        ({"timeLimit": 5, "roles": [ROLE]}, RunLimits()),
        ([], RunLimits()),
    ],
)
def test_limits_are_read_from_the_plan(tmp_path: Path, plan: Any, wanted: RunLimits) -> None:
    run = create(tmp_path, "job")
    run.plan_file.write_text(json.dumps(plan))
    assert run_limits.read(run) == wanted
