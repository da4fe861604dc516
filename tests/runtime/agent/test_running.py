"""The supervisor that runs, as its agent sees it."""

from __future__ import annotations

import json
import os
import time

import pytest

from kedge.runtime.agent import running
from kedge.runtime.agent.running import RunningSupervisor
from kedge.runtime.agent.task_files import AttemptFiles
from kedge.runtime.process.loop import Loop


@pytest.fixture
def files(tmp_path):
    found = AttemptFiles(str(tmp_path), *(str(tmp_path / name) for name in ("spec", "peers", "status", "control")))
    os.mkfifo(found.status)
    os.mkfifo(found.control)
    return found


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def write(files, *lines):
    fd = os.open(files.status, os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, b"".join(lines))
    os.close(fd)


def line(number):
    return json.dumps({"event": number}).encode() + b"\n"


def test_lines_that_are_no_events_are_dropped(files, loop):
    events = []
    supervisor = RunningSupervisor(loop, files, events.append, lambda: True, [line(1)[:-1]])
    write(
        files,
        line(1),
        b"\xff\n{}x\n[1]\n\n",
        b'{"event": 2',
        b"}\n",
        b"[" * 2000 + b"\n" + b'{"a": "%s"}\n' % (b"x" * 5000),
    )
    loop.turn(time.monotonic() + 60)
    write(files, line(3), line(1), b'{"event": ')
    supervisor.finish()
    assert events == [{"event": 2}, {"event": 3}, {"event": 1}]


def test_events_wait_until_there_is_room(files, loop, monkeypatch):
    monkeypatch.setattr(running, "_PAUSE_SEC", 0.01)
    events, room = [], []
    supervisor = RunningSupervisor(loop, files, events.append, lambda: bool(room), [])
    write(files, line(1))
    loop.turn(time.monotonic() + 60)
    assert events == []
    room.append(1)
    loop.until(lambda: bool(events), time.monotonic() + 60)
    assert events == [{"event": 1}]
    supervisor.finish()
    assert not loop.until(lambda: False, time.monotonic() + 0.02)


def test_a_suspended_reader_does_not_block_requests(files, loop):
    supervisor = RunningSupervisor(loop, files, print, lambda: True, [])
    for _ in range(100_000):
        supervisor.request("warn")
    supervisor.finish()
