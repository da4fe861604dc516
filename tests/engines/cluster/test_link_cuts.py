"""Whatever happens to connections: nothing is lost, nothing comes twice, and all comes in order."""

from __future__ import annotations

import json

import pytest
from tests.engines.cluster.link_rig import WORKER, Rig

from kedge.engines.base import Task
from kedge.engines.cluster import link_selector
from kedge.engines.cluster.link_updates import Joined, Lost, Silent
from kedge.link import messages

NO_LIMIT = float("inf")


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def numbers(rig: Rig, agent: int = 0) -> list[object]:
    return [command.header["n"] for command in rig.commands[agent]]


def test_messages_and_commands_come_in_order_and_are_acknowledged(rig):
    agents = [rig.agent(index) for index in range(3)]
    for n in range(5):
        for agent in agents:
            agent.send(messages.EVENT, {"n": n})
    rig.until(lambda: len(rig.kinds(Joined)) == 3)
    for n in range(5):
        assert rig.server.send(WORKER, messages.CONTROL, {"n": n})
    rig.settle()
    rig.until(lambda: len(rig.commands[0]) == 5)
    for index in range(3):
        assert [n for task, n in rig.messages() if task == f"worker:{index}"] == list(range(5))
    assert numbers(rig) == list(range(5))
    assert rig.commands[1:] == [[], []]


def test_bodies_arrive_as_they_were_sent(rig):
    agent = rig.agent()
    body = bytes(range(256)) * 4096
    agent.send(messages.FILE, {"n": 0}, body)
    agent.send(messages.FILE, {"n": 1}, b"")
    rig.settle()
    assert [message.body for message in rig.updates[1:]] == [body, b""]


def test_nothing_is_acknowledged_before_the_next_poll(rig):
    agent = rig.agent()
    agent.send(messages.EVENT, {"n": 0})
    rig.until(lambda: rig.messages())
    for _ in range(20):
        agent.poll()
    assert agent.unacked == 1
    assert rig.server.due <= rig.clock.time, "the loop calls poll at once"
    rig.settle()


def exchange(rig: Rig, through: int) -> None:
    """Three messages and three commands, the last of which are long."""
    agent = rig.agent(port=through)
    for n in range(3):
        agent.send(messages.EVENT, {"n": n, "text": "x" * 600 * n})
    rig.until(lambda: rig.kinds(Joined))
    for n in range(3):
        rig.server.send(WORKER, messages.CONTROL, {"n": n, "text": "y" * 600 * n})
    rig.settle()
    rig.until(lambda: len(rig.commands[0]) >= 3)
    for _ in range(3):
        rig.turn(0)
    assert rig.messages() == [("worker:0", n) for n in range(3)]
    assert numbers(rig) == [0, 1, 2]


@pytest.mark.parametrize("way", [0, 1], ids=["to-controller", "to-agent"])
@pytest.mark.parametrize("first", range(0, 3600, 450))
def test_a_connection_may_be_cut_at_any_byte(way, first):
    """Each test cuts a connection at every 37th byte of its range: in the handshake, in headers, in bodies."""
    for at in range(first, first + 450, 37):
        rig = Rig()
        proxy = rig.proxy()
        proxy.limits = [(at, NO_LIMIT) if way == 0 else (NO_LIMIT, at)] * 2
        exchange(rig, proxy.port)
        rig.close()


def test_every_connection_may_be_cut(rig):
    """Each one carries a little more than the one before, and none carries all."""
    proxy = rig.proxy()
    proxy.limits = [(2000 + 300 * n, NO_LIMIT) for n in range(30)]
    agent = rig.agent(port=proxy.port)
    for n in range(200):
        agent.send(messages.EVENT, {"n": n, "text": "x" * 50})
    rig.settle()
    assert [n for _, n in rig.messages()] == list(range(200))
    assert len(rig.kinds(Lost)) > 5
    assert {joined.again for joined in rig.kinds(Joined)[1:]} == {True}


def test_a_connection_that_carries_one_byte_at_a_time_works(rig):
    proxy = rig.proxy()
    proxy.piece = 1
    exchange(rig, proxy.port)


def test_commands_for_an_agent_that_is_lost_are_sent_when_it_is_back(rig):
    proxy = rig.proxy()
    rig.agent(port=proxy.port)
    rig.until(lambda: rig.kinds(Joined))
    proxy.cut()
    rig.until(lambda: rig.kinds(Lost))
    for n in range(3):
        assert rig.server.send(WORKER, messages.CONTROL, {"n": n})
    rig.until(lambda: len(rig.commands[0]) == 3)
    assert numbers(rig) == [0, 1, 2]


def test_a_command_for_a_task_that_never_joined_is_not_sent(rig):
    assert not rig.server.send(WORKER, messages.CONTROL, {})


def test_an_agent_that_is_slow_to_read_holds_up_nobody(rig):
    """It reads nothing while the controller has far more for it than any buffer of the system holds."""
    slow, quick = rig.agent(0), rig.agent(1)
    rig.until(lambda: len(rig.kinds(Joined)) == 2)
    rig.agents.remove(slow)
    rig.commands.pop(0)
    for n in range(12):
        rig.server.send(WORKER, messages.START, {"n": n, "text": "x" * (2 << 20)})
    quick.send(messages.EVENT, {"n": 1})
    rig.server.send(Task("worker", 1), messages.CONTROL, {"n": 2})
    rig.settle()
    rig.until(lambda: rig.commands[0])
    rig.agents.append(slow)
    rig.commands.append([])
    rig.until(lambda: len(rig.commands[1]) == 12)
    assert numbers(rig, 1) == list(range(12))
    assert not rig.kinds(Lost)


def test_of_many_that_speak_at_once_each_has_its_turn(rig, monkeypatch):
    """What they say is in memory until it is stored, so not all of them are heard in the same turn."""
    monkeypatch.setattr(link_selector, "_MOST_READY", 4)
    agents = [rig.agent(index) for index in range(12)]
    rig.until(lambda: all(agent.connected for agent in agents))
    loud = agents[:-1]
    for turn in range(60):
        for agent in loud:
            agent.send(messages.FILE, {"n": turn}, bytes(20_000))
        if turn == 30:
            agents[-1].send(messages.EVENT, {"n": "quiet"})
        for agent in agents:
            agent.poll()
        found = rig.server.poll()
        rig.updates += found
        assert len({update.task for update in found}) <= 4
    assert ("worker:11", "quiet") in rig.messages()
    rig.settle()
    for index in range(11):
        assert [n for task, n in rig.messages() if task == f"worker:{index}"] == [*range(60)]


def test_a_half_open_connection_is_replaced(rig):
    """The agent's side has noticed that nothing comes; for the controller the old connection still looks open."""
    proxy = rig.proxy()
    agent = rig.agent(port=proxy.port)
    agent.send(messages.EVENT, {"n": 0})
    rig.settle()
    proxy.hold()
    agent.send(messages.EVENT, {"n": 1})
    rig.server.send(WORKER, messages.CONTROL, {"n": 0})
    before = rig.clock.time
    rig.until(lambda: len(rig.kinds(Joined)) == 2)
    assert rig.clock.time - before <= messages.DEAD_SEC + 10
    rig.settle()
    assert [n for _, n in rig.messages()] == [0, 1]
    rig.until(lambda: rig.commands[0])
    assert numbers(rig) == [0]


def test_the_new_connection_of_a_task_closes_the_old_one(rig):
    """The agent dials again while the controller has noticed nothing."""
    proxy = rig.proxy()
    agent = rig.agent(port=proxy.port)
    rig.until(lambda: agent.connected)
    (pair,) = proxy.pairs
    proxy.hold()
    pair.sockets[0].close()  # only the agent's half
    rig.until(lambda: len(rig.kinds(Joined)) == 2)
    pair.sockets[1].settimeout(20)
    while pair.sockets[1].recv(1 << 16):
        pass
    agent.send(messages.EVENT, {"n": 7})
    rig.settle()
    assert [n for _, n in rig.messages()] == [7]


def test_a_restarted_controller_is_found_at_its_new_port_and_gets_what_was_not_acknowledged(rig, tmp_path):
    file = tmp_path / "address.json"
    file.write_text(json.dumps({"addresses": ["127.0.0.1"], "port": rig.server.port, "controller": "1"}))
    agent = rig.agent(address_file=str(file))
    agent.send(messages.EVENT, {"n": 0})
    rig.settle()
    rig.server.send(WORKER, messages.CONTROL, {"n": 0})
    rig.until(lambda: rig.commands[0])
    agent.send(messages.EVENT, {"n": 1})
    rig.until(lambda: len(rig.messages()) == 2)
    rig.restart()  # before it has acknowledged
    agent.send(messages.EVENT, {"n": 2})
    file.write_text(json.dumps({"addresses": ["127.0.0.1"], "port": rig.server.port, "controller": "2"}))
    rig.settle()
    assert [n for _, n in rig.messages()] == [0, 1, 1, 2], "a new controller does not know what the old one has stored"
    assert [joined.again for joined in rig.kinds(Joined)] == [False, False]
    rig.server.send(WORKER, messages.CONTROL, {"n": 1})
    rig.until(lambda: len(rig.commands[0]) == 2)
    assert numbers(rig) == [0, 1], "the first command of the new controller is not taken for an old one"


def test_a_controller_that_has_moved_is_found_where_no_folder_is_shared(rig):
    agent = rig.agent(address_file="/nowhere/address.json")
    rig.until(lambda: agent.connected)
    rig.restart()
    agent.moved(["::1", "127.0.0.1"], rig.server.port)
    rig.until(lambda: not agent.connected)
    rig.until(lambda: agent.connected)


def test_addresses_that_lead_nowhere_are_passed_over(rig):
    """One is no address, one does not answer or cannot be reached, one refuses."""
    agent = rig.agent(addresses=["no address", "192.0.2.1", "0.0.0.0.0", "", "127.0.0.1"])
    rig.until(lambda: agent.connected)
    assert agent.error == ""


def test_a_message_that_takes_minutes_arrives(rig):
    """Before it is complete nothing is acknowledged, and yet the agent knows that the controller is there."""
    proxy = rig.proxy()
    agent = rig.agent(port=proxy.port)
    rig.until(lambda: agent.connected)
    proxy.piece = 4096
    agent.send(messages.FILE, {"n": 1}, bytes(1 << 20))
    began = rig.clock.time
    while not rig.messages() and rig.clock.time < began + 1000:
        rig.turn(0)
        rig.clock.time += 1
    assert rig.clock.time > began + 3 * messages.DEAD_SEC
    assert len(rig.kinds(Joined)) == len(rig.messages()) == 1


def test_the_time_in_which_the_controller_did_not_listen_is_no_silence(rig):
    """It was suspended, or its disk has hung. The agents have given up their connections, and come back."""
    for index in range(3):
        rig.agent(index)
    rig.until(lambda: len(rig.kinds(Joined)) == 3)
    rig.clock.time += 600
    rig.until(lambda: len(rig.kinds(Joined)) == 6)
    assert not rig.kinds(Silent)
    for agent in rig.agents:
        agent.close()
    rig.agents.clear()
    rig.commands.clear()
    before = rig.clock.time
    rig.until(lambda: len(rig.kinds(Silent)) == 3)
    assert rig.clock.time <= before + 120
