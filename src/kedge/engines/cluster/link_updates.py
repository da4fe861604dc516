"""What the controller's end of the link reports."""

from __future__ import annotations

from typing import Any, NamedTuple

from kedge.engines.base import Task
from kedge.link.messages import Hello


class Joined(NamedTuple):
    """The agent of a task has connected; `again`: after its connection was lost. If it is not `again`, this controller
    has not heard of this agent process before, and `hello.state` says what it knows. `hello` has no token any more.
    `address` is the one it comes from, as this machine sees it."""

    task: Task
    attempt: int
    hello: Hello
    address: str
    again: bool


class Message(NamedTuple):
    """An agent has sent something: `kind` is one of `link.messages`. Each comes once, in the order it was sent. It is
    acknowledged at the next `poll`, so what must not be lost is stored before."""

    task: Task
    attempt: int
    kind: str
    header: dict[str, Any]
    body: bytes


class Lost(NamedTuple):
    """The connection of a task's agent is lost; it will try again. `since` (time.monotonic) is when it was last heard
    of. What `send` gets meanwhile is sent later."""

    task: Task
    attempt: int
    since: float


class Silent(NamedTuple):
    """An agent that had joined has been silent for `unreachable_sec`, since `since` (time.monotonic)."""

    task: Task
    attempt: int
    since: float


class Heard(NamedTuple):
    """An agent that was silent has sent something again."""

    task: Task
    attempt: int


class OwnerRequest(NamedTuple):
    """The user's own command asks for something: `kind` is one of `messages.REQUESTS`, `by` is who, as they say."""

    kind: str
    by: str


LinkUpdate = Joined | Message | Lost | Silent | Heard | OwnerRequest
