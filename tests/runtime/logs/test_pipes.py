"""Pipes that are read when their data arrives, which is learned without poll(2) on them."""

from __future__ import annotations

import os
import select
import time

import pytest

from kedge.runtime.logs.arrival import Arrival
from kedge.runtime.logs.pipes import Pipe
from kedge.runtime.process.loop import Loop
from kedge.testing.wait import wait_until


@pytest.fixture
def pipe():
    """The ends of a pipe; a test may close them."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            continue


def readable(fd, sec=0.0):
    """Whether the descriptor becomes readable within `sec` seconds."""
    return bool(select.select([fd], [], [], sec)[0])


def test_an_arrival_shows_data_and_the_end_and_takes_nothing_away(pipe):
    reader, writer = pipe
    arrival = Arrival(reader)
    for text in (b"one", b"two"):
        assert not readable(arrival.fd)
        os.write(writer, text)
        assert readable(arrival.fd, 10)
        assert os.read(reader, 10) == text
        assert readable(arrival.fd)  # until asked again
        assert arrival.wait_again()
    os.close(writer)
    assert readable(arrival.fd, 10)
    assert not arrival.wait_again()
    arrival.close()


def test_the_thread_of_a_closed_arrival_ends(pipe):
    reader, writer = pipe
    threads = len(os.listdir("/proc/self/task"))
    arrival = Arrival(reader)
    arrival.close()
    os.write(writer, b"wakes it")
    wait_until(lambda: len(os.listdir("/proc/self/task")) == threads, 10)


@pytest.mark.parametrize("way", ["arrival", "ended-arrival", "poll"])
def test_every_piece_arrives(pipe, way):
    reader, writer = pipe
    pieces, ended = [], []
    if way == "ended-arrival":  # as where tee(2) is not allowed: it fails at once
        other, gone = os.pipe()
        arrival = Arrival(other)
        os.close(gone)
    else:
        arrival = Arrival(reader) if way == "arrival" else None
    loop = Loop()
    Pipe(loop, reader, lambda data, length: pieces.append(bytes(data[:length])), lambda: ended.append(1), None, arrival)
    for n in range(20):
        os.write(writer, b"%d" % n)
        assert loop.until(lambda n=n: len(pieces) == n + 1, time.monotonic() + 10)
    assert pieces == [b"%d" % n for n in range(20)]
    os.close(writer)
    assert loop.until(lambda: bool(ended), time.monotonic() + 10)
