"""A controller's end of the link and agents' ends, with real sockets and TLS, in one loop with a clock of its own; and
a proxy between them that cuts, stops and changes what it carries."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress

from kedge.engines.base import Task
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import LinkUpdate, Message
from kedge.jobs import link_keys
from kedge.link.frames import LinkFrame
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders
from kedge.runtime.agent.connection import AgentConnection, AgentFacts

KEYS = link_keys.made()
OTHER_KEYS = link_keys.made()
WORKER = Task("worker", 0)
_TURNS = 20_000


class Clock:
    """It moves only when nothing else does."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.stopped = False

    def __call__(self) -> float:
        return self.time

    def advance(self, to: float) -> None:
        if not self.stopped and to < float("inf"):
            self.time = to


class Rig:
    """`turn` lets everybody work once; when nobody has anything to do, the clock goes to the next time that one of them
    waits for. `updates` is all that the server has returned, `commands` what each agent has."""

    def __init__(self, expect: Callable[[int, str, int, int], bool] = lambda *_: True, **options: float) -> None:
        self.clock = Clock()
        self.expect, self.options = expect, options
        self.server = LinkServer(KEYS, expect, "controller 1", now=self.clock, **options)
        self.controllers = 1
        self.updates: list[LinkUpdate] = []
        self.agents: list[AgentConnection] = []
        self.commands: list[list[LinkFrame]] = []
        self.others: list[Proxy] = []
        self.awaited: list[int] = []  # other descriptors that somebody reads from

    def agent(
        self, index: int = 0, *, keys=KEYS, token: str = "", port: int = 0, attempt: int = 0, **given
    ) -> AgentConnection:
        """An agent of worker:index. It connects to `port` of this machine, or to the server."""
        orders = self.orders(keys, port or self.server.port, attempt, token, index)._replace(**given)
        facts = AgentFacts(index, f"n{index}", ["127.0.0.1"], "boot", 1)
        agent = AgentConnection(orders, facts, lambda: {"started": False}, self.clock)
        self.agents.append(agent)
        self.commands.append([])
        return agent

    def orders(self, keys, port: int, attempt: int, token: str, index: int) -> AgentOrders:
        tokens = [token or task_token(keys, attempt, "worker", each) for each in range(index + 1)]
        return AgentOrders(["127.0.0.1"], port, keys.certificate, "run", None, attempt, "worker", tokens)

    def proxy(self) -> Proxy:
        proxy = Proxy(self)
        self.others.append(proxy)
        return proxy

    def restart(self) -> None:
        """The controller dies, and another one listens on another port."""
        old = self.server.port
        self.server.close()
        self.controllers += 1
        while self.server.port == old:
            self.server = LinkServer(
                KEYS, self.expect, f"controller {self.controllers}", now=self.clock, **self.options
            )

    def kinds(self, kind: type) -> list:
        return [update for update in self.updates if isinstance(update, kind)]

    def messages(self) -> list[tuple[str, object]]:
        return [(str(m.task), m.header["n"]) for m in self.kinds(Message)]

    def turn(self, patience: float = 0.002) -> None:
        parties = [self.server, *self.agents]
        fds = self.awaited + [one.fileno() for one in parties] + [fd for other in self.others for fd in other.fds()]
        if min(one.due for one in parties) > self.clock.time and not select.select(fds, [], [], patience)[0]:
            self.clock.advance(min(one.due for one in parties))
        self.updates += self.server.poll()
        for agent, commands in zip(self.agents, self.commands, strict=True):
            commands += agent.poll()
        for other in self.others:
            other.poll()

    def until(self, condition: Callable[[], object]) -> None:
        for _ in range(_TURNS):
            if condition():
                return
            self.turn()
        raise AssertionError(f"it does not come; updates: {self.updates}")

    def settle(self) -> None:
        """Until all that agents have sent is acknowledged."""
        self.until(lambda: not any(agent.unacked for agent in self.agents))

    def close(self) -> None:
        for one in (*self.agents, self.server, *self.others):
            one.close()


class Pair:
    """A connection through the proxy: both sockets, and how many bytes have passed in each direction."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.sockets = (near, far)
        self.passed = [0, 0]

    def close(self) -> None:
        for each in self.sockets:
            each.close()


class Proxy:
    """Carries connections to the rig's server. `limits` are the bytes that the next connections may send in each
    direction (to the server, to the agent) before they are cut. What `holds` is carried nowhere, but stays open."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.limits: list[tuple[float, float]] = []
        self.pairs: list[Pair] = []
        self.held: list[Pair] = []
        self.piece = 1 << 16
        self._limits: dict[Pair, tuple[float, float]] = {}

    def fds(self) -> list[int]:
        return [self._listener.fileno(), *(each.fileno() for pair in self.pairs for each in pair.sockets)]

    def hold(self) -> None:
        """From now on nothing passes on the connections that there are, as if a cable had been pulled."""
        self.held += self.pairs
        self.pairs = []

    def cut(self) -> None:
        for pair in self.pairs:
            pair.close()
        self.pairs = []

    def poll(self) -> None:
        if select.select([self._listener], [], [], 0)[0]:
            self._take(self._listener.accept()[0])
        for pair in list(self.pairs):
            for way, (source, target) in enumerate((pair.sockets, pair.sockets[::-1])):
                if pair in self.pairs and select.select([source], [], [], 0)[0]:
                    self._carry(pair, way, source, target)

    def _take(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._rig.server.port))
        except OSError:
            near.close()
            return
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the clock would not wait for the kernel
        pair = Pair(near, far)
        self.pairs.append(pair)
        self._limits[pair] = self.limits.pop(0) if self.limits else (float("inf"), float("inf"))

    def _carry(self, pair: Pair, way: int, source: socket.socket, target: socket.socket) -> None:
        left = self._limits[pair][way] - pair.passed[way]
        data = b""
        with suppress(OSError):
            data = source.recv(int(min(self.piece, left)) or 1)
        passed = data[: int(min(left, len(data)))]
        pair.passed[way] += len(passed)
        with suppress(OSError):
            target.sendall(passed)
        if not data or pair.passed[way] >= self._limits[pair][way]:
            self.pairs.remove(pair)
            pair.close()

    def close(self) -> None:
        self.cut()
        for pair in self.held:
            pair.close()
        self._listener.close()
