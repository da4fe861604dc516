"""Of several drivers one has the Lease of the run."""

from __future__ import annotations

import queue
import threading
from typing import Any, NoReturn

import pytest

from kedge.engines.kubernetes.in_driver.lease import DriverLease, LeaseTimes
from kedge.testing.wait import wait_until

from .memory_api import Left, MemoryApi, Unreachable

METADATA = {"name": "j-1"}
SOON = LeaseTimes(valid_sec=0.6, renew_sec=0.1, retry_sec=0.02)
LONG = LeaseTimes(valid_sec=300.0, renew_sec=100.0, retry_sec=0.02)


class Driver:
    """`why` gets the reasons for which it leaves."""

    def __init__(self, api: MemoryApi, pod: str, times: LeaseTimes = SOON, clock: Any = None) -> None:
        self.why: queue.Queue[str] = queue.Queue()
        clocks = {"clock": clock} if clock else {}
        self.lease = DriverLease(api, METADATA, pod, "1", times, self._leave, **clocks)  # type: ignore[arg-type]

    def _leave(self, why: str) -> NoReturn:
        self.why.put(why)
        if threading.current_thread() is threading.main_thread():
            raise Left(why)
        while True:  # the thread does nothing any more
            threading.Event().wait()

    def take(self) -> threading.Thread:
        thread = threading.Thread(target=self.lease.take, daemon=True)
        thread.start()
        return thread


def holder(api: MemoryApi) -> str:
    return str(api.objects["Lease", "j-1"]["spec"]["holderIdentity"])


def test_the_first_driver_gets_it_and_renews_it() -> None:
    api = MemoryApi()
    driver = Driver(api, "p1")
    driver.lease.take()
    first = api.objects["Lease", "j-1"]["spec"]["renewTime"]
    wait_until(lambda: api.objects["Lease", "j-1"]["spec"]["renewTime"] > first, 10)
    assert holder(api) == driver.lease.holder
    assert len(first) == len("2026-01-01T00:00:00.000000Z"), "as the API server wants it"
    driver.lease.check()
    driver.lease.release()


def test_another_one_waits_while_it_is_renewed_and_gets_it_when_it_is_released() -> None:
    api, said = MemoryApi(), queue.Queue[str]()
    first, second = Driver(api, "p1", LONG), Driver(api, "p2", LONG)
    first.lease.take()
    thread = threading.Thread(target=second.lease.take, args=[said.put], daemon=True)
    thread.start()
    assert first.lease.holder in said.get(timeout=10)
    assert holder(api) == first.lease.holder
    first.lease.release()
    thread.join(10)
    assert holder(api) == second.lease.holder
    assert api.objects["Lease", "j-1"]["spec"]["leaseTransitions"] == 1
    second.lease.release()


def test_another_one_waits_by_its_own_clock_until_it_has_not_changed_for_long_enough() -> None:
    api, now = MemoryApi(), 1000.0
    first = Driver(api, "p1", LONG)
    first.lease.take()
    lease = api.objects["Lease", "j-1"]
    lease["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"  # the clock of its node is wrong
    second = Driver(api, "p2", LONG, clock=lambda: now)
    thread = second.take()
    seen = len(api.calls)
    wait_until(lambda: len(api.calls) > seen + 3, 10)
    now += 299
    api.replace(lease)  # it is renewed
    seen = len(api.calls)
    wait_until(lambda: len(api.calls) > seen + 3, 10)
    now += 299
    seen = len(api.calls)
    wait_until(lambda: len(api.calls) > seen + 3, 10)
    assert holder(api) == first.lease.holder
    now += 2
    thread.join(10)
    assert holder(api) == second.lease.holder


def test_a_container_that_is_started_again_in_its_pod_does_not_wait() -> None:
    api = MemoryApi()
    Driver(api, "p1", LONG).lease.take()
    again = Driver(api, "p1", LONG)
    again.lease.holder = "p1/2"
    again.lease.take()
    assert holder(api) == "p1/2"


def test_one_that_cannot_renew_it_leaves_before_it_expires() -> None:
    api = MemoryApi()
    driver = Driver(api, "p1")
    driver.lease.take()
    api.before = Unreachable(1_000_000)
    assert "could not be renewed in time" in driver.why.get(timeout=10)


def test_one_whose_request_hangs_leaves_too() -> None:
    api, goes_on = MemoryApi(), threading.Event()
    driver = Driver(api, "p1")
    driver.lease.take()
    api.before = lambda method: goes_on.wait(30)
    assert "could not be renewed in time" in driver.why.get(timeout=10)
    goes_on.set()


def test_one_that_was_suspended_notices_before_it_decides() -> None:
    api, now = MemoryApi(), 0.0
    driver = Driver(api, "p1", LONG, clock=lambda: now)
    driver.lease.take()
    driver.lease.check()
    now += LONG.valid_sec
    with pytest.raises(Left):
        driver.lease.check()


def test_one_whose_lease_another_has_taken_leaves() -> None:
    api = MemoryApi()
    first = Driver(api, "p1", LONG._replace(renew_sec=0.05))
    first.lease.take()
    taken = api.get("Lease", "j-1")
    assert taken
    taken["spec"]["holderIdentity"] = "p2/1"
    while True:  # between two of its own writes
        taken["metadata"]["resourceVersion"] = api.objects["Lease", "j-1"]["metadata"]["resourceVersion"]
        try:
            api.replace(taken)
            break
        except Exception:
            continue
    assert "another driver has taken over the run: p2/1" in first.why.get(timeout=10)


def test_a_lost_answer_to_its_own_write_is_no_other_driver() -> None:
    api = MemoryApi()
    driver = Driver(api, "p1")
    driver.lease.take()
    api.after = Unreachable(2, "replace")
    seen = len(api.calls)
    wait_until(lambda: len(api.calls) > seen + 8, 10)
    driver.lease.check()
    assert driver.why.empty()
    driver.lease.release()


def test_a_lease_that_was_deleted_ends_the_driver() -> None:
    api = MemoryApi()
    driver = Driver(api, "p1")
    driver.lease.take()
    api.objects.clear()
    assert "was deleted" in driver.why.get(timeout=10)


def test_an_api_server_that_does_not_answer_is_waited_for() -> None:
    api, said = MemoryApi(), queue.Queue[str]()
    api.before = Unreachable(3)
    driver = Driver(api, "p1", LONG)
    driver.lease.take(said.put)
    assert said.get(timeout=1) == "no answer"
    assert said.empty(), "each reason is said once"
    driver.lease.release()
