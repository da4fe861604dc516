"""What was running when a test hung: it is shown with the stacks of the test that ran into its time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the processes of this machine to the report of a test that took too long (`timeout` in pyproject.toml)."""
    report = yield
    if call.excinfo is not None and "Timeout (>" in str(call.excinfo.value):
        columns = "pid,ppid,stat,wchan:24,etimes,args"
        argv = ["ps", "--ppid", "2", "-p", "2", "--deselect", "--forest", "-o", columns]  # no kernel threads
        listed = subprocess.run(argv, capture_output=True, text=True, check=False)
        report.sections.append(("Processes", "\n".join(line[:300] for line in listed.stdout.splitlines())))
    return report
