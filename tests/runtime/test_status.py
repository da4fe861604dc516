"""The pipe through which supervisors report events to the controller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.testing.wait import wait_until

WRITER = """
import os, sys
from kedge.runtime.process.loop import Loop
from kedge.runtime.status import Status
loop = Loop()
status = Status(loop, os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK))
for number in range(1000):
    status.write(b"%s %d %s\\n" % (sys.argv[2].encode(), number, b"." * 1200))
print("written", flush=True)
loop.until(lambda: not status._waiting)
"""


@pytest.fixture
def fifo(tmp_path: Path) -> str:
    path = str(tmp_path / "status")
    os.mkfifo(path)
    return path


def test_a_late_reader_gets_every_line(fifo):
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    argv = [sys.executable, "-c", WRITER, fifo]
    with (
        subprocess.Popen([*argv, "a"], stdout=subprocess.PIPE) as a,
        subprocess.Popen([*argv, "b"], stdout=subprocess.PIPE) as b,
    ):
        for writer in (a, b):
            assert writer.stdout.readline() == b"written\n"
        os.set_blocking(reader, True)
        with open(reader, "rb") as file:
            lines = file.read().splitlines()
    for name in (b"a", b"b"):
        assert [line for line in lines if line.startswith(name)] == [
            b"%s %d %s" % (name, number, b"." * 1200) for number in range(1000)
        ]


def test_a_full_pipe_gets_the_events_as_soon_as_it_is_read(attempt, fifo):
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    filling = os.write(reader, b"x" * (1 << 20))
    go = Path(fifo).with_name("go")
    os.mkfifo(go)
    attempt.start(f"read x < {go}", "--status", fifo)
    attempt.wait_for_event("running")
    assert os.read(reader, filling) == b"x" * filling
    heard = b""

    def both() -> bool:
        nonlocal heard
        try:
            heard += os.read(reader, 1 << 16)
        except BlockingIOError:
            return False
        return heard.count(b"\n") == 2

    wait_until(both)
    assert [json.loads(line)["event"] for line in heard.splitlines()] == ["starting", "running"]
    go.write_text("\n")
    assert attempt.wait() == 0
    os.close(reader)
