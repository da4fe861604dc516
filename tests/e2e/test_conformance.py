"""The behaviours that all engines share, on each of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from kedge.testing.conformance import BEHAVIOURS
from kedge.testing.conformance.case import ConformanceCase, same

from .conftest import Kedge


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_behaviour(on_engine: Kedge, behaviour: Callable[[Kedge], None]) -> None:
    if on_engine.engine == "local" and "busybox" in str(behaviour) and not shutil.which("busybox"):
        pytest.skip("peers talk through busybox, which this machine does not have")
    behaviour(on_engine)


SEEN = ConformanceCase("echo out; echo err >&2; exit 3", code=1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(SEEN, code=0), "exit code 1, not 0"),
        (replace(SEEN, logs="out\n"), "the log of worker-0"),
        (replace(SEEN, stdout=b"out"), "user-stdout"),
        (replace(SEEN, stderr=b""), "user-stderr"),
        (replace(SEEN, runtime=("none",)), "runtime.log"),
        (replace(SEEN, report={"user_exit_code": 4}), "report.json"),
        (replace(SEEN, states={"worker:0": "succeeded"}), "states"),
        (replace(SEEN, prints=("Succeeded",)), "'Succeeded' is not in"),
        (replace(SEEN, attempts=2), "attempts"),
        (replace(SEEN, more=lambda kedge: same("more", kedge.task_log(), "")), "more"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_result_is_named(kedge: Kedge, wrong: ConformanceCase, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        wrong(kedge)
