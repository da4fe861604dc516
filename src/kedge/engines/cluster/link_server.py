"""The controller's end of the link: one connection for each task's agent, in one selector, without threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kedge.engines.base import Task
from kedge.engines.cluster.link_admission import Expect, NotAdmitted, Stranger, Strangers, admitted
from kedge.engines.cluster.link_listener import LinkListener, TooManyFiles
from kedge.engines.cluster.link_owners import LinkOwners
from kedge.engines.cluster.link_selector import LinkSelector
from kedge.engines.cluster.link_session import LinkSession
from kedge.engines.cluster.link_sessions import LinkSessions
from kedge.engines.cluster.link_updates import LinkUpdate, Message
from kedge.link import messages
from kedge.link.frames import BadFrame, LinkFrame, encoded
from kedge.link.keys import LinkKeys
from kedge.link.messages import Hello
from kedge.link.stream import LinkStream

_MOST_ACCEPTED = 64  # in one turn
_PAUSE_SEC = 0.5  # after the descriptors have run out


class LinkServer:
    """Listens as soon as it is made. `expect(attempt, role, index)` says whether an agent with the right token is
    wanted; one that is not is told to end. `controller` is the random id of this controller. An agent that sends
    nothing for `unreachable_sec` is reported as silent. OSError: the port is not free."""

    def __init__(
        self,
        keys: LinkKeys,
        expect: Expect,
        controller: str,
        *,
        port: int = 0,
        unreachable_sec: float = 120.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys, self._expect, self._now = keys, expect, now
        self._listener = LinkListener(keys, port)
        self.port = self._listener.port
        self._selector = LinkSelector(self._listener)
        self._not_before = 0.0  # when accepting may go on
        self._strangers = Strangers()
        self._owners = LinkOwners()
        self._sessions = LinkSessions(controller, unreachable_sec)
        self._updates: list[LinkUpdate] = []

    def fileno(self) -> int:
        """An epoll descriptor, which another selector can watch for reading."""
        return self._selector.fileno()

    @property
    def due(self) -> float:
        """When `poll` must be called even if `fileno` is not readable, by the clock `now`. In the past if `poll` has
        returned messages: the next call acknowledges them."""
        if self._sessions.unconfirmed or self._owners.waiting:
            return 0.0
        pause = float("inf") if self._selector.listening or self._strangers.full else self._not_before
        return min(self._strangers.due, self._owners.due, self._sessions.due, pause)

    def poll(self) -> list[LinkUpdate]:
        """What has happened since the last call, in order. Never blocks. What the last call returned counts as
        processed now: it is acknowledged, and requests of the owner are answered."""
        self._sessions.wake(self._now())
        for stream in (*self._sessions.confirm(), *self._owners.answer()):
            self._selector.watch(stream)
        somebody_comes, ready = self._selector.ready()
        for stream in ready:
            if self._selector.has(stream):  # serving another one may have closed it
                self._serve(stream)
        self._close_late(self._now())
        if somebody_comes:
            self._accept()
        elif not self._selector.listening and not self._strangers.full and self._not_before <= self._now():
            self._selector.listen(True)
        updates, self._updates = self._updates, []
        return updates

    def send(self, task: Task, kind: str, header: dict[str, Any], body: bytes = b"") -> bool:
        """Send a command to the agent of a task, in the latest job attempt in which one has joined; if its connection
        is lost, when it is there again. Values in the header may be SharedValues. False if none has joined: nothing is
        sent. BadFrame: it is too large."""
        session = self._sessions.of(task)
        if session is None:
            return False
        session.command(kind, header, body)
        if session.stream:
            self._selector.watch(session.stream)
        return True

    def forget_attempt(self, attempt: int) -> None:
        """A job attempt is over: its connections close when the agents have read what was sent, or after 10 s. An agent
        that connects again is refused for good, unless `expect` wants it."""
        for stream in self._sessions.forget(attempt):
            self._dismiss(stream)

    def forget_task(self, task: Task, attempt: int) -> None:
        """As `forget_attempt`, for the agent of one task."""
        for stream in self._sessions.forget(attempt, task):
            self._dismiss(stream)

    def close(self) -> None:
        """Close everything at once; agents go on trying to connect."""
        self._selector.close_all()

    def _accept(self) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                accepted = None if self._strangers.full else self._listener.accept()
            except TooManyFiles:
                self._not_before = self._now() + _PAUSE_SEC
                self._selector.listen(False)
                return
            if accepted is None:
                break
            stream, host = accepted
            self._strangers.add(Stranger(stream, host, self._now()))
            self._selector.watch(stream)
        if self._strangers.full:
            self._selector.listen(False)

    def _serve(self, stream: LinkStream) -> None:
        """Read and write what a connection is ready for."""
        lost = False
        try:
            received = stream.work()
        except OSError:
            received, lost = 0, True
        if session := self._sessions.by_stream(stream):
            session.catch_up()
            self._updates += self._sessions.hear(session, self._now()) if received else []
        try:
            while frame := stream.next_frame():
                self._take(stream, frame)
        except NotAdmitted as error:
            self._refuse(stream, str(error), error.final)
        except BadFrame as error:
            self._refuse(stream, str(error), False)
        if lost:
            self._drop(stream)
        else:
            self._selector.watch(stream)

    def _take(self, stream: LinkStream, frame: LinkFrame) -> None:
        if session := self._sessions.by_stream(stream):
            self._take_numbered(session, frame)
        elif stream in self._owners:
            self._updates.append(self._owners.take(stream, frame))
        elif hello := admitted(frame, self._keys, self._expect):
            self._join(stream, hello)
        else:
            self._strangers.remove(stream)
            self._owners.add(stream, self._now())

    def _take_numbered(self, session: LinkSession, frame: LinkFrame) -> None:
        session.confirm_commands(frame.header.get("got"))
        if frame.kind != messages.HEARTBEAT and session.take(frame):
            self._sessions.unconfirmed.add(session)
            self._updates.append(Message(session.task, session.attempt, *frame))

    def _join(self, stream: LinkStream, hello: Hello) -> None:
        if self._sessions.was_replaced(hello):
            raise NotAdmitted("another agent has taken over this task", True)
        stranger = self._strangers.remove(stream)
        assert stranger
        stream.trust()
        old, joined = self._sessions.join(stream, hello, stranger.host, self._now())
        session = self._sessions.by_stream(stream)
        assert session
        self._updates += [*self._sessions.hear(session, self._now()), joined]
        if old:
            self._selector.close(old)

    def _refuse(self, stream: LinkStream, text: str, final: bool) -> None:
        stream.send(encoded({"kind": messages.REFUSED, "error": text, "final": final}))
        self._updates += self._sessions.lose(stream)
        self._dismiss(stream)

    def _dismiss(self, stream: LinkStream) -> None:
        """Close a connection when the other side has: closing it first could destroy what it has not read yet."""
        stream.ignore()
        self._owners.remove(stream)
        if stream not in self._strangers:
            self._strangers.add(Stranger(stream, "", self._now()))

    def _drop(self, stream: LinkStream) -> None:
        self._updates += self._sessions.lose(stream)
        self._owners.remove(stream)
        self._strangers.remove(stream)
        self._selector.close(stream)

    def _close_late(self, now: float) -> None:
        silent, dead = self._sessions.silence(now)
        self._updates += silent
        for stream in (*dead, *self._strangers.late(now), *self._owners.late(now)):
            self._drop(stream)
