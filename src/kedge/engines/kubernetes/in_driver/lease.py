"""The Lease of a run: of several drivers, the one that has it decides, and nobody else does anything.

A driver that cannot renew it leaves before it expires. Another one takes it when it has not changed for as long as it
is valid, by its own clock: clocks of nodes differ, so that the times in a Lease are only for people.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kedge.contract import timestamp
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.in_driver.leaving import Leave, leave

_CONFLICT, _NOT_FOUND = 409, 404


class LeaseTimes(NamedTuple):
    """Seconds: for how long the Lease is valid after it was renewed, how often that is done, and how often it is tried
    or looked at when it has failed."""

    valid_sec: float = 30.0
    renew_sec: float = 5.0
    retry_sec: float = 1.0


_TIMES = LeaseTimes()


def boot_clock() -> float:
    """Seconds since the boot, also those in which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DriverLease:
    """That of one driver, whose pod has the uid `pod`. `metadata` is that of the Lease."""

    def __init__(
        self, api: KubernetesApi, metadata: Mapping[str, Any], pod: str, controller: str,
        times: LeaseTimes = _TIMES, leaves: Leave = leave, clock: Callable[[], float] = boot_clock,
    ) -> None:  # fmt: skip
        self._api, self._metadata, self._pod, self._times = api, metadata, pod, times
        self._leave, self._clock = leaves, clock
        self._name = str(metadata["name"])
        self.holder = f"{pod}/{controller}"
        self._lease: dict[str, Any] = {}  # as it was when this driver wrote it last
        self._expires = 0.0
        self._stopped = threading.Event()
        self._writing = threading.Lock()

    def take(self, said: Callable[[str], object] = lambda text: None) -> None:
        """Wait until this driver has it, and renew it from then on. `said` gets what it waits for, once for each
        reason."""
        seen: tuple[Any, ...] = ()
        since, told = self._clock(), ""
        while True:
            text = ""
            try:
                found = self._api.get("Lease", self._name)
                now = () if found is None else _changes(found)
                if now != seen:
                    seen, since = now, self._clock()
                if found is None or self._is_free(found) or self._clock() - since >= self._times.valid_sec:
                    if self._write(found):
                        break
                    continue
                text = f"another driver controls the run: {_holder(found)}"
            except ApiError as error:
                text = str(error)
            if text != told:
                told = text
                said(text)
            self._stopped.wait(self._times.retry_sec)
        for each in (self._keep, self._watch):
            threading.Thread(target=each, daemon=True).start()

    def _is_free(self, found: Mapping[str, Any]) -> bool:
        """Nobody has it, or a container of this pod, which is not there any more: a pod has one driver at a time."""
        holder = _holder(found)
        return not holder or holder.startswith(f"{self._pod}/")

    def _write(self, before: Mapping[str, Any] | None) -> bool:
        """Take it from who had it. False if somebody else was faster, or it cannot be known whether that was so."""
        sent = self._clock()
        now = _micro_time()
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": max(1, round(self._times.valid_sec)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 1 + _transitions(before) if before else 0,
        }
        try:
            if before is None:
                kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
                self._lease = self._api.create({**kind, "metadata": dict(self._metadata), "spec": spec})
            else:
                self._lease = self._api.replace({**before, "spec": spec})
        except ApiError as error:
            if error.status == _CONFLICT:
                return False
            raise
        self._expires = sent + self._times.valid_sec - self._times.renew_sec
        return True

    def check(self) -> None:
        """Returns only if this driver has it, for all that is known. It may have been suspended."""
        if self._clock() >= self._expires:
            self._leave("the Lease of the run could not be renewed in time")

    def release(self) -> None:
        """Give it up, so that another driver need not wait. Nothing may be done after this."""
        self._stopped.set()
        with self._writing, suppress(ApiError):
            self._api.replace({**self._lease, "spec": {**self._lease["spec"], "holderIdentity": ""}})

    def _keep(self) -> None:
        """Renew it, in a thread of its own."""
        wait = self._times.renew_sec
        while not self._stopped.wait(wait):
            wait = self._times.renew_sec if self._renew() else self._times.retry_sec

    def _renew(self) -> bool:
        """Renew it now. Returns whether that has worked."""
        with self._writing:
            return self._stopped.is_set() or self._renewed()

    def _renewed(self) -> bool:
        sent = self._clock()
        spec = {**self._lease["spec"], "renewTime": _micro_time()}
        try:
            self._lease = self._api.replace({**self._lease, "spec": spec})
        except ApiError as error:
            if error.status in (_CONFLICT, _NOT_FOUND):
                self._look_again()
            return False
        self._expires = sent + self._times.valid_sec - self._times.renew_sec
        return True

    def _look_again(self) -> None:
        """It is not as this driver left it: an answer to this driver was lost, or somebody else has it now."""
        try:
            found = self._api.get("Lease", self._name)
        except ApiError:
            return
        if found is None:
            self._leave("the Lease of the run was deleted")
        if (holder := _holder(found)) != self.holder:
            self._leave(f"another driver has taken over the run: {holder or 'nobody now'}")
        self._lease = found

    def _watch(self) -> None:
        """Leave when it expires, even while a request to renew it is under way."""
        while not self._stopped.wait(max(0.01, self._expires - self._clock())):
            if self._clock() >= self._expires and not self._stopped.is_set():
                self.check()


def _micro_time() -> str:
    """The current time with six digits after the point: the API server takes neither more nor fewer."""
    return f"{timestamp(time.time_ns())[:-4]}Z"


def _holder(lease: Mapping[str, Any]) -> str:
    return str(lease.get("spec", {}).get("holderIdentity") or "")


def _transitions(lease: Mapping[str, Any]) -> int:
    found = lease.get("spec", {}).get("leaseTransitions")
    return found if isinstance(found, int) else 0


def _changes(lease: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is different after somebody has written it."""
    return (lease["metadata"].get("uid"), lease["metadata"].get("resourceVersion"), _holder(lease))
