from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from kedge.claims.locks import Claims
from kedge.claims.ports import around, available, hold, pools, reserve

NOWHERE = Path("/proc/no-locks-here")  # only sockets decide


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def numbers(holds: list[socket.socket]) -> list[int]:
    return [held.getsockname()[1] for held in holds]


def reserved(stack: ExitStack, count: int) -> list[int]:
    holds = reserve(count, Claims(NOWHERE))
    for held in holds:
        stack.enter_context(held)
    return numbers(holds)


def test_different_ports_outside_the_ephemeral_range(stack: ExitStack) -> None:
    ports = reserved(stack, 50)
    assert len(set(ports)) == 50
    assert all(port in pools()[0] for port in ports)
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first, last = map(int, file.read().split())
    assert not [port for port in ports if first <= port <= last]


def test_reserving_no_ports() -> None:
    assert reserve(0, Claims(NOWHERE)) == []


def test_held_ports_accept_no_connection_and_are_not_inherited(stack: ExitStack) -> None:
    held = stack.enter_context(reserve(1, Claims(NOWHERE))[0])
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", held.getsockname()[1])) != 0
    assert not os.get_inheritable(held.fileno())


ADDRESSES = [
    pytest.param(socket.AF_INET, "127.0.0.1"),
    pytest.param(socket.AF_INET, "0.0.0.0"),
    *(
        pytest.param(
            socket.AF_INET6,
            address,
            marks=pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6"),
        )
        for address in ("::1", "::")
    ),
]


@pytest.mark.parametrize(("family", "address"), ADDRESSES)
def test_a_held_port_cannot_be_bound_until_it_is_closed(family: socket.AddressFamily, address: str) -> None:
    held = reserve(1, Claims(NOWHERE))[0]
    port = held.getsockname()[1]
    with socket.socket(family) as server:
        with pytest.raises(OSError, match="Address already in use"):
            server.bind((address, port))
        held.close()
        server.bind((address, port))
        server.listen()


@pytest.mark.parametrize(("family", "address"), ADDRESSES)
def test_a_port_in_use_on_any_address_is_not_free(family: socket.AddressFamily, address: str) -> None:
    held = reserve(1, Claims(NOWHERE))[0]
    port = held.getsockname()[1]
    with socket.socket(family) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.close()
        server.bind((address, port))
        server.listen()
        assert hold(port) is None
    again = hold(port)
    assert again
    again.close()


def test_ports_that_are_taken_are_skipped(stack: ExitStack) -> None:
    assert not set(reserved(stack, 3000)) & set(reserved(stack, 3000))


def test_jobs_that_start_together_get_different_ports(stack: ExitStack) -> None:
    with ThreadPoolExecutor(8) as pool:
        groups = list(pool.map(lambda _: reserve(200, Claims(NOWHERE)), range(8)))
    for held in [held for group in groups for held in group]:
        stack.enter_context(held)
    assert len({port for group in groups for port in numbers(group)}) == 1600


TRY = (
    "import os, resource, sys; from pathlib import Path\n"
    "from kedge.claims.locks import Claims; from kedge.claims.ports import reserve\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))\n"
    "before, held = len(os.listdir('/proc/self/fd')), []\n"
    "try: held = reserve(int(sys.argv[2]), Claims(Path('/proc/none')))\n"
    "except Exception as error: print(type(error).__name__, error)\n"
    "print(sorted(found.getsockname()[1] for found in held))\n"
    "[found.close() for found in held]\n"
    "print('left open:', len(os.listdir('/proc/self/fd')) - before)\n"
)


def run(files: int, count: int, *wrapper: str) -> str:
    """The output of a program that reserves `count` ports with a limit of `files` open files."""
    command = [*wrapper, sys.executable, "-W", "error", "-c", TRY, str(files), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and wrapper:
        pytest.skip(f"a network namespace cannot be made here: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_too_few_open_files_are_named() -> None:
    expected = r"CannotRun 100 TCP ports need 100 open files: Too many open files after \d\d\n\[\]\nleft open: 0\n"
    assert re.fullmatch(expected, run(60, 100))


def small_network(settings: str, count: int) -> str:
    """The output in a network namespace with these settings."""
    return run(1000, count, "unshare", "--net", "--map-root-user", "sh", "-ec", f'{settings}; exec "$@"', "sh")


def test_too_few_ports_are_named() -> None:
    settings = "echo '1030 65533' > /proc/sys/net/ipv4/ip_local_port_range"
    assert small_network(settings, 8) == f"{[*range(1024, 1030), 65534, 65535]}\nleft open: 0\n"
    expected = "CannotRun the job needs 9 TCP ports, and only 8 are free on this machine\n[]\nleft open: 0\n"
    assert small_network(settings, 9) == expected


def test_ports_reserved_by_the_administrator_are_skipped() -> None:
    settings = (
        "echo '1030 65535' > /proc/sys/net/ipv4/ip_local_port_range;"
        "echo 1025,1027-1028 > /proc/sys/net/ipv4/ip_local_reserved_ports"
    )
    assert small_network(settings, 3) == "[1024, 1026, 1029]\nleft open: 0\n"


def test_without_ipv6() -> None:
    settings = (
        "echo '1030 65535' > /proc/sys/net/ipv4/ip_local_port_range;echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
    )
    assert small_network(settings, 6) == f"{[*range(1024, 1030)]}\nleft open: 0\n"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (32768, 60999, [range(15000, 32768), range(1024, 15000), range(61000, 65536)]),
        (15001, 65535, [range(15000, 15001), range(1024, 15000)]),
        (15000, 65535, [range(1024, 15000)]),
        (2000, 64999, [range(1024, 2000), range(65000, 65536)]),
        (1024, 60999, [range(61000, 65536)]),
        (1024, 65535, []),
    ],
)
def test_ranges_around_the_ephemeral_one(first: int, last: int, expected: list[range]) -> None:
    assert around(first, last) == expected


def test_available_counts_the_pools() -> None:
    assert available() == sum(map(len, pools())) > 0


def test_a_port_in_use_is_not_claimed(tmp_path: Path) -> None:
    taken, free = reserve(2, Claims(NOWHERE))
    port = taken.getsockname()[1]
    with taken, free:
        first, second = Claims(tmp_path), Claims(tmp_path)
        assert hold(port) is None
        assert first.take(port)
        first.give_back(port)
        assert second.take(port)
        first.close()
        second.close()
