"""The fuzz tests of tests/fuzz as rows of the soak table: random input instead of random attacks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

from .rounds import Result

_ROOT = Path(__file__).parents[2]


def play(seconds: float, folder: Path) -> list[Result]:
    """Run every fuzz test with random examples, within a total time. Returns one result per test, in file order."""
    folder.mkdir(parents=True, exist_ok=True)
    results, began = folder / "fuzz.xml", time.monotonic()
    with (folder / "fuzz.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}", "tests/fuzz"],
            cwd=_ROOT, env={**os.environ, "KEDGE_FUZZ": "soak", "KEDGE_FUZZ_SECONDS": str(seconds)},
            stdout=log, stderr=log, check=False,
        )  # fmt: skip
    if not results.exists():
        failure = {"pytest": [f"it ended with {done.returncode}, see {folder}/fuzz.log"]}
        return [Result("fuzz", 0, time.monotonic() - began, failure, folder)]
    return [_result(case, folder) for case in ElementTree.parse(results).iter("testcase")]


def _result(case: ElementTree.Element, folder: Path) -> Result:
    name = case.get("name", "").removeprefix("test_").replace("_", " ")
    failures = [child.get("message", "") for child in case if child.tag in ("failure", "error")]
    broke = {"fuzz": failures} if failures else {}
    return Result(f"fuzz: {name}", 0, float(case.get("time", "0")), broke, folder)
