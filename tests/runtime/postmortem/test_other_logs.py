"""Errors long before the end of a task's log, and logs that the task itself wrote."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kedge.diagnose.model import LOG_TAIL
from kedge.runtime.logs import tails
from kedge.runtime.logs.rotate import label
from kedge.runtime.postmortem import earlier_log, work_logs

TRACE = b'Traceback (most recent call last):\n  File "/x/train.py", line 5, in <module>\n    f()\nKeyError: 1\n'
LINE = b"waiting for the other workers, still nothing, and nothing at all will come of it either\n"
FULL = LINE * (LOG_TAIL // len(LINE) + 1)


def stream(folder: Path, **files: bytes) -> tails.LogTail:
    """A user stream with these rotated files, by their time, and its current one; only the end of it is read."""
    (folder / "user-all").mkdir()
    for name, content in files.items():
        (folder / "user-all" / (label(int(name[1:])) + ".s" if name != "current" else name)).write_bytes(content)
    return tails.of_stream(str(folder), "user-all", 100)


def test_an_error_long_before_the_end_is_found_with_its_line(tmp_path: Path) -> None:
    seen = stream(
        tmp_path, t50=b"of an earlier start FATAL\n", t200=LINE * 9 + TRACE + LINE * 9, current=LINE * 99 + FULL
    )
    found = earlier_log.search(seen, 100)
    assert found.unread == 0
    assert TRACE in found.tail.content
    assert b"FATAL" not in found.tail.content
    line = found.tail.content.split(b"\n").index(b"KeyError: 1") + 1
    assert found.tail.place(line) == {"file": f"user-all/{label(200)}.s", "line": 13}


@pytest.mark.parametrize("shift", range(-40, 40, 9))
def test_a_place_at_the_edge_of_a_block_is_found(tmp_path: Path, shift: int) -> None:
    begin = b"x" * ((256 << 10) - len(TRACE) + shift - 1) + b"\n"
    found = earlier_log.search(stream(tmp_path, t200=begin + TRACE + LINE, current=FULL), 100)
    assert found.tail.content.count(b"KeyError: 1") == 1


def test_the_first_and_the_last_of_many_places_are_kept(tmp_path: Path) -> None:
    many = b"".join(b"Error: number %d of many\n" % n + LINE * 400 for n in range(300))
    content = earlier_log.search(stream(tmp_path, t200=many, current=FULL), 100).tail.content
    assert b"number 0 of" in content
    assert b"number 299 of" in content
    assert len(content) < 2 << 20


def test_a_log_that_was_read_as_a_whole_is_not_searched_again(tmp_path: Path) -> None:
    found = earlier_log.search(stream(tmp_path, t200=TRACE, current=LINE), 100)
    assert (found.tail.pieces, found.unread) == ((), 0)


def test_a_file_that_cannot_be_read_counts_as_unread(tmp_path: Path) -> None:
    seen = stream(tmp_path, t200=LINE, current=FULL)
    (tmp_path / "user-all" / (label(200) + ".s")).unlink()
    os.mkfifo(tmp_path / "user-all" / (label(200) + ".s"))
    assert earlier_log.search(seen, 100).tail.pieces == ()


class Spec:
    def __init__(self, folder: Path) -> None:
        self.folder, self.workdir = str(folder / "task"), str(folder / "work")
        (folder / "task").mkdir()
        (folder / "work" / "deep" / "er").mkdir(parents=True)


def test_only_regular_files_of_the_folder_that_changed_are_logs_of_the_task(tmp_path: Path) -> None:
    spec, work = Spec(tmp_path), tmp_path / "work"
    (work / "a.log").write_bytes(b"one\n")
    (work / "deep" / "er" / "b.log").write_bytes(LINE * 2000)
    (work / "old.log").write_bytes(b"x\n")
    os.utime(work / "old.log", (1, 1))
    (work / "a.txt").write_bytes(b"no log\n")
    (tmp_path / "secret.log").write_bytes(b"not of this folder\n")
    (work / "link.log").symlink_to(tmp_path / "secret.log")
    (work / "up").symlink_to(tmp_path)
    os.mkfifo(work / "pipe.log")
    (work / "folder.log").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(work / "s.log"))
        found = {os.path.relpath(log.path, work): log for log in work_logs.collect(spec, 10**12)}  # type: ignore[arg-type]
    assert set(found) == {"a.log", "deep/er/b.log"}
    deep = found["deep/er/b.log"]
    assert len(deep.content) <= work_logs.TAIL_BYTES
    assert deep.lines_before + deep.content.count(b"\n") == 2000


def test_any_number_of_log_files_is_handled(tmp_path: Path) -> None:
    spec = Spec(tmp_path)
    for number in range(30):
        path = tmp_path / "work" / f"{number}.log"
        path.write_bytes(b"x\n")
        os.utime(path, (10**6 + number, 10**6 + number))
    found = work_logs.collect(spec, 10**12)  # type: ignore[arg-type]
    assert [os.path.basename(log.path) for log in found] == [f"{n}.log" for n in range(29, 21, -1)]


def test_the_reason_is_found_in_the_tasks_own_log_file(attempt) -> None:
    trace = TRACE.decode().replace("\n", "\\n")
    assert attempt.run(f"echo begin; printf 'one\\n{trace}' > train.log; exit 3") != 0
    found = attempt.report["diagnosis"]
    assert (found["cause"], found["frame"]) == ("python_bug", "train.py:5")
    assert found["evidence"][0]["file"].endswith("/train.log")
    assert found["evidence"][0]["line"] == 5


def test_without_a_reason_the_report_has_what_is_known(attempt) -> None:
    assert attempt.run("for n in 1 2 3 4 5 6 7; do echo gnome $n; done; exit 3") != 0
    found = attempt.report["diagnosis"]
    assert (found["cause"], found["exit_meaning"], found["unread_bytes"]) == (
        "unknown",
        "",
        0,
    )
    assert [quote["text"] for quote in found["last_words"]] == [f"gnome {n}" for n in range(3, 8)]
    assert found["last_words"][-1]["line"] == 7
