"""Out-of-memory kills, in real control groups."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.engines.container.ends import memory_kills
from kedge.engines.container.ends.memory_kills import MemoryKills
from kedge.testing.wait import wait_until

TIMEOUT = 600.0
LIMIT = 16 << 20
_V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
_FOLDER = Path("/sys/fs/cgroup" if _V2 else "/sys/fs/cgroup/memory")


@pytest.fixture
def group() -> Iterator[Path]:
    """An empty group with a limit."""
    made = _FOLDER / f"kedge-test-{os.urandom(4).hex()}"
    try:
        made.mkdir()
        (made / ("memory.max" if _V2 else "memory.limit_in_bytes")).write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"this user cannot make control groups here: {error}")
    yield made
    if made.exists():
        made.rmdir()


@pytest.fixture
def kills() -> Iterator[MemoryKills]:
    made = MemoryKills()
    made.start()
    yield made
    made.close()


def start(group: Path, command: str) -> subprocess.Popen[bytes]:
    """A shell in the group, which runs a command once it reads a line from stdin."""
    shell = f"echo $$ > {group}/cgroup.procs; read go; {command}"
    return subprocess.Popen(["sh", "-c", shell], stdin=subprocess.PIPE)


def test_a_kill_is_known_after_the_group_is_gone(kills: MemoryKills, group: Path) -> None:
    process = start(group, "tail /dev/zero")
    wait_until(lambda: str(process.pid) in (group / "cgroup.procs").read_text().split(), TIMEOUT)
    kills.watch("box", group.name, process.pid)
    assert kills.watches("box")
    assert kills.of("box") is None
    process.communicate(b"\n", timeout=TIMEOUT)
    wait_until(lambda: kills.of("box"), TIMEOUT)
    group.rmdir()
    kill = kills.of("box")
    assert kill is not None
    assert kill.own_limit
    assert kill.peak is None or LIMIT // 2 < kill.peak <= LIMIT
    kills.forget("box")
    assert kills.of("box") is None


def test_a_normal_end_is_not_a_kill(kills: MemoryKills, group: Path) -> None:
    process = start(group, "true")
    wait_until(lambda: str(process.pid) in (group / "cgroup.procs").read_text().split(), TIMEOUT)
    kills.watch("box", group.name, process.pid)
    process.communicate(b"\n", timeout=TIMEOUT)
    group.rmdir()
    assert kills.of("box") is None


def test_a_process_of_another_machine_is_not_watched(kills: MemoryKills) -> None:
    kills.watch("box", "0123456789abcdef", os.getpid())
    kills.watch("box", "0123456789abcdef", 0)
    assert not kills.watches("box")


def test_a_group_that_cannot_be_polled_is_not_watched(
    kills: MemoryKills, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.events").write_text("oom_kill 0\n")  # a regular file cannot be polled
    found = memory_kills._Group(tmp_path)
    monkeypatch.setattr(memory_kills, "find", lambda *_: found)
    kills.watch("box", "0123456789abcdef", os.getpid())
    assert not kills.watches("box")
    kills.forget("box")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(found.fd)


def test_version_2_distinguishes_own_limit_and_machine(tmp_path: Path) -> None:
    (tmp_path / "memory.peak").write_text("1000\n")
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\noom_group_kill 0\n")
    group = memory_kills._Group(tmp_path)
    assert group.look() is None
    events.write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 0\n")
    found = group.look()
    assert found
    assert (found.peak, found.own_limit) == (1000, True)
    assert group.look() is None
    os.close(group.fd)
