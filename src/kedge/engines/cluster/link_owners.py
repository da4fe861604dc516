"""The user's own commands, which ask the controller for something over the link."""

from __future__ import annotations

from kedge.engines.cluster.link_updates import OwnerRequest
from kedge.link import messages
from kedge.link.frames import BadFrame, LinkFrame, encoded
from kedge.link.messages import DEAD_SEC
from kedge.link.stream import LinkStream

_LONGEST_NAME = 100


class LinkOwners:
    """Connections that have shown the token of the owner."""

    def __init__(self) -> None:
        self._streams: dict[LinkStream, float] = {}  # and since when
        self._asked: list[LinkStream] = []  # whose request was returned

    def __contains__(self, stream: LinkStream) -> bool:
        return stream in self._streams

    @property
    def waiting(self) -> bool:
        """Whether a request was returned that is not answered yet."""
        return bool(self._asked)

    @property
    def due(self) -> float:
        """When a connection has been open for too long; infinite if never."""
        return min(self._streams.values(), default=float("inf")) + DEAD_SEC

    def add(self, stream: LinkStream, now: float) -> None:
        self._streams[stream] = now

    def remove(self, stream: LinkStream) -> None:
        self._streams.pop(stream, None)

    def take(self, stream: LinkStream, frame: LinkFrame) -> OwnerRequest:
        """A message of the owner. BadFrame if it is not a request."""
        kind = frame.header.get("request")
        if frame.kind != messages.REQUEST or kind not in messages.REQUESTS:
            raise BadFrame(f"the controller does not know the request {kind!r:.40}")
        self._asked.append(stream)
        return OwnerRequest(kind, str(frame.header.get("by"))[:_LONGEST_NAME])

    def answer(self) -> list[LinkStream]:
        """Confirm the requests that were returned. Returns the connections that are written to."""
        asked, self._asked = [stream for stream in self._asked if stream in self._streams], []
        for stream in asked:
            stream.send(encoded({"kind": messages.ANSWER, "done": True}))
        return asked

    def late(self, now: float) -> list[LinkStream]:
        """Connections that have been open for too long."""
        return [stream for stream, since in self._streams.items() if since + DEAD_SEC <= now]
