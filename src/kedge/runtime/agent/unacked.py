"""The messages of an agent that the controller has not acknowledged."""

from __future__ import annotations

from kedge.light.types import Any, Sequence
from kedge.link.frames import encoded

_LIMIT = 4 << 20  # bytes
_OVERHEAD = 1 << 10  # of a message, roughly


class Unacked:
    """A queue of messages with consecutive numbers. Those of the kinds in `renewed` are not sent again to another
    controller: who has sent them begins anew."""

    def __init__(self, renewed: Sequence[str] = ()) -> None:
        self._renewed = renewed
        self._waiting: list[tuple[dict[str, Any], bytes]] = []
        self._first = 1  # the number of the first one
        self._sent = 0  # how many of them were sent on this connection
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many bytes of bodies it still takes; 0 if it is full."""
        return max(0, _LIMIT - self._bytes)

    def add(self, header: dict[str, Any], body: bytes) -> None:
        """Add a message; its header has no number yet."""
        self._waiting.append((header, body))
        self._bytes += len(body) + _OVERHEAD

    def begin(self, ack: int, same: bool) -> None:
        """A new connection: all that is not acknowledged must be sent again. If it is not the `same` controller, the
        numbers begin again at 1."""
        if not same:
            self._first = 1
            self._waiting = [one for one in self._waiting if one[0].get("kind") not in self._renewed]
            self._bytes = sum(len(body) + _OVERHEAD for _, body in self._waiting)
        self._sent = 0
        self.acknowledge(ack)

    def acknowledge(self, ack: int) -> None:
        """The controller has processed all messages up to this number."""
        done = min(max(0, ack - self._first + 1), len(self._waiting))
        self._bytes -= sum(len(body) + _OVERHEAD for _, body in self._waiting[:done])
        del self._waiting[:done]
        self._first += done
        self._sent = max(0, self._sent - done)

    def next(self, got: int) -> bytes | None:
        """The bytes of the next message to send on this connection. `got` is the last command that has come."""
        if self._sent == len(self._waiting):
            return None
        header, body = self._waiting[self._sent]
        number = self._first + self._sent
        self._sent += 1
        return encoded({**header, "seq": number, "got": got}, body)
