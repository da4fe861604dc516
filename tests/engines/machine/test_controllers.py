"""What is known of a run whose controller is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.engines.machine import controllers
from kedge.runs.folder import create


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        ('{"stop": {"graceSec": 7}}', 7.0),
        ('{"stop": {"graceSec"', 30.0),
        ('{"stop": null}', 30.0),
        ('{"stop": {"graceSec": Infinity}}', 30.0),
        ('{"stop": {"graceSec": NaN}}', 30.0),
        (None, 30.0),
    ],
)
def test_the_grace_period_is_the_plans_or_the_default(tmp_path: Path, plan: str | None, seconds: float) -> None:
    run = create(tmp_path, "job")
    if plan is not None:
        run.plan_file.write_text(plan)
    assert controllers.grace_sec(run) == seconds
