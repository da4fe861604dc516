from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.errors import DiskFull
from kedge.runs import disk_reserve
from kedge.runs.events import EventLog, read


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):  # noqa: PT012
        while True:
            file.write(bytes(4096))


def test_the_space_is_really_taken(tmp_path: Path) -> None:
    disk_reserve.make(tmp_path)
    assert (tmp_path / ".reserve").stat().st_blocks * 512 >= disk_reserve.SIZE


def test_a_final_state_can_be_recorded_on_a_full_disk(small_disk: Path) -> None:
    disk_reserve.make(small_disk)
    with EventLog(small_disk / "events.jsonl") as log:
        log.append("job-submitted", sync=True)
        fill(small_disk / "big")
        with pytest.raises(DiskFull):
            log.append("too-big", text="x" * 8192)
        assert disk_reserve.free(small_disk)
        log.append("job-completed", text="x" * 8192, sync=True)
    assert [event["event"] for event in read(small_disk / "events.jsonl")] == ["job-submitted", "job-completed"]


def test_freeing_twice(tmp_path: Path) -> None:
    disk_reserve.make(tmp_path)
    assert disk_reserve.free(tmp_path)
    assert not disk_reserve.free(tmp_path)


def test_no_space_for_the_reserve(small_disk: Path) -> None:
    fill(small_disk / "big")
    with pytest.raises(DiskFull):
        disk_reserve.make(small_disk)
    assert os.listdir(small_disk) == ["big"]


def test_the_file_size_limit_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from kedge.runs import disk_reserve\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "disk_reserve.make(Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert f"DiskFull: {tmp_path}/.reserve: cannot be written: it would exceed the file size limit" in done.stderr
    assert "ulimit -f" in done.stderr
