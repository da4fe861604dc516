"""Strangers: who may not speak gets nothing, harms nobody and keeps nobody out."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
from tests.engines.cluster.link_rig import KEYS, OTHER_KEYS, WORKER, Rig

from kedge.engines.cluster import link_admission
from kedge.engines.cluster.link_updates import Heard, Joined, Lost, OwnerRequest, Silent
from kedge.engines.cluster.owner_client import ask
from kedge.errors import CannotRun
from kedge.link import messages
from kedge.link.frames import FrameReader, encoded
from kedge.link.keys import task_token
from kedge.link.messages import Hello


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


class Stranger:
    """A client of its own, whose steps the rig makes possible by turning."""

    def __init__(self, rig: Rig, tls: bool = True) -> None:
        self.rig = rig
        self.socket = socket.create_connection(("127.0.0.1", rig.server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the clock would not wait for the kernel
        self.socket.setblocking(False)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.load_verify_locations(cadata=KEYS.certificate)
            self.socket = context.wrap_socket(self.socket, do_handshake_on_connect=False)
            self._patiently(self.socket.do_handshake)

    def _patiently(self, act):
        result = []

        def tried() -> bool:
            try:
                result.append(act())
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                return False
            except (ConnectionError, ssl.SSLError):
                result.append(b"")
            return True

        self.rig.awaited.append(self.socket.fileno())
        self.rig.until(tried)
        self.rig.awaited.clear()
        return result[0]

    def say(self, data: bytes) -> None:
        self._patiently(lambda: self.socket.send(data))

    def hear(self):
        """The next message; None at the end of the connection."""
        reader = FrameReader()
        while not (frame := reader.next()):
            data = self._patiently(lambda: self.socket.recv(1 << 16))
            if not data:
                self.socket.close()
                return None
            reader.feed(data)
        return frame


def hello(**changes) -> bytes:
    right = Hello(task_token(KEYS, 0, "worker", 0), 0, "worker", 0, "agent", "n", [], "boot", 1)
    return encoded(right._replace(**changes).header())


def works(rig: Rig) -> None:
    """A real agent comes through."""
    agent = rig.agent()
    agent.send(messages.EVENT, {"n": 1})
    rig.settle()
    assert rig.messages()[-1] == ("worker:0", 1)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\x16\x03\x01" + b"\xff" * 600, b"\n"])
def test_who_does_not_speak_tls_is_cut_off(rig, data):
    stranger = Stranger(rig, tls=False)
    stranger.say(data)
    while stranger._patiently(lambda: stranger.socket.recv(100)):
        pass  # the alert of TLS
    stranger.socket.close()
    assert rig.updates == []
    works(rig)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 100,
        b"\xff" * 100,
        b"\0\0\0\2\0\0\0\0{}",
        encoded({"kind": "hello"}),
        encoded({"kind": "hello", "version": 2}),
        encoded({"kind": "event", "seq": 1, "version": 1}),
        encoded({"kind": "request", "request": "kill"}),
        encoded({"kind": "hello", "version": 1, "owner": ""}),
        encoded({"kind": "hello", "version": 1, "owner": None}),
        encoded({"kind": "hello", "version": 1, "owner": "ü" * 64}),
        encoded({"kind": "hello", "version": 1, "owner": KEYS.owner[:-1]}),
        encoded({"kind": "hello", "version": 1, "owner": task_token(KEYS, 0, "worker", 0)}),
        hello(token=""),
        hello(token="ü"),
        hello(token=KEYS.owner),
        hello(token=KEYS.token_key),
        hello(token=task_token(OTHER_KEYS, 0, "worker", 0)),
        hello(task_index=1),
        hello(task_index=-1),
        hello(attempt=1),
        hello(role="ps"),
        hello(role="worker:0", task_index=0),
        (65 << 10).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big") + b"{" * (70 << 10),
    ],
    ids=range(23),
)
def test_who_has_no_right_token_is_refused(rig, data):
    stranger = Stranger(rig)
    stranger.say(
        data + encoded({"kind": "event", "seq": 1, "n": 666}) + encoded({"kind": "request", "request": "kill"})
    )
    answer = stranger.hear()
    assert answer.kind == messages.REFUSED
    assert rig.updates == []
    assert stranger.hear() is None, "and then the connection is closed"
    works(rig)
    assert [n for _, n in rig.messages()] == [1]


def test_a_large_header_is_refused_before_it_has_come(rig):
    stranger = Stranger(rig)
    stranger.say((1 << 24).to_bytes(4, "big") + bytes(4) + b"{")
    assert "the limit is 65536" in stranger.hear().header["error"]
    stranger.socket.close()


def test_what_strangers_send_is_bounded(rig):
    """A body is none of theirs, what comes after a refusal is not kept, and nobody else waits for them."""
    strangers = [Stranger(rig) for _ in range(4)]
    for stranger, lengths in zip(strangers, [(10, 1 << 20), (1 << 16, 1), (1 << 31, 0), (1 << 16, 0)], strict=True):
        stranger.say(b"".join(each.to_bytes(4, "big") for each in lengths) + b"{" * 60_000)
    for stranger in strangers[:3]:
        assert "the limit is" in stranger.hear().header["error"]
        stranger.say(b"{" * 60_000)
    rig.turn()
    kept = [len(one.stream._reader._data) for one in rig.server._strangers._all.values()]
    assert sum(kept) <= 1 << 16
    works(rig)
    for stranger in strangers:
        stranger.socket.close()


def test_who_says_nothing_has_ten_seconds(rig):
    silent, slow = Stranger(rig, tls=False), Stranger(rig)
    slow.say(hello()[:-1])
    before = rig.clock.time
    assert silent._patiently(lambda: silent.socket.recv(1)) == b""
    assert slow.hear() is None
    assert rig.clock.time == before + messages.FIRST_FRAME_SEC
    silent.socket.close()
    works(rig)


def test_a_flood_of_strangers_keeps_no_agent_out(rig, monkeypatch):
    """They say nothing, and come again whenever they are cut off."""
    monkeypatch.setattr(link_admission, "_MOST_WAITING", 20)
    flood = [socket.create_connection(("127.0.0.1", rig.server.port)) for _ in range(200)]
    agents = [rig.agent(index) for index in range(30)]
    rig.until(lambda: all(agent.connected for agent in agents))
    for agent in agents:
        agent.send(messages.EVENT, {"n": 1})
    rig.settle()
    assert len(rig.messages()) == 30
    for each in flood:
        each.close()


def test_at_no_time_are_there_more_strangers_than_allowed(rig, monkeypatch):
    monkeypatch.setattr(link_admission, "_MOST_WAITING", 20)
    flood = [socket.create_connection(("127.0.0.1", rig.server.port)) for _ in range(200)]
    seen = set()
    while rig.clock.time < 1015:
        rig.turn()
        seen.add(len(rig.server._strangers._all))
    assert max(seen) == 20
    for each in flood:
        each.close()
    works(rig)


def test_a_shortage_of_descriptors_passes(rig, monkeypatch):
    import errno

    accept, failures = rig.server._listener._socket.accept, [OSError(errno.EMFILE, "")] * 3

    class Listening:
        def accept(self):
            if failures:
                raise failures.pop()
            return accept()

        def __getattr__(self, name):
            return getattr(real, name)

    real = rig.server._listener._socket
    monkeypatch.setattr(rig.server._listener, "_socket", Listening())
    works(rig)
    assert failures == []


def test_an_agent_speaks_to_its_own_controller_only(rig):
    """The server has another certificate than the agent's orders say: it learns nothing, not even the token."""
    agent = rig.agent(keys=OTHER_KEYS)
    before = rig.clock.time
    rig.until(lambda: rig.clock.time > before + 30)
    assert "another program answers there" in agent.error
    assert not agent.connected
    assert rig.updates == []


def test_tokens_do_not_leave_the_link(rig):
    works(rig)
    assert task_token(KEYS, 0, "worker", 0) not in repr(rig.updates)


def test_an_agent_that_is_not_wanted_is_told_so_for_good(rig):
    rig.expect = None
    rig.server._expect = lambda attempt, *_: attempt == 1
    rig.agent()
    rig.until(lambda: rig.commands[0])
    (refused,) = rig.commands[0]
    assert refused.kind == messages.REFUSED
    assert refused.header["error"] == "the job attempt, or this attempt of the task, is over"
    assert rig.agents[0].due == float("inf")
    assert rig.updates == []


def test_a_second_agent_of_a_task_takes_over_and_the_first_one_is_told(rig):
    proxy = rig.proxy()
    first = rig.agent(port=proxy.port)
    first.send(messages.EVENT, {"n": 0})
    rig.settle()
    rig.server.send(WORKER, messages.CONTROL, {"n": 0})
    rig.until(lambda: rig.commands[0])
    second = rig.agent()
    second.send(messages.EVENT, {"n": 1})
    rig.until(lambda: len(rig.commands[0]) == 2)
    assert rig.commands[0][1].kind == messages.REFUSED
    rig.settle()
    assert [n for _, n in rig.messages()] == [0, 1]
    assert [joined.again for joined in rig.kinds(Joined)] == [False, False]
    rig.server.send(WORKER, messages.CONTROL, {"n": 1})
    rig.until(lambda: rig.commands[1])
    assert [command.header["n"] for command in rig.commands[1]] == [1], "it gets what was sent to it, and no more"


def test_what_comes_again_before_it_was_processed_is_taken_once(rig):
    """The agent has connected again while the controller was busy: both connections are read in the same turn."""
    strangers = [Stranger(rig), Stranger(rig)]
    rig.turn()
    for stranger in strangers:
        stranger.say(hello() + encoded({"kind": "event", "seq": 1, "n": 1}))
    rig.until(rig.messages)
    rig.turn()
    assert [n for _, n in rig.messages()] == [1]
    assert [joined.again for joined in rig.kinds(Joined)] == [False, True]
    for stranger in strangers:
        stranger.socket.close()


def test_an_agent_that_speaks_and_does_not_read_takes_no_memory(rig):
    stranger = Stranger(rig)
    stranger.say(hello())
    rig.until(lambda: rig.kinds(Joined))
    rig.server.send(WORKER, messages.START, {"text": "x" * (12 << 20)})  # more than any buffer of the system holds
    stream = rig.server._sessions.of(WORKER).stream
    for n in range(1, 101):
        stranger.say(encoded({"kind": "event", "seq": n, "n": n}))
        rig.until(lambda n=n: len(rig.messages()) == n)
    assert len(stream._out) < 10
    reader, told = FrameReader(), []
    reader.trust()
    while not told or told[-1] != 100:
        reader.feed(stranger._patiently(lambda: stranger.socket.recv(1 << 16)))
        told += [frame.header.get("ack") for frame in iter(reader.next, None)]
    stranger.socket.close()


@pytest.mark.parametrize("seq", [2, 0.5, "1", None, True])
def test_an_agent_that_counts_wrongly_is_cut_off(rig, seq):
    stranger = Stranger(rig)
    stranger.say(hello() + encoded({"kind": "event", "seq": seq, "n": 1}))
    while (frame := stranger.hear()) and frame.kind != messages.REFUSED:
        pass
    assert frame, "it is told why"
    assert "instead of 1" in frame.header["error"]
    rig.until(lambda: rig.kinds(Lost))
    assert rig.messages() == []
    stranger.socket.close()


def test_who_falls_silent_is_reported_once_and_again_when_heard(rig):
    proxy = rig.proxy()
    rig.agent(port=proxy.port)
    rig.until(lambda: rig.kinds(Joined))
    before = rig.clock.time
    rig.until(lambda: rig.clock.time > before + 600)
    assert not rig.kinds(Silent), "heartbeats are enough"
    proxy.hold()
    (agent,) = rig.agents
    rig.agents, (commands,) = [], rig.commands
    rig.commands = []
    since = rig.clock.time
    rig.until(lambda: rig.kinds(Silent))
    assert len(rig.kinds(Lost)) == 1
    assert since + 90 < rig.clock.time <= since + 120
    (silent,) = rig.kinds(Silent)
    assert (silent.task, silent.attempt) == (WORKER, 0)
    assert rig.clock.time == silent.since + 120
    rig.agents, rig.commands = [agent], [commands]
    rig.until(lambda: rig.kinds(Heard))
    assert isinstance(rig.updates[-1], Joined)
    assert len(rig.kinds(Silent)) == 1


def test_an_attempt_that_is_forgotten_says_finish_and_closes(rig):
    agent = rig.agent()
    rig.until(lambda: agent.connected)
    rig.server.send(WORKER, messages.FINISH, {})
    rig.server._expect = lambda attempt, *_: attempt == 1
    rig.server.forget_attempt(0)
    rig.until(lambda: len(rig.commands[0]) == 1)
    assert rig.commands[0][0].kind == messages.FINISH
    agent.send(messages.EVENT, {"n": 1})
    rig.until(lambda: len(rig.commands[0]) == 2)
    assert rig.commands[0][1].kind == messages.REFUSED
    assert rig.messages() == []
    assert not rig.server.send(WORKER, messages.CONTROL, {})
    later = rig.agent(attempt=1)
    later.send(messages.EVENT, {"n": 2})
    rig.until(lambda: rig.messages())
    assert rig.server.send(WORKER, messages.CONTROL, {})


def asked(rig: Rig, keys, addresses=("127.0.0.1",), kind="stop", timeout_sec=20.0) -> list[str]:
    """The errors of a command that asks, which runs beside the loop."""
    errors: list[str] = []
    done = threading.Event()

    def run() -> None:
        try:
            ask(keys, addresses, rig.server.port, kind, "ada", timeout_sec)
        except CannotRun as error:
            errors.append(str(error))
        done.set()

    thread = threading.Thread(target=run)
    rig.clock.stopped = True  # it does not know what the thread waits for
    thread.start()
    rig.until(done.is_set)
    thread.join()
    return errors


@pytest.mark.parametrize("kind", messages.REQUESTS)
def test_the_owner_asks_and_is_answered(rig, kind):
    assert asked(rig, KEYS, kind=kind) == []
    assert rig.updates == [OwnerRequest(kind, "ada")]


def test_the_owner_learns_why_it_is_not_heard(rig):
    assert "the controller does not know the request 'explode'" in asked(rig, KEYS, kind="explode")[0]
    assert "the token is not the owner's" in asked(rig, KEYS._replace(owner="x"))[0]
    assert "another program answers there" in asked(rig, OTHER_KEYS)[0]
    assert "it has no address" in asked(rig, KEYS, addresses=())[0]
    assert rig.updates == []


def test_a_request_that_is_not_answered_is_not_made_again_at_another_address(rig, monkeypatch):
    """The controller has taken it, and then hangs: a second request to stop would be one to kill."""
    owners = rig.server._owners
    monkeypatch.setattr(owners, "answer", lambda: owners._asked.clear() or [])
    (error,) = asked(rig, KEYS, addresses=["127.0.0.1", "127.0.0.2"], timeout_sec=0.5)
    assert "received the request, but did not confirm it" in error
    assert rig.updates == [OwnerRequest("stop", "ada")]
