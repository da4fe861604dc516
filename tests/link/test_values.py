"""Keys, tokens, orders and the first message."""

from __future__ import annotations

import itertools
import json

import pytest

from kedge.jobs import link_keys
from kedge.link.frames import BadFrame
from kedge.link.keys import LinkKeys, task_token
from kedge.link.launch import AgentOrders
from kedge.link.messages import Hello

ORDERS = AgentOrders(["10.0.0.1", "fe80::1"], 4711, "PEM", "run", None, 3, "worker", ["a", "b"])
HELLO = Hello("token", 0, "worker", 1, "agent", "n1", ["10.0.0.1"], "boot", 42, 7, "controller", {"started": True})


def test_each_task_of_each_attempt_has_a_token_of_its_own():
    keys = link_keys.made()
    tasks = [*itertools.product(range(3), ("a", "a:1", "1/a", "b"), range(12))]
    tokens = {task_token(keys, *task) for task in tasks}
    assert len(tokens) == len(tasks)
    assert task_token(keys, *tasks[0]) in tokens, "always the same"
    assert task_token(link_keys.made(), *tasks[0]) not in tokens
    assert {len(token) for token in tokens} == {64}


def test_keys_are_new_each_time_and_travel_as_json():
    first, second = link_keys.made(), link_keys.made()
    assert not set(first) & set(second)
    assert LinkKeys.from_json(json.loads(json.dumps(first.to_json()))) == first


@pytest.mark.parametrize("data", [None, [], {}, {"certificate": "", "key": "", "token_key": "", "owner": 1}])
def test_what_holds_no_keys_is_refused(data):
    with pytest.raises(ValueError, match="keys of a link"):
        LinkKeys.from_json(data)


@pytest.mark.parametrize("orders", [ORDERS, ORDERS._replace(address_file="/shared/address.json")])
def test_orders_are_one_line(orders):
    line = orders.line()
    assert line.count(b"\n") == 1
    assert AgentOrders.from_line(line) == orders


@pytest.mark.parametrize(
    "change", [{"port": "1"}, {"tokens": [1]}, {"tokens": None}, {"address_file": 1}, {"addresses": "x"}, None]
)
def test_wrong_orders_are_refused(change):
    data = {**ORDERS._asdict(), **change} if change else []
    with pytest.raises(ValueError, match="orders of an agent"):
        AgentOrders.from_line(json.dumps(data).encode())


def test_no_part_of_the_orders_may_be_missing():
    for name in ORDERS._fields:
        data = {key: value for key, value in ORDERS._asdict().items() if key != name}
        with pytest.raises(ValueError, match="orders of an agent"):
            AgentOrders.from_line(json.dumps(data).encode())


def test_hello_travels_as_json():
    assert Hello.from_header(json.loads(json.dumps(HELLO.header()))) == HELLO


@pytest.mark.parametrize("name", Hello._fields)
def test_a_wrong_hello_is_refused(name):
    for wrong in (None, 1.5, {"a": 1} if name != "state" else [], [1], True):
        with pytest.raises(BadFrame, match=f"`{name}`"):
            Hello.from_header({**HELLO.header(), name: wrong})
    with pytest.raises(BadFrame, match=f"`{name}`"):
        Hello.from_header({key: value for key, value in HELLO.header().items() if key != name})
