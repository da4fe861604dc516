from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kedge.errors import CannotRun
from kedge.runs.controller_lock import hold, is_held, owner
from kedge.testing.wait import wait_until

HOLD = (
    "import sys; from pathlib import Path; from kedge.runs.controller_lock import hold\n"
    "lock = hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()\n"
)


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def test_hold_and_release(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    with hold(path):
        assert is_held(path)
        found = owner(path)
        assert found
        assert found.pid == os.getpid()
    assert not is_held(path)
    assert owner(path) == found


def test_the_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "digits-abc" / "lock"
    path.parent.mkdir()
    with holder(path) as process:
        with pytest.raises(CannotRun, match=rf"digits-abc is controlled by another process \(pid {process.pid} on"):
            hold(path)
        assert is_held(path)
        process.communicate()
    assert not is_held(path)


def test_the_lock_is_released_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as process:
        process.kill()
        process.wait()
        assert not is_held(path)
        hold(path).close()


def test_a_program_that_outlives_its_controller_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = hold(path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as task:
        lock.close()
        assert not is_held(path)
        task.communicate()


def test_a_forked_controller_holds_the_lock_and_signs_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = hold(path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        lock.sign()
        os.write(writer, b"signed")
        signal.pause()
    lock.close()
    assert os.read(reader, 6) == b"signed"
    assert is_held(path)
    found = owner(path)
    assert found
    assert found.pid == child
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert not is_held(path)
    os.close(reader)
    os.close(writer)


def test_probes_never_keep_a_controller_from_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    done = threading.Event()

    def probe() -> None:
        while not done.wait(0.001):
            is_held(path)

    probes = [threading.Thread(target=probe) for _ in range(4)]
    for thread in probes:
        thread.start()
    try:
        for _ in range(200):
            hold(path).close()
    finally:
        done.set()
        for thread in probes:
            thread.join()


def test_the_controller_waits_for_a_slow_probe(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    command = ["flock", "--shared", path, "sh", "-c", "echo; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout
        reader.stdout.readline()
        held = threading.Thread(target=lambda: hold(path).close())
        held.start()
        assert reader.stdin
        reader.stdin.close()
        held.join()
    wait_until(lambda: not is_held(path))
    found = owner(path)
    assert found
    assert found.pid == os.getpid()


@pytest.mark.parametrize("content", [b"", b'{"pid"', b"[]", b'{"pid": 1}'])
def test_an_unreadable_owner(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lock"
    path.write_bytes(content)
    assert owner(path) is None
    assert owner(tmp_path / "none") is None
    hold(path).close()
