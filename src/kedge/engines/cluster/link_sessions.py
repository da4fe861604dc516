"""The agents that the controller knows: which connection is whose, who is silent, what is to be acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.engines.base import Task
from kedge.engines.cluster.link_session import LinkSession
from kedge.engines.cluster.link_updates import Heard, Joined, LinkUpdate, Lost, Silent
from kedge.engines.cluster.settings import OWN_PAUSE_SEC
from kedge.link.messages import DEAD_SEC, HEARTBEAT_SEC, Hello
from kedge.link.stream import LinkStream

_NEVER = float("inf")
_BACK_SEC = 30.0  # in which agents come back after that: meanwhile they have taken their connections for lost
Key = tuple[int, Task]  # of a job attempt and a task


class LinkSessions:
    """`controller` is the id of this controller. See LinkServer for `unreachable_sec`."""

    def __init__(self, controller: str, unreachable_sec: float) -> None:
        self.unconfirmed: set[LinkSession] = set()  # of which messages were returned
        self.due = _NEVER  # when somebody may have become silent; never too late
        self._controller, self._unreachable_sec = controller, unreachable_sec
        self._sessions: dict[Key, LinkSession] = {}
        self._latest: dict[Task, LinkSession] = {}
        self._streams: dict[LinkStream, LinkSession] = {}
        self._replaced: set[tuple[Key, str]] = set()  # agents that have a successor

    def of(self, task: Task) -> LinkSession | None:
        """The session of a task in the latest job attempt in which it has joined."""
        return self._latest.get(task)

    def by_stream(self, stream: LinkStream) -> LinkSession | None:
        return self._streams.get(stream)

    def confirm(self) -> Iterator[LinkStream]:
        """What was returned has been processed: acknowledge it. Yields the connections that are written to."""
        for session in self.unconfirmed:
            session.store()
            if session.stream:
                yield session.stream
        self.unconfirmed.clear()

    def was_replaced(self, hello: Hello) -> bool:
        """Whether another agent process of the same task has connected after this one."""
        return (_key(hello), hello.agent) in self._replaced

    def join(self, stream: LinkStream, hello: Hello, address: str, now: float) -> tuple[LinkStream | None, Joined]:
        """An agent has connected. Also returns the previous connection of the task, which is not used any more."""
        key = _key(hello)
        session = self._sessions.get(key)
        old = session.stream if session else None
        if old:
            del self._streams[old]
        again = session is not None and session.agent == hello.agent
        if session is None or not again:
            session = self._begin(key, session, hello.agent, now)
        self._streams[stream] = session
        session.join(stream, hello.got if hello.controller == self._controller else 0, self._controller)
        self.due = min(self.due, now + min(DEAD_SEC, self._unreachable_sec))
        return old, Joined(session.task, session.attempt, hello, address, again)

    def _begin(self, key: Key, old: LinkSession | None, agent: str, now: float) -> LinkSession:
        attempt, task = key
        new = self._sessions[key] = LinkSession(task, attempt, agent, now)
        latest = self._latest.get(task)
        if latest is None or latest.attempt <= attempt:
            self._latest[task] = new
        if old:
            new.silent = old.silent
            self._replaced.add((key, old.agent))
            self.unconfirmed.discard(old)
        return new

    def wake(self, now: float) -> None:
        """`silence` is called again. If that is far too late, this process did not listen: that time does not count."""
        pause = now - self.due
        if pause > OWN_PAUSE_SEC:
            for session in self._sessions.values():
                session.heard = min(now, session.heard + pause + _BACK_SEC)

    def hear(self, session: LinkSession, now: float) -> list[LinkUpdate]:
        """An agent has said something, or a part of a message that takes long. It is told that it is heard, but not
        for each byte."""
        session.heard = now
        if now >= session.answered + HEARTBEAT_SEC / 2:
            session.answered = now
            session.acknowledge()
        if not session.silent:
            return []
        session.silent = False
        self.due = min(self.due, now + min(DEAD_SEC, self._unreachable_sec))
        return [Heard(session.task, session.attempt)]

    def lose(self, stream: LinkStream) -> list[LinkUpdate]:
        """A connection is gone."""
        session = self._streams.pop(stream, None)
        if session is None:
            return []
        session.stream = None
        return [Lost(session.task, session.attempt, session.heard)]

    def silence(self, now: float) -> tuple[list[LinkUpdate], list[LinkStream]]:
        """Who has become silent, and connections without a sign of life, which shall be closed."""
        if now < self.due:
            return [], []
        self.due = _NEVER
        updates: list[LinkUpdate] = []
        dead = [stream for stream, session in self._streams.items() if session.heard + DEAD_SEC <= now]
        for session in self._sessions.values():
            if not session.silent and session.heard + self._unreachable_sec <= now:
                session.silent = True
                updates.append(Silent(session.task, session.attempt, session.heard))
            elif not session.silent:
                self.due = min(self.due, session.heard + self._unreachable_sec)
            if session.stream and session.stream not in dead:
                self.due = min(self.due, session.heard + DEAD_SEC)
        return updates, dead

    def forget(self, attempt: int, task: Task | None = None) -> list[LinkStream]:
        """Forget the agents of a job attempt, or that of one task; returns their connections."""
        known = self._sessions
        gone = [one for one in known.values() if one.attempt == attempt and task in (None, one.task)]
        streams = [session.stream for session in gone if session.stream]
        for stream in streams:
            del self._streams[stream]
        for session in gone:
            del self._sessions[attempt, session.task]
            if self._latest.get(session.task) is session:
                del self._latest[session.task]
        self.unconfirmed.difference_update(gone)
        if task is None:
            self._replaced = {one for one in self._replaced if one[0][0] != attempt}
        return streams


def _key(hello: Hello) -> Key:
    return hello.attempt, Task(hello.role, hello.task_index)
