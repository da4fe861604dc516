"""Logs as lines: prefixes, colours, overwritten progress, numbers, and lines that are far too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.diagnose.log.log_text import LONGEST, Log
from kedge.diagnose.log.prefix import split
from kedge.diagnose.model import LOG_TAIL


@pytest.mark.parametrize(
    ("line", "rank", "body"),
    [
        (b"[rank3]: ValueError: x", "rank3", b"ValueError: x"),
        (
            b"[rank0]:[E1218 20:27:21 ProcessGroupNCCL.cpp:629] y",
            "rank0",
            b"[E1218 20:27:21 ProcessGroupNCCL.cpp:629] y",
        ),
        (b"[default0]:  File", "default0", b" File"),
        (b"[worker0]: x", "worker0", b"x"),
        (b"worker-0 | x", "worker-0", b"x"),
        (b"worker:0 | x", "worker:0", b"x"),
        (b"trainer_1  | x", "trainer_1", b"x"),
        (b"3: x", "rank3", b"x"),
        (b"[1,3]<stderr>:x", "rank3", b"x"),
        (b"[1,0]<stderr>:[rank2]: x", "rank2", b"x"),
        (b"(pid=77) x", "pid=77", b"x"),
        (b"(RayTrainWorker pid=7, ip=10.0.0.1) x", "RayTrainWorker pid=7, ip=10.0.0.1", b"x"),
        (b"[pod/worker-0/main] x", "worker-0/main", b"x"),
        (b"2024-01-02T03:04:05.1Z: x", "", b"x"),
        (b"2024-01-02 03:04:05,123 - x", "", b"x"),
        (b"2024-01-02T03:04:05.123456789Z stderr F x", "", b"x"),
        (b"Traceback (most recent call last):", "", b"Traceback (most recent call last):"),
        (b"line 3: x", "", b"line 3: x"),
    ],
)
def test_prefixes(line: bytes, rank: str, body: bytes) -> None:
    found_rank, _, found_body = split(line)
    assert (found_rank, found_body) == (rank, body)


def test_colours_nuls_and_returns_are_removed_and_lines_keep_their_numbers() -> None:
    log = Log("log", b"one\r\n\x1b[31mtwo\x1b[0m\x1b]0;title\x07\n10%\r20%\r30%\nf\0our\n")
    assert log.text == b"one\ntwo\n10%\n20%\n30%\nfour\n"
    assert [log.number(log.text.index(word)) for word in (b"one", b"two", b"10%", b"30%", b"four")] == [1, 2, 3, 3, 4]


def test_lines_before_and_after() -> None:
    log = Log("log", b"a\nb\nc\n")
    middle = log.line(2)
    assert [line.body for line in log.after(middle, 9)] == [b"c"]
    assert [line.body for line in log.before(middle, 9)] == [b"a"]


def test_a_line_of_ten_megabytes_is_read_in_pieces() -> None:
    log = Log("log", b"x" * LOG_TAIL)
    line = log.line(LOG_TAIL // 2)
    assert line.end - line.start <= 2 * LONGEST
    assert len(list(log.after(line, 5))) == 5
    assert len(log.show(line)) == 1000


def test_only_the_end_of_a_large_log_is_read_but_numbers_count_from_the_start() -> None:
    log = Log("log", b"first\n" * 10 + b"y" * LOG_TAIL + b"\nlast")
    assert log.number(log.text.index(b"last")) == 12


@given(st.binary(max_size=300))
def test_every_byte_string_is_a_log(content: bytes) -> None:
    log = Log("log", content)
    assert b"\x1b[" not in Log("again", log.text).text
    numbers = [log.number(offset) for offset in range(len(log.text))]
    assert numbers == sorted(numbers)
    assert all(1 <= number <= content.count(b"\n") + 1 for number in numbers)


def test_line_numbers_can_be_asked_for_in_any_order() -> None:
    log = Log("log", b"".join(b"%d\n" % n for n in range(1, 200)))
    places = [log.text.index(b"\n%d\n" % n) + 1 for n in (150, 20, 199, 2, 150, 151)]
    assert [log.number(place) for place in places] == [150, 20, 199, 2, 150, 151]
