"""Selecting lines of logs by time and number, and merging them."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.contract import CURRENT, LOG_TIMES, USER_ALL, LogPolicy
from kedge.runs.folder import Run
from kedge.runs.log_times import TimesReader
from kedge.runs.logs import LONGEST_LINE
from kedge.runs.merged_logs import LogMerger
from kedge.runs.task_logs import ALL_LINES, LineRange, last_lines, log_of, merged, selected, sources
from kedge.runs.timed_log import LogSource
from kedge.runtime.files import Faults
from kedge.runtime.logs.rotate import RotatingFile


class Clock:
    """Time passes with every line."""

    def __init__(self) -> None:
        self.now = 1_000_000_000_000_000_000

    def __call__(self) -> int:
        self.now += 1_000_003
        return self.now


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def logs(run: Run) -> Iterator[Logs]:
    made = Logs(run)
    yield made
    made.close()


class Logs:
    """Writes user-all of tasks as the supervisor does, with a common clock that is part of the test."""

    def __init__(self, run: Run) -> None:
        self.run, self.clock = run, Clock()
        self.files: dict[int, RotatingFile] = {}
        self.printed: list[tuple[int, bytes, int]] = []  # task, line, time

    def write(self, task: int, data: bytes, file_bytes: int = 1 << 28) -> None:
        if task not in self.files:
            folder = str(self.run.task("worker", task, 0) / USER_ALL)
            policy = LogPolicy(file_bytes, 1000)
            self.files[task] = RotatingFile(folder, policy, Faults(), lambda path, size: None, self.clock)
        self.files[task].write([data])
        self.printed += [(task, line + b"\n", self.clock.now) for line in data.split(b"\n")[:-1]]

    def close(self) -> None:
        for file in self.files.values():
            file.close()


def shown(run: Run, lines: LineRange = ALL_LINES) -> list[tuple[int, bytes, int | None]]:
    """The selected lines of all tasks: task, line, time."""
    found = merged(selected(run, sources(run, 0), USER_ALL, lines))
    return [(each.source.task_index, line, each.time) for each in found for line in each.data.splitlines(keepends=True)]


@pytest.mark.parametrize("seed", range(3))
def test_lines_are_merged_and_selected_exactly(run: Run, logs: Logs, seed: int) -> None:
    source = random.Random(seed)
    for number in range(1500):
        logs.write(source.randrange(4), b"%d\n" % number * source.choice((1, 1, 3)), 4096 + 1000 * seed)
    assert shown(run) == logs.printed
    times = [time for _, _, time in logs.printed]
    for _ in range(10):
        since, until = sorted(source.choices([0, times[0], times[-1], times[-1] + 1, *times], k=2))
        between = [line for line in logs.printed if since <= line[2] < until]
        assert shown(run, LineRange(since, until)) == between
        for tail in (0, 1, 7, source.randrange(1500), 10_000):
            assert shown(run, LineRange(since, until, tail)) == between[max(0, len(between) - tail) :]
            assert shown(run, LineRange(tail=tail)) == logs.printed[max(0, len(logs.printed) - tail) :]


def test_the_clock_of_a_reader_is_not_involved(run: Run, logs: Logs) -> None:
    logs.write(0, b"a\n")
    assert shown(run, LineRange(since=logs.clock.now))
    assert not shown(run, LineRange(since=logs.clock.now + 1))


def test_logs_without_times_are_shown_whole_and_first(run: Run, logs: Logs) -> None:
    for task in (0, 1, 0, 1):
        logs.write(task, b"%d\n" % task)
    (run.task("worker", 1, 0) / LOG_TIMES / USER_ALL / CURRENT).unlink()
    assert [(task, time is None) for task, _, time in shown(run)] == [(1, True), (1, True), (0, False), (0, False)]
    found = selected(run, sources(run, 0), USER_ALL, LineRange(since=0))
    assert found.untimed == (LogSource("worker", 1, 0),)
    assert [lines.source.task_index for lines in merged(found)] == [0, 0]
    assert len(shown(run, LineRange(tail=3))) == 3


def test_a_long_line_and_an_unfinished_one(run: Run, logs: Logs) -> None:
    long = b"x" * (3 * LONGEST_LINE)
    logs.write(0, b"first\n")
    logs.write(0, long + b"\n")
    logs.write(1, b"second\n")
    logs.write(1, b"unfinished")
    logs.write(2, b"third\n")
    found = list(merged(selected(run, sources(run, 0), USER_ALL)))
    joined = [(lines.source.task_index, lines.data[:10], lines.last) for lines in found]
    assert joined[0] == (0, b"first\n", False)
    assert b"".join(lines.data for lines in found if lines.source.task_index == 0) == b"first\n" + long + b"\n"
    assert joined[-3:] == [(1, b"second\n", False), (1, b"unfinished", True), (2, b"third\n", False)]
    tail = list(merged(selected(run, sources(run, 0), USER_ALL, LineRange(tail=2))))
    assert [lines.data for lines in tail] == [b"unfinished", b"third\n"]


def test_a_viewer_gets_the_last_lines_and_then_the_new_ones(run: Run, logs: Logs) -> None:
    for number in range(10):
        logs.write(number % 3, b"%d\n" % number)
    begin = last_lines(run, 4)
    with LogMerger(begin.logs) as merger:
        seen = [lines.data for lines in merger.until()]
        assert seen[begin.skipped :] == [b"6\n", b"7\n", b"8\n", b"9\n"]
        logs.write(1, b"10\n")
        merger.refresh(logs.clock.now)
        assert [lines.data for lines in merger.until()] == [b"10\n"]


def test_a_log_that_is_deleted_meanwhile_ends(run: Run, logs: Logs) -> None:
    for task in (0, 1):
        logs.write(task, b"%d\n" % task * 100_000)
    lines = merged(selected(run, sources(run, 0), USER_ALL))
    next(lines)
    for path in (run.task("worker", 1, 0) / USER_ALL).iterdir():
        path.unlink()
    assert sum(len(each.data) for each in lines) > 100_000


@settings(max_examples=60, deadline=None)
@given(index=st.binary(max_size=400) | st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2**63))).map(
    lambda records: b"".join(struct.pack("<QQ", *record) for record in records)
))  # fmt: skip
def test_whatever_is_in_an_index_no_line_is_lost(tmp_path_factory: pytest.TempPathFactory, index: bytes) -> None:
    run = Run(tmp_path_factory.mktemp("run"))
    folder = run.task("worker", 0, 0)
    for name, data in ((USER_ALL, b"one\ntwo\nthree\nfour\n" * 3), (f"{LOG_TIMES}/{USER_ALL}", index)):
        (folder / name).mkdir(parents=True)
        (folder / name / CURRENT).write_bytes(data)
    found = list(merged(selected(run, sources(run, 0), USER_ALL)))
    assert b"".join(lines.data for lines in found) == b"one\ntwo\nthree\nfour\n" * 3
    times = [lines.time or 0 for lines in found]
    assert times == sorted(times)
    for time in (0, 2**62):
        list(merged(selected(run, sources(run, 0), USER_ALL, LineRange(since=time, tail=3))))


def test_an_endless_index_takes_no_time(run: Run, logs: Logs) -> None:
    logs.write(0, b"one\n" * 1000)
    index = run.task("worker", 0, 0) / LOG_TIMES / USER_ALL / CURRENT
    os.truncate(index, 1 << 42)
    assert len(shown(run)) == 1000
    assert len(shown(run, LineRange(since=logs.clock.now, tail=5))) <= 5


def test_the_last_lines_of_endless_zeros_are_found_at_once(run: Run, logs: Logs) -> None:
    logs.write(0, b"one\n")
    logs.write(1, b"two\n")
    os.truncate(run.task("worker", 0, 0) / USER_ALL / CURRENT, 1 << 42)
    found = b"".join(lines.data for lines in merged(selected(run, sources(run, 0), USER_ALL, LineRange(tail=3))))
    assert found.replace(b"\0", b"") == b"two\n"
    assert 0 < found.count(b"\0") <= 4 * LONGEST_LINE


def test_a_link_in_place_of_an_index_is_not_followed(run: Run, logs: Logs, tmp_path: Path) -> None:
    logs.write(0, b"one\n")
    index = run.task("worker", 0, 0) / LOG_TIMES / USER_ALL / CURRENT
    (tmp_path / "other").write_bytes(index.read_bytes())
    index.unlink()
    index.symlink_to(tmp_path / "other")
    assert shown(run) == [(0, b"one\n", None)]


def test_the_first_record_for_a_place_is_found(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"".join(struct.pack("<QQ", 10 * n, 100 * n) for n in range(1000)) + b"torn")
    reader = TimesReader(os.open(path, os.O_RDONLY))
    assert (reader.since(5000), reader.since(5001), reader.since(10**6)) == (500, 510, None)
    reader.skip_to(777)
    assert list(reader.before(800)) == [(770, 7700), (780, 7800), (790, 7900)]
    reader.close()


def test_rotation_between_two_reads_loses_and_doubles_nothing(run: Run, logs: Logs) -> None:
    source = random.Random(1)
    logs.write(0, b"", 4096)
    log = log_of(run, LogSource("worker", 0, 0), USER_ALL, 100)
    with LogMerger([log]) as merger:
        seen: list[tuple[bytes, int | None]] = []
        for number in range(5000):
            logs.write(0, b"%d\n" % number)
            if source.random() < 0.05:
                merger.refresh(0)
                seen += [(lines.data, lines.time) for lines in merger.until()]
        merger.refresh(0)
        seen += [(lines.data, lines.time) for lines in merger.finish_all()]
    assert seen == [(line, time) for _, line, time in logs.printed]


def test_many_logs_need_no_raised_limit_of_open_files(run: Run, logs: Logs) -> None:
    for task in range(150):
        logs.write(task, b"%d\n" % task)
    logs.close()
    script = (
        "import resource, sys; from pathlib import Path; from kedge.runs.folder import Run\n"
        "from kedge.runs.task_logs import ALL_LINES, merged, selected, sources\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 400))\n"
        "run = Run(Path(sys.argv[1]))\n"
        "for lines in (ALL_LINES, ALL_LINES._replace(tail=200)):\n"
        "    print(sum(1 for _ in merged(selected(run, sources(run, 0), 'user-all', lines))))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(run.path)], capture_output=True, text=True, check=True)
    assert done.stdout == "150\n150\n"


@pytest.mark.parametrize(("task_ahead", "reader_ahead"), [(10**18, 0), (0, 10**15)])
def test_clocks_that_are_ahead_or_set_back_delay_lines_until_the_next_look_only(
    run: Run, logs: Logs, task_ahead: int, reader_ahead: int
) -> None:
    with LogMerger() as merger:
        for task in range(3):
            merger.add(log_of(run, LogSource("worker", task, 0), USER_ALL))
        seen = []
        for number in range(50):
            for task, ahead in enumerate((0, 0, task_ahead)):
                logs.clock.now = 10**18 + number * 10**7 + ahead
                logs.write(task, b"%d\n" % number)
            reader = 10**18 + number * 10**7 + (reader_ahead if number < 20 else 0)
            for _ in range(2):
                until = merger.refresh(reader)
                seen += [int(lines.data) for lines in merger.until(until)]
            assert seen.count(number) == 3
