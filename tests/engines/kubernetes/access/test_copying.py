"""A run folder is copied as it is, whatever happens meanwhile. Each `serve-run` is a process of its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest
from tests.engines.kubernetes.access.copying import SERVE, Copying, Log, files

from kedge.contract import USER_ALL
from kedge.engines.kubernetes.access import copy_rules
from kedge.errors import CannotRun
from kedge.link.frames import LinkFrame
from kedge.runs.folder import Run
from kedge.runs.logs import StreamReader
from kedge.testing.wait import wait_until


@pytest.fixture
def copying(tmp_path):
    found = Copying(tmp_path)
    yield found
    found.end()


def task_of(copying, name="attempt-0/worker-0"):
    folder = copying.there / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def inode(path):
    return os.stat(path).st_ino


def test_everything_is_copied_but_code_secrets_and_outputs(copying):
    task = task_of(copying)
    for name in ("code/a.py", "cluster/secrets.json", "lock", "job-dir/x", "run.json", "processes.jsonl", ".reserve"):
        path = copying.there / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    for name in ("events.jsonl", "plan.json", "attempt-0/peers.json", "attempt-0/worker-0/report.json"):
        (copying.there / name).write_text(name)
    for name in ("output", "code", "work", "user-all"):
        (task / name).mkdir()
        (task / name / "current").write_text(name)
    copying.once()
    found = {str(path.relative_to(copying.here)) for path in copying.here.rglob("*") if path.is_file()}
    assert found == {
        "events.jsonl", "plan.json", "attempt-0/peers.json", "attempt-0/worker-0/report.json", "cluster/copied.jsonl",
        "attempt-0/worker-0/user-all/current",
    }  # fmt: skip
    copying.once(outputs=("attempt-0/worker-0",))
    assert (copying.here / "attempt-0/worker-0/output/current").read_text() == "output"
    assert copying.same()


def test_logs_only_when_they_are_asked_for(copying):
    Log(task_of(copying)).print(3)
    (copying.there / "events.jsonl").write_text("{}\n")
    copying.once(logs=False)
    assert list(files(copying.here)) == ["events.jsonl"]
    copying.once()
    assert copying.same()


def test_logs_grow_and_rotate_as_in_the_original(copying):
    log, other = Log(task_of(copying)), Log(task_of(copying), kept=0, stream="user-stdout")
    copying.begin()
    for lines in (1, 3, 30, 5, 200, 1, 0, 40):
        log.print(lines)
        other.print(lines)
        copying.until_same()


def test_a_log_keeps_its_inode_when_it_is_rotated(copying):
    """A reader of the copy goes on where it was: nothing twice, nothing left out."""
    log = Log(task_of(copying), kept=100)
    copying.begin()
    log.print(5)
    copying.until_same()
    (copying.here / "attempt-0/worker-0").mkdir(exist_ok=True)
    with StreamReader(copying.here / "attempt-0/worker-0", USER_ALL) as reader:
        read = b""
        for lines in (0, 10, 60, 3, 200, 1):
            log.print(lines)
            copying.until_same()
            while data := reader.read():
                read += data
    assert read.count(b"\n") == log.lines
    assert [line.split(b":")[0] for line in read.splitlines()] == [b"line %d" % n for n in range(1, log.lines + 1)]


def test_rotation_while_nobody_copies(copying):
    """Between two commands. The copy's files get their new names; no byte is sent twice."""
    log = Log(task_of(copying), kept=100)
    log.print(20)
    copying.once()
    before = inode(copying.here / "attempt-0/worker-0/user-all/current")
    log.print(300)
    copying.once()
    assert copying.same()
    assert before in {inode(path) for path in (copying.here / "attempt-0/worker-0/user-all").glob("@*")}


def test_logs_with_the_same_lines_are_told_apart(copying):
    """Rotated files of equal content: only the inode says which is which."""
    folder = task_of(copying) / "user-all"
    folder.mkdir()
    (folder / "current").write_bytes(b"y\n" * 500)
    copying.once()
    kept = inode(copying.here / "attempt-0/worker-0/user-all/current")
    for number in range(3):
        os.rename(folder / "current", folder / f"@4000000000000000000000{number:02}.s")
        (folder / "current").write_bytes(b"y\n" * 500)
    copying.once()
    assert copying.same()
    assert inode(copying.here / "attempt-0/worker-0/user-all/@400000000000000000000000.s") == kept


def test_replaced_and_deleted_files(copying):
    task = task_of(copying)
    for number in range(6):  # inodes of replaced files are used again at once
        new = task / ".report.json.new"
        new.write_text(f"report {number}")
        os.replace(new, task / "report.json")
        copying.once()
        assert copying.same()
    (task / "report.json").unlink()
    copying.once()
    assert not (copying.here / "attempt-0/worker-0/report.json").exists()


def test_an_empty_folder_is_copied(copying):
    task_of(copying, "attempt-1/ps-2")
    copying.once()
    assert (copying.here / "attempt-1/ps-2").is_dir()


def test_the_end_is_seen_only_with_the_report(copying):
    (copying.there / "events.jsonl").write_text('{"event": "a"}\n')
    copying.begin()
    copying.until_same()
    with (copying.there / "events.jsonl").open("a") as log:
        log.write('{"event": "job-completed"}\n')
    assert copying.session.next(0.5) is None
    assert "completed" not in (copying.here / "events.jsonl").read_text()
    (copying.there / "report.json").write_text("{}")
    wait_until(lambda: (found := copying.session.next(1)) and found.ended, 120)
    assert copying.same()
    copying.end()
    assert copying.once().ended


def test_events_come_after_the_logs_that_were_written_before_them(copying):
    """The events say that a task has ended: at that moment its whole log is there."""
    writer = """if 1:
        import os, sys
        top = sys.argv[1]
        for number in range(300):
            folder = f"{top}/attempt-0/worker-{number}/user-all"
            os.makedirs(folder)
            with open(folder + "/current", "w") as log:
                for line in range(50):
                    log.write(f"{line}\\n" * 20)
                    log.flush()
            with open(f"{top}/events.jsonl", "a") as events:
                events.write(f"{number}\\n")
    """
    copying.begin()
    process = subprocess.Popen([sys.executable, "-c", writer, str(copying.there)])
    ended = 0
    while ended < 300:
        copying.session.next(1)
        path = copying.here / "events.jsonl"
        ended = len(path.read_text().splitlines()) if path.exists() else 0
        if ended:
            last = copying.here / f"attempt-0/worker-{ended - 1}/user-all/current"
            assert last.read_text().endswith("49\n")
    assert process.wait() == 0
    copying.until_same()


def test_a_command_that_is_killed_loses_nothing(copying, tmp_path):
    """Killed at random moments while logs rotate: the next one goes on, and no log is sent again from its beginning."""
    code = f"""if 1:
        import sys
        sys.path.insert(0, {str(os.getcwd())!r})
        from pathlib import Path
        from tests.engines.kubernetes.access.copying import Copying
        one = Copying(Path({str(tmp_path)!r}))
        one.begin()
        print("begun", flush=True)
        while True:
            one.session.next(60)
    """
    logs = [Log(task_of(copying, f"attempt-0/worker-{n}"), kept=1000) for n in range(3)]
    for round_ in range(8):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout.readline()
        for step in range(round_ * 3):
            for log in logs:
                log.print(17 + step)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    sizes = {path: inode(path) for path in (copying.here).rglob("@*.s") if "log-times" not in str(path)}
    copying.once()
    assert copying.same()
    assert all(inode(path) == known for path, known in sizes.items() if path.exists())


def test_another_copy_of_the_folder_takes_nothing_away(copying):
    """A new driver without the old one's disk has less: what was copied stays, and what comes again continues it."""
    log = Log(task_of(copying), kept=100)
    log.print(30)
    other = task_of(copying, "attempt-0/worker-1") / "runtime.log"
    other.write_text("only the old one had it\n")
    (copying.there / "events.jsonl").write_text("one\ntwo\n")
    copying.once()
    whole = files(copying.here)
    old = {name: inode(copying.here / name) for name in whole}
    (copying.there).rename(copying.there.with_name("lost"))
    (copying.there / "cluster").mkdir(parents=True)
    (copying.there / "events.jsonl").write_text("one\n")
    copying.once()
    assert files(copying.here) == whole
    again = Log(task_of(copying), kept=100)
    again.print(31)
    (copying.there / "events.jsonl").write_text("one\ntwo\nthree\n")
    copying.once()
    found = files(copying.here)
    assert found["events.jsonl"] == b"one\ntwo\nthree\n"
    assert found["attempt-0/worker-1/runtime.log"] == whole["attempt-0/worker-1/runtime.log"]
    assert inode(copying.here / "events.jsonl") == old["events.jsonl"]
    assert sum(data.count(b"\n") for name, data in found.items() if "/user-all/" in name and "times" not in name) == 31


def test_what_another_copy_of_the_folder_does_not_have_yet_continues_what_was_copied(copying):
    """Tasks connect to a new driver after the user's machine has: whoever reads the copy sees no line twice."""
    names = ("user-all/current", "runtime.log", "events.jsonl")
    for name in names:
        path = task_of(copying) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\ntwo\n")
    copying.once()
    copied = {name: copying.here / "attempt-0/worker-0" / name for name in names}
    old = {name: inode(path) for name, path in copied.items()}
    (copying.there).rename(copying.there.with_name("lost"))
    (copying.there / "cluster").mkdir(parents=True)
    copying.begin()
    copying.session.next(60)
    for text in ("one\n", "one\ntwo\nthree\n"):
        for name in names[:2]:
            path = task_of(copying) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        copying.session.next(60)
    (task_of(copying) / names[2]).write_text("2\n")  # another one
    copying.until_same()
    assert [inode(copied[name]) == old[name] for name in names] == [True, True, False]


def test_what_the_user_has_already_is_not_sent(copying):
    for folder in (copying.there, copying.here):
        (folder / "job.yaml").write_text("name: a")
        (folder / "events.jsonl").write_text("submitted\n")
    before = inode(copying.here / "job.yaml"), inode(copying.here / "events.jsonl")
    with (copying.there / "events.jsonl").open("a") as log:
        log.write("started\n")
    copying.once()
    assert copying.same()
    assert (inode(copying.here / "job.yaml"), inode(copying.here / "events.jsonl")) == before


@pytest.mark.parametrize(
    "header",
    [
        {"path": "../x"}, {"path": "/etc/x"}, {"path": "a/../../x"}, {"path": "cluster/job.json"},
        {"path": "run.json"},
        {"path": "code/a"}, {"path": ""}, {"path": None}, {"path": "a\0b"}, {"path": "attempt-0/w-0/code/a"},
        {"path": "a/" * 50 + "b"}, {"path": "a", "offset": -1}, {"path": "a", "offset": 10},
        {"path": "a", "offset": "1"},
        {"path": "processes.jsonl"}, {"path": ".reserve"}, {"path": "attempt-0/.copied-x"},
    ],
)  # fmt: skip
def test_what_is_sent_stays_in_the_folder(copying, header):
    copying.begin()
    before = sorted(copying.here.rglob("*"))
    whole = {"offset": 0, "inode": 1, "new": True, "last": True, "grows": header.get("path") == "a", "time": 0}
    if "offset" in header:
        whole["new"] = False
    frame = LinkFrame(copy_rules.WRITE, {**whole, **header}, b"data")
    with pytest.raises(CannotRun):
        copying.copy.take(frame)
    assert sorted(copying.here.rglob("*")) == before


def test_links_are_not_followed(copying, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    task = task_of(copying)
    (task / "user-all").symlink_to(outside)
    (task / "report.json").symlink_to(outside / "secret")
    os.mkfifo(task / "runtime.log")
    (copying.here / "attempt-0").symlink_to(outside)
    (copying.there / "attempt-0/peers.json").write_text("{}")
    with pytest.raises(CannotRun):
        copying.once()
    (copying.here / "attempt-0").unlink()
    copying.once()
    assert set(files(copying.here)) == {"attempt-0/peers.json"}
    assert sorted(os.listdir(outside)) == ["secret"]


def test_a_limit_on_what_is_sent(copying):
    (task_of(copying) / "runtime.log").write_bytes(b"x" * 5000)
    with pytest.raises(CannotRun, match="more is sent than a run can have"):
        copying.once(limit=4000)


def test_news_come_at_once(copying):
    log = Log(task_of(copying))
    log.print(1)
    copying.begin()
    copying.until_same()
    log.print(1)
    assert copying.session.next(20)
    assert copying.same()


def test_serve_run_ends_with_its_input(copying):
    copying.begin()
    copying.session.next(20)
    process = copying.session._stream.process
    copying.end()
    assert process.returncode == 0


def test_serve_run_says_what_is_wrong(tmp_path):
    found = subprocess.run([*SERVE], capture_output=True, text=True)
    assert (found.returncode, "usage" in found.stderr) == (2, True)


def test_what_a_driver_has_not_made_yet_is_waited_for(copying):
    later = copying.there.with_name("later")
    copying.there.rename(later)
    process = subprocess.Popen([*SERVE, str(copying.there)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert select.select([process.stdout], [], [], 1.0)[0] == []
    (later / "run.json").write_text('{"name": "x"}')
    later.rename(copying.there)
    assert b'"name": "x"' in os.read(process.stdout.fileno(), 1 << 16)
    process.communicate()
    assert process.returncode == 0


def test_a_run_that_begins_in_the_middle_of_a_file_is_copied_again(copying):
    """Somebody has cut the copy, as `EventLog` does with a torn line."""
    path = copying.there / "events.jsonl"
    path.write_text("one\ntwo\n")
    copying.begin()
    copying.until_same()
    os.truncate(copying.here / "events.jsonl", 4)
    with path.open("a") as log:
        log.write("three\n")
    with pytest.raises(CannotRun, match="ends before"):
        copying.session.next(20)
    copying.end()
    copying.once()
    assert copying.same()


def test_run_of_copy_is_a_run(copying):
    (copying.there / "attempt-0").mkdir()
    copying.once()
    assert Run(copying.here).attempts() == [0]


def test_what_was_sent_is_read_although_the_other_side_has_ended(copying):
    """It sends all, and ends, while this side is still busy with the beginning."""
    (copying.there / "events.jsonl").write_text("x" * 40_000)
    copying.begin(follow=False)
    copying.session._stream.process.wait(60)
    copying.session._said -= 60
    assert copying.session.next(60)
    assert copying.same()
