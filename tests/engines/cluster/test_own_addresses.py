"""Where a controller can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.engines.cluster import own_addresses

_ROUTE = """
           |-- {address}
              /32 host LOCAL
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what the kernel tells: nothing so far."""
    monkeypatch.setattr(own_addresses, "_ROUTES", tmp_path / "routes")
    monkeypatch.setattr(own_addresses, "_IPV6", tmp_path / "ipv6")
    monkeypatch.setattr(own_addresses, "_of_way_out", lambda: iter([]))
    monkeypatch.setattr(own_addresses, "_of_name", lambda: iter(["192.168.0.7", "127.0.1.1"]))
    return tmp_path


def routes(files: Path, *addresses: str) -> None:
    (files / "routes").write_text("".join(_ROUTE.format(address=address) for address in addresses))


def test_those_of_the_name_come_first_and_local_ones_last(files: Path) -> None:
    routes(files, "127.0.0.1", "172.17.0.1", "192.168.0.7")
    (files / "ipv6").write_text(
        "20010db8000000000000000000000007 02 40 00 80     eth0\nfe80000000000000000000000000007f 02 40 20 80     eth0\n"
    )
    assert own_addresses.own_addresses() == ["192.168.0.7", "172.17.0.1", "2001:db8::7", "127.0.0.1"]


def test_of_thousands_some_are_told(files: Path) -> None:
    routes(files, *(f"10.96.{n // 250}.{n % 250}" for n in range(4000)), "127.0.0.1", "192.168.0.7")
    found = own_addresses.own_addresses()
    assert (len(found), found[0], found[-1]) == (32, "192.168.0.7", "127.0.0.1")


def test_without_the_kernels_files_the_name_is_all_there_is(files: Path) -> None:
    assert own_addresses.own_addresses() == ["192.168.0.7", "127.0.1.1"]


def test_a_node_whose_name_nobody_can_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_addresses, "_ROUTES", tmp_path / "routes")
    monkeypatch.setattr(own_addresses, "_IPV6", tmp_path / "ipv6")
    routes(tmp_path, "127.0.0.1", "10.1.2.3")
    for name in ("n" * 64, "no..name", "nobody.invalid"):
        monkeypatch.setattr(own_addresses.socket, "gethostname", lambda name=name: name)
        assert own_addresses.own_addresses() == ["10.1.2.3", "127.0.0.1"]
