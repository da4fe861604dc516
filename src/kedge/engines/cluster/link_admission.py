"""Who may speak to the controller: connections that have not proved who they are, and how they do it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hmac import compare_digest
from typing import Any, NamedTuple

from kedge.link.frames import LinkFrame
from kedge.link.keys import LinkKeys, task_token
from kedge.link.messages import FIRST_FRAME_SEC, HELLO, VERSION, Hello
from kedge.link.stream import LinkStream

# Whether an agent of (job attempt, role, task index, task attempt that it was launched for) is wanted.
Expect = Callable[[int, str, int, int], bool]
_MOST_WAITING = 1024  # strangers at a time: 110 MB if each sends all that it may
_LEAST_SEC = 2.0  # which each has, however many there are; an agent needs some milliseconds


class NotAdmitted(Exception):
    """Somebody may not speak here. `final`: nor later."""

    def __init__(self, text: str, final: bool) -> None:
        super().__init__(text)
        self.final = final


def admitted(frame: LinkFrame, keys: LinkKeys, expect: Expect) -> Hello | None:
    """The agent that says hello, without its token; None for the owner. NotAdmitted; BadFrame."""
    if frame.kind != HELLO:
        raise NotAdmitted("the first message must be hello", True)
    if frame.header.get("version") != VERSION:
        raise NotAdmitted(f"the controller speaks version {VERSION} of the protocol", True)
    if "owner" in frame.header:
        if not _same(frame.header["owner"], keys.owner):
            raise NotAdmitted("the token is not the owner's", True)
        return None
    hello = Hello.from_header(frame.header)
    who = hello.attempt, hello.role, hello.task_index, hello.task_attempt
    if not _same(hello.token, task_token(keys, *who)):
        raise NotAdmitted(f"the token is not that of task {hello.role}:{hello.task_index} in this job attempt", True)
    if not expect(*who):
        raise NotAdmitted("the job attempt, or this attempt of the task, is over", True)
    return hello._replace(token="")


def _same(given: Any, right: str) -> bool:
    return isinstance(given, str) and compare_digest(given.encode("utf-8", "replace"), right.encode())


class Stranger(NamedTuple):
    """A connection that has not proved who it is, or that shall be closed when the other side has read all."""

    stream: LinkStream
    host: str
    since: float


class Strangers:
    """Limits the number and the time of such connections. When there are too many, it drops those that are older than
    _LEAST_SEC, first from the host that has most: a flood from one host does not keep others out."""

    def __init__(self) -> None:
        self._all: dict[LinkStream, Stranger] = {}  # in the order of their coming

    def __contains__(self, stream: LinkStream) -> bool:
        return stream in self._all

    def add(self, stranger: Stranger) -> None:
        self._all[stranger.stream] = stranger

    def remove(self, stream: LinkStream) -> Stranger | None:
        return self._all.pop(stream, None)

    @property
    def full(self) -> bool:
        """Whether nobody may come before somebody leaves."""
        return len(self._all) >= _MOST_WAITING

    @property
    def due(self) -> float:
        """When somebody must leave; infinite if never."""
        first = next(iter(self._all.values()), None)
        return first.since + (_LEAST_SEC if self.full else FIRST_FRAME_SEC) if first else float("inf")

    def late(self, now: float) -> list[LinkStream]:
        """Those who must leave."""
        gone = [one.stream for one in self._all.values() if one.since + FIRST_FRAME_SEC <= now]
        if gone or not self.full:
            return gone
        old = [one for one in self._all.values() if one.since + _LEAST_SEC <= now]
        busiest = Counter(one.host for one in old).most_common(1)
        return [one.stream for one in old if one.host == busiest[0][0]][: _MOST_WAITING // 4]
