"""Looks for the controller at all its addresses, again and again."""

from __future__ import annotations

import os

from kedge import untrusted
from kedge.light.types import Any, Sequence
from kedge.link.stream import LinkStream
from kedge.runtime.agent.dial import Dial, explained
from kedge.runtime.agent.host_names import HostNames, is_numeric

_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 0.2, 5.0
_NEXT_SEC = 0.5  # after so long without an answer the next address is tried as well
_ADDRESS_FILE_LIMIT = 64 << 10


class Dialing:
    """Goes in rounds through `addresses` at `port`, or through those in `address_file` where that can be read, and then
    through those of the host names among `addresses`. `error` says why the last try failed. `due` is when `poll` must
    be called."""

    def __init__(self, context: Any, addresses: Sequence[str], port: int, address_file: str | None) -> None:
        self.addresses, self.port = addresses, port
        self.error = ""
        self.due = 0.0
        self.dials: list[Dial] = []
        self._context, self._address_file = context, address_file
        self._names = HostNames([address for address in addresses if not is_numeric(address)])
        self._left: list[tuple[str, int]] = []  # of this round
        self._next_at = 0.0  # when the next address is tried, though the last one may still answer
        self._pause = _FIRST_PAUSE_SEC

    def succeeded(self) -> None:
        """The controller has let the agent in: the next pauses are short again."""
        self._pause = _FIRST_PAUSE_SEC

    def rest(self, now: float) -> None:
        """Pause before the next round."""
        self._left.clear()
        self.due = now + self._pause * (0.5 + os.urandom(1)[0] / 256)  # not all agents at once
        self._pause = min(_LONGEST_PAUSE_SEC, 2 * self._pause)

    def poll(self, now: float) -> LinkStream | None:
        """Go on; a stream on which the controller answers, if there is one now. The other tries are given up then."""
        tried = list(self.dials)
        for dial in tried:
            if stream := self._try(dial, now):
                self.dials.remove(dial)
                self.close()
                return stream
        if tried and not self.dials and not self._left:
            self.rest(now)  # the last one of this round has failed, perhaps long before its deadline
        if not self.dials and not self._left and now >= self.due:
            self._left, self._next_at = self._targets(), now
        while self._left and (now >= self._next_at or not self.dials):
            self._start(*self._left.pop(0), now)
        if self.dials:
            self.due = min(dial.deadline for dial in self.dials)
            self.due = min(self.due, self._next_at) if self._left else self.due
        elif now >= self.due:
            self.rest(now)
        return None

    def close(self) -> None:
        """Give up all tries."""
        for dial in self.dials:
            dial.close()
        self.dials.clear()
        self._left.clear()

    def _start(self, address: str, port: int, now: float) -> None:
        try:
            self.dials.append(Dial(self._context, address, port, now))
        except OSError as error:
            self.error = f"{address} port {port}: {explained(error)}"
        self._next_at = now + _NEXT_SEC

    def _try(self, dial: Dial, now: float) -> LinkStream | None:
        try:
            if now >= dial.deadline:
                raise TimeoutError(0, "no answer")
            return dial.work(now)
        except OSError as error:
            self.error = f"{dial.address} port {dial.port}: {explained(error)}"
        self.dials.remove(dial)
        dial.close()
        return None

    def _targets(self) -> list[tuple[str, int]]:
        told = _read(self._address_file) if self._address_file else []
        told = told or [(address, self.port) for address in self.addresses if is_numeric(address)]
        # At a name there may be a newer controller than the file says: it may reach this node later.
        port = told[0][1] if told else self.port
        return [*dict.fromkeys([*told, *((address, port) for address in self._names.look())])]


def _read(path: str) -> list[tuple[str, int]]:
    """The addresses that the controller has written last; none if that cannot be read here and now."""
    try:
        data = untrusted.parse(untrusted.read_path(path, _ADDRESS_FILE_LIMIT))
        return [(str(address), int(data["port"]) % 65536) for address in data["addresses"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []
