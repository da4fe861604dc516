"""The agent's end of the link. It reconnects whatever happens, and no message is lost or arrives twice."""

from __future__ import annotations

import os
import select
import time

from kedge.light.contextlib import suppress
from kedge.light.types import Any, Callable, NamedTuple, Sequence
from kedge.link import messages
from kedge.link.frames import BadFrame, LinkFrame, encoded
from kedge.link.launch import AgentOrders
from kedge.link.messages import DEAD_SEC, FIRST_FRAME_SEC, HEARTBEAT_SEC, Hello
from kedge.link.stream import LinkStream
from kedge.runtime.agent.dial import Dial, pinned
from kedge.runtime.agent.dialing import Dialing
from kedge.runtime.agent.unacked import Unacked

_NEVER = float("inf")


class AgentFacts(NamedTuple):
    """Who an agent is and where: its task, the name of its node, the node's addresses and boot id, its own pid."""

    task_index: int
    node: str
    addresses: list[str]
    boot_id: str
    pid: int


class AgentConnection:
    """Connects to the controller at the first `poll`, and again whenever the connection is lost: at all addresses of
    the orders, or at those in their address file where it can be read. `state` returns what Hello calls so; it is asked
    at every connection."""

    def __init__(
        self,
        orders: AgentOrders,
        facts: AgentFacts,
        state: Callable[[], dict[str, Any]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._orders, self._facts, self._state, self._now = orders, facts, state, now
        self._dialing = Dialing(pinned(orders.certificate), orders.addresses, orders.port, orders.address_file)
        self._agent = os.urandom(8).hex()
        # Another controller may not have the files that the one before had: they are mirrored anew, and then the end.
        self._unacked = Unacked(() if orders.mirrored is None else (messages.FILE, messages.ENDED))
        self._got = 0
        self._controller = ""  # the last one that has let the agent in
        self._stream: LinkStream | None = None
        self._welcome = self._refused = False
        self._heard = self._said = 0.0
        self._epoll = select.epoll()
        self._watched: dict[Dial | LinkStream, int] = {}

    @property
    def connected(self) -> bool:
        """Whether the controller has let the agent in on the present connection."""
        return self._welcome

    @property
    def controller(self) -> str:
        """The id of the controller that has let the agent in last; empty before one has."""
        return self._controller

    @property
    def error(self) -> str:
        """Why the last try to connect failed, for people; empty if none has."""
        return self._dialing.error

    @property
    def unacked(self) -> int:
        """The number of messages that the controller has not acknowledged: with 0, all that was sent is safe."""
        return len(self._unacked)

    @property
    def room(self) -> int:
        """How many bytes of bodies `send` should still get before more is acknowledged. Nothing is refused."""
        return self._unacked.room

    def fileno(self) -> int:
        """An epoll descriptor, which another selector can watch for reading."""
        return self._epoll.fileno()

    @property
    def due(self) -> float:
        """When `poll` must be called even if `fileno` is not readable, by the clock `now`; infinite if never."""
        if self._refused:
            return _NEVER
        if self._stream is None:
            return self._dialing.due
        return (
            min(self._heard + DEAD_SEC, self._said + HEARTBEAT_SEC) if self._welcome else self._heard + FIRST_FRAME_SEC
        )

    def moved(self, addresses: Sequence[str], port: int) -> None:
        """The controller has another address now; its address file is tried first."""
        self._dialing.addresses, self._dialing.port = addresses, port

    def send(self, kind: str, header: dict[str, Any], body: bytes = b"") -> None:
        """Send a message, and again after each reconnection until the controller has acknowledged it."""
        self._unacked.add({**header, "kind": kind}, body)
        self._pump()
        self._watch()

    def poll(self) -> list[LinkFrame]:
        """Go on without waiting. Returns the commands that have come, each once and in order: RESERVE, START, CONTROL,
        FINISH and so on; and REFUSED if the controller does not want this agent any more: it does not connect again.
        """
        now = self._now()
        commands: list[LinkFrame] = []
        if self._stream is None and not self._refused:
            self._dial(now)
        if self._stream:
            self._work(self._stream, now, commands)
        self._watch()
        return commands

    def close(self) -> None:
        """Close everything at once. Before the agent exits, `unacked` should be 0."""
        self._dialing.close()
        if self._stream:
            self._stream.close()
        self._epoll.close()

    def _dial(self, now: float) -> None:
        self._stream = self._dialing.poll(now)
        if self._stream is None:
            return
        self._heard = self._said = now
        self._stream.trust_values()
        orders, facts = self._orders, self._facts
        hello = Hello(
            orders.tokens[facts.task_index], orders.attempt, orders.role, facts.task_index, self._agent, facts.node,
            facts.addresses, facts.boot_id, facts.pid, self._got, self._controller, self._state(),
            task_attempt=orders.task_attempt,
        )  # fmt: skip
        self._stream.send(encoded(hello.header()))

    def _work(self, stream: LinkStream, now: float, commands: list[LinkFrame]) -> None:
        lost = ""
        try:
            if stream.work():
                self._heard = now
        except OSError as error:
            lost = str(error)
        try:
            while frame := stream.next_frame():
                self._take(frame, commands)
        except BadFrame as error:
            lost = str(error)
        if not lost and now >= self._heard + (DEAD_SEC if self._welcome else FIRST_FRAME_SEC):
            lost = "no answer from the controller"
        if lost or stream.deaf:
            self._lose(stream, lost, now)
        elif self._welcome:
            self._pump()
            self._beat(stream, now)

    def _take(self, frame: LinkFrame, commands: list[LinkFrame]) -> None:
        header = frame.header
        if frame.kind == messages.WELCOME:
            self._begin(str(header.get("controller")), _number(header, "ack"))
        elif frame.kind == messages.ACK:
            self._unacked.acknowledge(_number(header, "ack"))
        elif frame.kind == messages.REFUSED:
            self._be_refused(frame, commands)
        elif (number := _number(header, "number")) > self._got:
            self._got = number
            commands.append(frame)

    def _begin(self, controller: str, ack: int) -> None:
        same = controller == self._controller
        self._unacked.begin(ack, same)
        self._got = self._got if same else 0
        self._controller, self._welcome = controller, True
        self._dialing.error = ""
        self._dialing.succeeded()

    def _be_refused(self, frame: LinkFrame, commands: list[LinkFrame]) -> None:
        assert self._stream
        self._stream.ignore()
        self._dialing.error = str(frame.header.get("error"))
        if frame.header.get("final"):
            self._refused = True
            commands.append(frame)

    def _lose(self, stream: LinkStream, why: str, now: float) -> None:
        stream.close()
        self._dialing.error = self._dialing.error or why
        self._stream, self._welcome = None, False
        self._dialing.rest(now)

    def _pump(self) -> None:
        """Send what has not been sent on this connection, as fast as it is taken."""
        while self._welcome and self._stream and self._stream.idle and (frame := self._unacked.next(self._got)):
            self._stream.send(frame)
            self._said = self._now()

    def _beat(self, stream: LinkStream, now: float) -> None:
        if now >= self._said + HEARTBEAT_SEC:
            stream.send(encoded({"kind": messages.HEARTBEAT, "got": self._got}))
            self._said = now

    def _watch(self) -> None:
        """Let the selector watch what there is now."""
        present: list[Dial | LinkStream] = [self._stream] if self._stream else [*self._dialing.dials]
        wanted = {one: one.events for one in present}
        for gone in self._watched.keys() - wanted.keys():
            with suppress(OSError):  # it is closed
                self._epoll.unregister(gone.fd)
        for one, events in wanted.items():
            if one not in self._watched:
                self._epoll.register(one.fd, events)
            elif events != self._watched[one]:
                self._epoll.modify(one.fd, events)
        self._watched = wanted


def _number(header: dict[str, Any], name: str) -> int:
    value = header.get(name)
    if type(value) is not int:
        raise BadFrame(f"a message has a wrong value for `{name}`")
    return value
