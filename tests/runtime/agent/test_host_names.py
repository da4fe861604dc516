"""Host names among the controller's addresses."""

from __future__ import annotations

import _socket
import json
import threading

from kedge.runtime.agent.dialing import Dialing
from kedge.runtime.agent.host_names import HostNames, is_numeric
from kedge.testing.wait import wait_until


def test_what_is_an_address():
    assert is_numeric("10.0.0.9")
    assert is_numeric("fd00::2")
    assert not any(map(is_numeric, ("driver.train.ns.svc", "localhost", "", "10.0.0", "x:y", "\udcff")))


def test_a_name_is_looked_up_in_the_background():
    names = HostNames(["no-such-host.invalid", "localhost"])
    assert names.look() == []
    assert set(wait_until(names.look)) <= {"127.0.0.1", "::1"}


def test_an_agent_does_not_wait_for_a_service_that_does_not_answer(monkeypatch):
    go_on = threading.Event()

    def slow(*arguments):
        assert go_on.wait(60)
        return [(2, 1, 6, "", ("10.9.9.9", 0))]

    monkeypatch.setattr(_socket, "getaddrinfo", slow)
    dialing = Dialing(None, ["10.0.0.9", "driver.train.ns.svc"], 7000, None)
    assert [dialing._targets() for _ in range(3)] == [[("10.0.0.9", 7000)]] * 3
    go_on.set()
    wait_until(lambda: dialing._targets() == [("10.0.0.9", 7000), ("10.9.9.9", 7000)])


def test_a_name_counts_besides_the_address_file(tmp_path):
    file = tmp_path / "..data"
    (tmp_path / "address.json").symlink_to("..data")  # as the kubelet shows a ConfigMap
    file.write_text(json.dumps({"addresses": ["10.0.0.10"], "port": 7001}))
    dialing = Dialing(None, ["10.0.0.9", "localhost"], 7000, str(tmp_path / "address.json"))
    assert dialing._targets()[0] == ("10.0.0.10", 7001)
    assert ("10.0.0.9", 7000) not in dialing._targets()
    wait_until(lambda: ("127.0.0.1", 7001) in dialing._targets())
