"""The files of a run folder are looked at when the driver has stored something there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kedge.engines.kubernetes.access.folder_scan import FolderScan
from kedge.link.mirroring import MARK

TASK = "attempt-0/worker-0"
LOG = f"{TASK}/user-all/current"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def made(run: Path) -> Path:
    """The folder of a task in which nothing has changed for some time."""
    (run / LOG).parent.mkdir(parents=True)
    (run / LOG).write_text("1\n")
    (run / TASK / MARK).write_text("1")
    long_ago = time.time() - 60
    for path in (run / LOG, run / TASK / MARK, (run / LOG).parent, run / TASK):
        os.utime(path, (long_ago, long_ago))
    return run / TASK


def grow(run: Path) -> None:
    with open(run / LOG, "a") as log:
        log.write("2\n")


def test_a_task_is_looked_at_when_its_mirror_has_stored_something(tmp_path: Path) -> None:
    task, clock = made(tmp_path), Clock()
    scan = FolderScan(str(tmp_path), lambda path: True, clock)
    assert scan.look()[LOG].size == 2
    grow(tmp_path)
    assert scan.look()[LOG].size == 2, "which costs nothing while the mark is as it was"
    (task / MARK).write_text("2")
    assert scan.look()[LOG].size == 4
    grow(tmp_path)
    (task / MARK).write_text("2")  # within the same tick of the clock, perhaps
    assert scan.look()[LOG].size == 6
    assert scan.folders == {"attempt-0", TASK, f"{TASK}/user-all"}


def test_a_task_without_news_is_looked_at_now_and_then_all_the_same(tmp_path: Path) -> None:
    made(tmp_path)
    clock = Clock()
    scan = FolderScan(str(tmp_path), lambda path: True, clock)
    scan.look()
    grow(tmp_path)
    clock.now += 11
    assert scan.look()[LOG].size == 4
    assert scan.look() == scan.look()
    assert scan.folders == {"attempt-0", TASK, f"{TASK}/user-all"}


def test_a_new_file_of_a_task_is_seen_without_the_mark(tmp_path: Path) -> None:
    task = made(tmp_path)
    scan = FolderScan(str(tmp_path), lambda path: True, Clock())
    scan.look()
    (task / "report.json").write_text("{}")
    assert f"{TASK}/report.json" in scan.look()


def test_at_the_end_of_the_job_all_tasks_are_looked_at(tmp_path: Path) -> None:
    task, clock = made(tmp_path), Clock()
    (task / "report.json").write_text("{}")
    scan = FolderScan(str(tmp_path), lambda path: True, clock)
    scan.look()
    clock.now += 6  # since when nothing has changed
    scan.look()
    grow(tmp_path)
    assert scan.look()[LOG].size == 2
    (tmp_path / "report.json").write_text("{}")
    assert scan.look()[LOG].size == 4
