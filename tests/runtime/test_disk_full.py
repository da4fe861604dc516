"""A disk that fills up while the task prints."""

from __future__ import annotations

import resource

from kedge import contract


def check_report(attempt, stream):
    report = attempt.report
    assert (report["reason"], report["exit_code"]) == (contract.DISK_FULL, contract.RUNTIME_BROKE)
    assert stream in report["message"]
    assert report["stopped_by"] is None
    assert (report["diagnosis"]["cause"] == "disk_full") == ("No space" in stream)
    assert not (attempt.folder / contract.TERMINATION_LOG).exists()
    assert attempt.events[-1]["event"] == contract.FINISHED
    assert attempt.events[-1]["reason"] == contract.DISK_FULL


def test_a_full_disk_stops_the_task_and_is_reported(attempt, small_disk, capfd):
    attempt.folder = small_disk / "task"
    attempt.spec = attempt.spec._replace(folder=str(attempt.folder), workdir="/")
    assert attempt.run("while true; do seq 1000; done") == contract.RUNTIME_BROKE
    check_report(attempt, "current: No space left on device")
    assert attempt.report["user_exit_code"] in (143, 141)
    assert capfd.readouterr() == ("", "")


def test_a_disk_filled_by_the_user_keeps_room_for_the_report(attempt, small_disk):
    attempt.folder = small_disk / "task"
    attempt.spec = attempt.spec._replace(folder=str(attempt.folder), workdir=str(small_disk))
    attempt.run("cat /dev/zero >filler || true; seq 3000; exit 4")
    check_report(attempt, "No space left on device")


def test_a_file_size_limit_counts_as_full(attempt):
    limit = 1 << 16

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    attempt.start("yes", preexec_fn=limited)
    assert attempt.wait() == contract.RUNTIME_BROKE
    check_report(attempt, "File too large")


def test_a_disk_that_fills_up_within_an_unfinished_line(attempt):
    limit = 1 << 16

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    begun = "printf begun; while [ ! -s ../user-stdout/current ]; do :; done"
    attempt.start(f"{begun}; seq 50000; sleep 1000", preexec_fn=limited)
    assert attempt.wait() == contract.RUNTIME_BROKE
    check_report(attempt, "File too large")


def test_a_run_folder_that_cannot_be_written_is_not_reported_as_a_bug(attempt, capfd):
    attempt.folder.mkdir(parents=True)
    (attempt.folder / "user-all").touch()
    assert attempt.run("echo never") == contract.RUNTIME_BROKE
    assert attempt.report["reason"] == contract.RUNTIME_ERROR
    assert "user-all/current: File exists" in attempt.report["message"]
    assert attempt.report["user_exit_code"] is None
    assert attempt.stream("user-stdout") == b""
    assert capfd.readouterr() == ("", "")
