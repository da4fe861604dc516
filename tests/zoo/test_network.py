"""Servers that do not exist, refuse connections, break off or deny access."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import GIT, NETWORKS
from .servers import answers, resets, silent

FETCH = """
    import os
    import urllib.request


    def fetch(url):
        return urllib.request.urlopen(url, timeout={timeout}).read()


    fetch({url})
"""
OFFLINE = "unshare --map-root-user --net python train.py"  # not even a loopback device that is up
HERE = "os.environ['URL']"
NOBODY = "'http://127.0.0.1:' + os.environ['PAI_PORT_LIST_worker_0_main']"


def fetch(url: str = HERE, timeout: float = 30) -> str:
    """A download that fails in line 6, in `fetch`."""
    return FETCH.format(url=url, timeout=timeout)


CASES = [
    Case("no DNS", "network_unreachable", fetch("'http://data.invalid/'"), OFFLINE, frame="train.py:6 in fetch",
         needs=(NETWORKS,)),
    Case("no route", "network_unreachable", fetch("'http://192.0.2.1/'"), OFFLINE, frame="train.py:6 in fetch",
         needs=(NETWORKS,)),
    Case("connection refused", "network_transient", fetch(NOBODY), frame="train.py:6 in fetch"),
    Case("connection reset", "network_transient", fetch(), place=resets, frame="train.py:6 in fetch"),
    Case("no answer", "network_transient", fetch(timeout=0.2), place=silent, frame="train.py:6 in fetch"),
    Case("download cut short", "network_transient", fetch(), place=answers(200), frame="train.py:6 in fetch"),
    Case("too many requests", "network_transient", fetch(), place=answers(429), frame="train.py:6 in fetch"),
    Case("service unavailable", "network_transient", fetch(), place=answers(503), frame="train.py:6 in fetch"),
    Case("forbidden", "remote_access_denied", fetch(), place=answers(403), frame="train.py:6 in fetch"),
    Case("not logged in", "remote_access_denied", fetch(), place=answers(401), frame="train.py:6 in fetch"),
    Case("curl, forbidden", "remote_access_denied", command="curl -fsS $URL -o data.bin", place=answers(403)),
    Case("curl, refused", "network_transient", command="curl -fsS http://127.0.0.1:$PAI_PORT_LIST_worker_0_main/x"),
    Case("git, no such repository", "bad_config", command="git clone ./absent.git code", needs=(GIT,)),
    Case("git, not logged in", "remote_access_denied",
         command="GIT_TERMINAL_PROMPT=0 git clone $URL code", place=answers(401), needs=(GIT,)),
    Case("git, service unavailable", "network_transient", command="git clone $URL", place=answers(503), needs=(GIT,)),
    Case(
        "port in use",
        "port_in_use",
        """
        import socket


        def serve(port):
            server = socket.socket()
            server.bind(("127.0.0.1", port))
            server.listen()
            return server


        first = serve(0)
        serve(first.getsockname()[1])
        """,
        frame="train.py:6 in serve",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_network(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
