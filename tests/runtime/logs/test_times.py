"""The index of times beside each log."""

from __future__ import annotations

import signal
import struct
import sys
import time

import pytest

from kedge import contract
from kedge.contract import CURRENT, LOG_TIMES, RUNTIME_LOG, STREAMS
from kedge.runs.merged_logs import LogMerger
from kedge.runs.timed_log import LogSource, TimedLog
from kedge.runtime.logs.times import TimeIndex
from kedge.testing.wait import wait_until

SECOND = 10**9


def records(path):
    """The (offset, time) of an index."""
    return list(struct.iter_unpack("<QQ", path.read_bytes()))


def test_each_line_of_a_quiet_program_has_its_own_time(attempt):
    script = """
import os, time
seen = 0
for n in range(20):
    line = b"%d\\n" % time.time_ns()
    seen += os.write(1, line)
    while not os.path.exists("../user-all/current") or os.stat("../user-all/current").st_size < seen: pass
"""
    attempt.run(f"exec {sys.executable} -I -S -c '{script}'")
    printed = [int(line) for line in attempt.stream("user-all").split()]
    for stream in ("user-all", "user-stdout"):
        found = records(attempt.folder / LOG_TIMES / stream / CURRENT)
        assert [offset for offset, _ in found] == [20 * n for n in range(20)]
        bounds = zip(printed, (time for _, time in found), [*printed[1:], found[-1][1]], strict=True)
        assert all(before <= time <= after for before, time, after in bounds)
    assert not (attempt.folder / LOG_TIMES / "user-stderr").exists()  # nothing was printed there


def test_the_index_is_rotated_and_deleted_with_its_log(attempt):
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(file_bytes=10_000, kept_files=3))
    attempt.run("seq 30000; seq 9 >&2")
    for stream in STREAMS:
        files = sorted(path.name for path in (attempt.folder / stream).iterdir() if path.stat().st_size)
        assert sorted(path.name for path in (attempt.folder / LOG_TIMES / stream).iterdir()) == files
        times = []
        for name in files:
            found = records(attempt.folder / LOG_TIMES / stream / name)
            assert found[0][0] == 0
            assert found[-1][0] < (attempt.folder / stream / name).stat().st_size
            times += [time for _, time in found]
        assert times == sorted(times)
    assert len(files) == 1
    assert attempt.report["removed_bytes"]


def test_runtime_log_has_an_index_that_continues(attempt):
    for _ in range(2):
        attempt.run("true")
    offsets = [offset for offset, _ in records(attempt.folder / LOG_TIMES / RUNTIME_LOG)]
    log = (attempt.folder / RUNTIME_LOG).read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(log) if byte == ord("\n"))]
    assert set(offsets) <= set(starts)
    assert offsets == sorted(offsets)
    assert log.count(b"COMMAND START") == 2
    assert offsets[-1] > log.rindex(b"COMMAND START")


@pytest.mark.parametrize("other", ["file", "link", "folder"])
def test_an_index_that_cannot_be_written_harms_nothing(attempt, tmp_path, other):
    attempt.folder.mkdir()
    place = attempt.folder / LOG_TIMES
    if other == "file":
        place.touch()
    elif other == "link":
        (place / "user-all").mkdir(parents=True)
        (tmp_path / "precious").write_text("mine")
        (place / "user-all" / CURRENT).symlink_to(tmp_path / "precious")
    else:
        (place / "user-all" / CURRENT / "full").mkdir(parents=True)
    assert attempt.run("seq 1000") == 0
    assert attempt.stream("user-all") == attempt.stream("user-stdout") == b"".join(b"%d\n" % n for n in range(1, 1001))
    if other == "link":
        assert (tmp_path / "precious").read_text() == "mine"


def marked(folder, times_and_offsets):
    """The records of an index for these calls of `mark`."""
    clock = iter([time for time, _ in times_and_offsets])
    index = TimeIndex(str(folder), "log", lambda: next(clock))
    for _, offset in times_and_offsets:
        index.mark(offset)
    index.close()
    return records(folder / LOG_TIMES / "log")


def test_times_never_decrease_when_the_clock_is_set_back(tmp_path):
    found = marked(tmp_path, [(100, 0), (200, 1), (50, 2), (60, 3), (201, 4)])
    assert found == [(0, 100), (1, 200), (4, 201)]


def test_a_busy_stream_gets_a_record_per_millisecond(tmp_path):
    found = marked(tmp_path, [(SECOND + n * 10_000, n * 65_536) for n in range(500_000)])  # five seconds
    assert 5_000 <= len(found) <= 6_100


def test_an_index_is_bounded_but_a_slow_program_always_has_times(tmp_path):
    busy = [(SECOND + n * 1_000_000, n) for n in range(200_000)]  # a byte every millisecond
    slow = [(1_000 * SECOND + n * SECOND, 200_000 + n) for n in range(100)]
    found = marked(tmp_path, [*busy, *slow])
    assert len(found) * 16 <= (1 << 20) + 200_100 // 8 + 16 * 1100
    assert found[-100:] == [(offset, time) for time, offset in slow]


def test_a_part_of_a_record_is_removed_when_a_log_is_continued(tmp_path):
    marked(tmp_path, [(100, 0)])
    index = tmp_path / LOG_TIMES / "log"
    index.write_bytes(index.read_bytes() + b"torn")
    assert marked(tmp_path, [(200, 5)]) == [(0, 100), (5, 200)]


def test_a_reader_that_follows_a_busy_task_through_rotation_gets_every_line_once(attempt):
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(file_bytes=30_000, kept_files=100_000))
    attempt.start("seq 300000")
    log = TimedLog(LogSource("worker", 0, 0), attempt.folder, "user-all")
    found = []
    with LogMerger([log]) as merger:
        ended = False
        while not ended:
            ended = attempt.process.poll() is not None
            merger.refresh(0)
            found += merger.until()
    assert b"".join(lines.data for lines in found) == b"".join(b"%d\n" % n for n in range(1, 300_001))
    times = [lines.time for lines in found]
    assert None not in times
    assert times == sorted(times)


def test_after_a_crash_the_last_line_has_its_time(attempt):
    script = """
import time
while True:
    print(time.time_ns(), flush=True)
    time.sleep(0.0005)
"""
    attempt.start(f"exec {sys.executable} -I -S -c '{script}'")
    attempt.wait_for_event(contract.RUNNING)
    wait_until(lambda: attempt.stream("user-all").count(b"\n") > 50)
    attempt.signal(signal.SIGKILL)
    attempt.wait()
    after = time.time_ns()
    log = TimedLog(LogSource("worker", 0, 0), attempt.folder, "user-all")
    found = list(iter(log.next, None))
    log.close()
    assert b"".join(lines.data for lines in found) == attempt.stream("user-all")
    # The supervisor reads several lines at once when it is late: they have the time of the reading, which is later.
    assert all(int(line) <= lines.time <= after for lines in found for line in lines.data.split())
