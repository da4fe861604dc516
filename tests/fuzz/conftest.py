"""Runs the tests in this folder, which check that kedge answers any input with a result or a readable error.

The variable KEDGE_FUZZ selects one of two profiles:

    quick   (the default) the same few examples in every run
    soak    random examples for KEDGE_FUZZ_SECONDS (600), which the selected tests share

Each test is an ordinary hypothesis test, with `max_examples` for `quick`. In both profiles an example is ended after
HANGS_AFTER_SEC, and all examples together must not use more than MEMORY beyond the memory in use before.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SOAK = "soak"
PROFILE = os.environ.get("KEDGE_FUZZ", "quick")
SOAK_SEC = float(os.environ.get("KEDGE_FUZZ_SECONDS", "600"))
HANGS_AFTER_SEC = 60  # far more than any example takes, even on a loaded machine
MEMORY = 2 << 30  # bytes of address space

_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("quick", derandomize=True, deadline=None, suppress_health_check=_CHECKS)
settings.register_profile(SOAK, max_examples=1000, deadline=None, suppress_health_check=_CHECKS, print_blob=True)
settings.load_profile(PROFILE)


class Hangs(BaseException):
    """An example does not end. Not an Exception, so that no error handling in the tested code catches it."""


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    """Limits the growth of the address space to MEMORY; larger allocations fail with MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a hypothesis test once, or repeatedly for its share of the time."""
    test = pyfuncitem.obj
    if not hasattr(test, "hypothesis"):
        return None
    test.hypothesis.inner_test = _watched(test.hypothesis.inner_test)
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    end = time.monotonic() + _share(pyfuncitem.session)
    test(**arguments)
    while PROFILE == SOAK and time.monotonic() < end:
        test(**arguments)
    return True


def _share(session: pytest.Session) -> float:
    """Seconds for each of the selected tests."""
    fuzzed = [item for item in session.items if hasattr(getattr(item, "obj", None), "hypothesis")]
    return SOAK_SEC / max(1, len(fuzzed))


def _watched(example: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(example)
    def run(*values: Any, **named: Any) -> Any:
        def hangs(number: int, frame: object) -> None:
            raise Hangs(f"no end after {HANGS_AFTER_SEC} s: {(values, named)!r:.2000}")

        before = signal.signal(signal.SIGALRM, hangs)
        signal.alarm(HANGS_AFTER_SEC)
        try:
            return example(*values, **named)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    return run
