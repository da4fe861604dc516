"""What agents say with the right token is not trusted either: whoever has the agent has the token."""

from __future__ import annotations

import json
import random
import select
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kedge.engines.base import Ended, Started, Task
from kedge.engines.cluster import agent_messages
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.member import Member
from kedge.engines.cluster.settings import ClusterSettings
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders
from kedge.resolve.model import Secrets
from kedge.runtime.agent.connection import AgentConnection, AgentFacts

from .link_rig import KEYS
from .scene import W0, ClusterScene, plan

REPORT = {
    "task": "w:0", "job_attempt": 0, "task_attempt": 0, "exit_code": 255, "user_exit_code": 1, "reason": "failed",
    "message": "", "started": "2026-11-24T04:27:33Z", "ended": "2026-11-24T04:27:33Z", "duration_sec": 0.1,
    "stopped_by": None, "killed": False, "removed_bytes": None,
    "diagnosis": {
        "cause": "bad_config", "behaviour": "permanent", "confidence": "sure", "owner": "user code", "meaning": "",
        "remedy": [""], "evidence": [],
    },
}  # fmt: skip
EVENTS = ("running", "hook-retrying", "stopping", "stop-announced", "held", "service-started", "service-ended")
FACTS = ("limit", "step", "message", "next_try", "tries", "delay_sec", "by", "text", "code", "hold_sec", "address")
PATHS = ("runtime.log", "report.json", "events.jsonl", "user-all/current", "output/x", "output/../x")


class NoCluster:
    """A cluster whose agents come from elsewhere, and which has nothing to say."""

    due = float("inf")
    relaunches = False

    def __init__(self) -> None:
        self._epoll = select.epoll()

    def fileno(self) -> int:
        return self._epoll.fileno()

    def poll(self) -> list[Any]:
        return []

    def launch(self, attempt: int, tokens: object) -> None:
        """They come."""

    def end(self, attempt: int) -> None:
        """They stay."""

    def close(self) -> None:
        self._epoll.close()

    def whereabouts(self, task: Task) -> str:
        return ""


class Liar:
    """Says what no agent would, in the right words."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pick = self._random.choice

    def value(self, depth: int = 0) -> Any:
        if depth == 2 or self._random.random() < 0.6:
            return self._pick((None, True, 0, -1, 1 << 62, 0.5, 1e308, "", "x" * 5000, "w:0", "\x1b[31m", *PATHS))
        values = [self.value(depth + 1) for _ in range(self._random.randrange(4))]
        return self._pick((values, dict(zip(FACTS, values, strict=False))))

    def report(self) -> Any:
        found: dict[str, Any] = json.loads(json.dumps(REPORT))
        part = self._pick((found, found["diagnosis"]))
        part[self._pick([*part])] = self.value()
        return self._pick((found, REPORT, self.value()))

    def state(self) -> dict[str, Any]:
        ended = {"task_attempt": 0, "report": self.report(), "code": self.value(), "text": self.value()}
        told = {"ports": {}, "task_attempt": 0, "started": True, "ended": self._pick((ended, None, self.value()))}
        return self._pick(({}, told, dict.fromkeys(told, self.value())))

    def message(self) -> tuple[str, dict[str, Any], bytes]:
        """Kind, header and body."""
        line = {"event": self._pick(EVENTS), "task": self._pick(("w:0", "w:1", self.value()))}
        line |= {name: self.value() for name in FACTS}
        file = {"mirror": self._pick(("a", self.value())), "op": self._pick((*range(1, 9), self.value()))}
        file |= {"do": self._pick(("ask", "write", "rename", "remove", "end")), "new": self.value()}
        file |= {"path": self._pick((*PATHS, self.value())), "to": self._pick((*PATHS, self.value()))}
        file |= {name: self._pick((0, self.value())) for name in ("offset", "skipped_files", "skipped_bytes")}
        kind, header = self._pick((
            ("reserved", {"ports": self._pick(({}, self.value())), "error": self.value()}),
            ("event", {"line": self._pick((line, line, self.value()))}),
            ("ended", {"report": self.report(), "code": self.value(), "text": self.value()}),
            ("file", file),
            ("code-wanted", {"offset": self.value()}),
        ))  # fmt: skip
        body = self._pick((b"", json.dumps(self.report()).encode(), bytes(9)))
        return kind, {"task_attempt": self._pick((0, 0, 0, self.value())), **header}, body


@pytest.fixture(params=["shared", "mirrored"])
def backend(request: pytest.FixtureRequest, scene: ClusterScene) -> Iterator[ClusterBackend]:
    server = LinkServer(KEYS, lambda *who: made.expects(*who), "controller")
    settings = ClusterSettings(shares_folder=request.param == "shared", finish_sec=0.0)

    def emit(event: str, **facts: Any) -> None:
        json.dumps([event, facts])

    made = ClusterBackend(
        plan("true"),
        scene.run,
        Secrets({}, {}),
        KEYS,
        server,
        NoCluster(),
        emit,
        lambda *_: None,
        settings,  # type: ignore[arg-type]
    )
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_agents_say_the_controller_goes_on(backend: ClusterBackend, seed: int) -> None:
    liar, token = Liar(seed), task_token(KEYS, 0, "w", 0)
    orders = AgentOrders(["127.0.0.1"], backend._server.port, KEYS.certificate, "run", None, 0, "w", [token])
    facts = AgentFacts(0, "\x1b[31m\n", ["127.0.0.1", "", "x"], "", 1)
    backend.place(0)
    backend.start(W0, 0, 0, ())
    seen: set[type] = set()
    for _ in range(12):
        agent = AgentConnection(orders, facts, liar.state)
        for _ in range(40):
            agent.send(*liar.message())
        while agent.unacked:
            due = min(agent.due, backend.due) - time.monotonic()
            select.select([agent, backend], [], [], max(0.0, min(due, 1.0)))
            agent.poll()
            for update in backend.poll():
                seen.add(type(update))
                if isinstance(update, Ended):
                    json.dumps(update.report._asdict())
                    backend.start(W0, 0, 0, ())
        agent.close()
    assert {Ended, Started} <= seen


def test_an_event_that_is_longer_than_any_is_none() -> None:
    line: Mapping[str, Any] = {"event": "running", "task": "w:0"}
    assert agent_messages.update({"line": line}, W0) == Started(W0)
    assert agent_messages.update({"line": {**line, "text": "ü" * 2000}}, W0) == Started(W0)
    assert agent_messages.update({"line": {**line, "text": "x" * 20_000}}, W0) is None
    assert agent_messages.update({"line": line}, Task("w", 1)) is None, "an agent speaks for its own task"


def test_a_problem_is_told_up_to_a_length() -> None:
    member = Member(W0)
    member.reserved({"error": "x" * 20_000}, plan("true").roles[0])
    said = member.problem, agent_messages.end({"text": "x" * 20_000}).text
    assert [len(text) for text in said] == [agent_messages.LONGEST_TEXT] * 2
