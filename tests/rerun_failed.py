"""`--rerun-failed` runs each failed test once more, when all others are done, in a pytest of its own.

A test that passes then is FLAKY: it failed by chance, or because of its neighbours. The end of the run lists the tests
with their first failure, and flaky.txt in pytest's root folder keeps their names; the run passes all the same. More
failures than MOST are no chance and count at once, as do modules that cannot be loaded.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

import pytest

FILE = "flaky.txt"
MOST = 20  # tests that are run again


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option."""
    parser.addoption("--rerun-failed", action="store_true", help="run each failed test once more, alone")


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that reports reruns tests, not the workers of xdist."""
    if config.getoption("--rerun-failed") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RerunFailed(config), "rerun-failed-run")


class RerunFailed:
    """One run of pytest and the failures in it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failures: dict[str, list[pytest.TestReport]] = {}
        self._flaky: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure. A test can have several: its own and one of a fixture's clean-up."""
        if report.failed:
            self._failures.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Rerun when the workers have ended, before pytest reports the failures."""
        result = yield
        # Without a failed test, something else has failed the run, such as too little coverage.
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED and 0 < len(self._failures) <= MOST:
            self._flaky = [test for test in self._failures if self._passes_alone(test)]
            self._report_as_flaky()
            if not self._terminal.stats.get("failed") and not self._terminal.stats.get("error"):
                session.exitstatus = pytest.ExitCode.OK
        names = "".join(f"{test}\n" for test in self._flaky)
        (self._config.rootpath / FILE).write_text(names, encoding="utf-8")
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self) -> Generator[None, object, object]:
        """List the flaky tests below everything else."""
        result = yield
        if self._flaky:
            terminal = self._terminal
            terminal.section("FLAKY: failed, then passed alone", sep="=", red=True, bold=True)
            for test in self._flaky:
                for report in self._failures[test]:
                    terminal.section(f"{test} ({report.when})", sep="_", red=True)
                    terminal.write_line(report.longreprtext)
            for test in self._flaky:
                terminal.write_line(f"FLAKY {test}", red=True, bold=True)
        return result

    @property
    def _terminal(self) -> pytest.TerminalReporter:
        found = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(found, pytest.TerminalReporter)
        return found

    def _passes_alone(self, test: str) -> bool:
        self._terminal.ensure_newline()
        self._terminal.write(f"once more, alone: {test} ... ", flush=True)
        argv = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--", test]
        done = subprocess.run(
            argv, cwd=self._config.rootpath, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
        passed = done.returncode == 0 and " passed" in done.stdout.splitlines()[-1]  # a skipped test has not passed
        self._terminal.write_line("passed" if passed else "not passed")
        return passed

    def _report_as_flaky(self) -> None:
        stats = self._terminal.stats
        for kind in ("failed", "error"):
            flaky = [report for report in stats.get(kind, []) if report.nodeid in self._flaky]
            stats[kind] = [report for report in stats.get(kind, []) if report not in flaky]
            stats.setdefault("flaky", []).extend(flaky)
        for kind in ("failed", "error", "flaky"):
            if not stats[kind]:
                del stats[kind]
