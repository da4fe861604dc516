"""One epoll descriptor for the listening socket and all connections."""

from __future__ import annotations

import select

from kedge.engines.cluster.link_listener import LinkListener
from kedge.link.stream import READ, LinkStream

# Connections in one turn: with what each may bring, 16 MiB are in memory until they are stored. The kernel lists those
# that were not among them first the next time.
_MOST_READY = 64


class LinkSelector:
    """Knows which connections are ready, and what each of them is watched for."""

    def __init__(self, listener: LinkListener) -> None:
        self.listening = True
        self._listener = listener
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), READ)
        self._streams: dict[int, LinkStream] = {}
        self._watched: dict[int, int] = {}

    def fileno(self) -> int:
        return self._epoll.fileno()

    def ready(self) -> tuple[bool, list[LinkStream]]:
        """Whether somebody wants to connect, and some of the connections that are ready now, each in its turn."""
        fds = [fd for fd, _ in self._epoll.poll(0, _MOST_READY)]
        listener = self._listener.fileno()
        return listener in fds, [self._streams[fd] for fd in fds if fd != listener]

    def listen(self, wanted: bool) -> None:
        """Accept connections, or leave them to wait."""
        self.listening = wanted
        self._epoll.modify(self._listener.fileno(), READ if wanted else 0)

    def watch(self, stream: LinkStream) -> None:
        """Watch a connection for what it waits for now."""
        wanted, watched = stream.events, self._watched.get(stream.fd)
        if watched is None:
            self._streams[stream.fd] = stream
            self._epoll.register(stream.fd, wanted)
        elif wanted != watched:
            self._epoll.modify(stream.fd, wanted)
        self._watched[stream.fd] = wanted

    def has(self, stream: LinkStream) -> bool:
        """Whether a connection is open."""
        return self._streams.get(stream.fd) is stream

    def close(self, stream: LinkStream) -> None:
        """Close a connection; nothing if it is closed."""
        if self.has(stream):
            del self._streams[stream.fd], self._watched[stream.fd]
            self._epoll.unregister(stream.fd)
            stream.close()

    def close_all(self) -> None:
        """Close everything."""
        for stream in list(self._streams.values()):
            self.close(stream)
        self._listener.close()
        self._epoll.close()
