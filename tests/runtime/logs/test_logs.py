"""The user's streams: every byte, in the right files, in the right order."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from kedge import contract
from kedge.runtime.files import Faults
from kedge.runtime.logs.combine import IN_MEMORY, Combined
from kedge.runtime.logs.rotate import RotatingFile
from kedge.testing.wait import wait_until


def python(script):
    """A command that runs a Python script."""
    return f"exec {sys.executable} -I -S -c '{script}'"


@pytest.mark.parametrize(
    "text",
    [b"", b"one\ntwo\n", b"no newline", b"\n\n\n", b"0%\r50%\r100%\r\n", bytes(range(256)) * 3, b"\0" * 70_000 + b"\n"],
    ids=["nothing", "lines", "no-newline", "empty-lines", "carriage-returns", "binary", "zeros"],
)
def test_every_byte_is_kept(attempt, tmp_path, text):
    (tmp_path / "text").write_bytes(text)
    attempt.run(f"cat {tmp_path}/text; cat {tmp_path}/text >&2")
    assert attempt.stream("user-stdout") == text
    assert attempt.stream("user-stderr") == text
    ended = text if text.endswith(b"\n") or not text else text + b"\n"
    combined = attempt.stream("user-all")
    assert sorted(combined.split(b"\n")) == sorted((ended * 2).split(b"\n"))


def test_lines_are_combined_in_the_order_in_which_they_are_completed(attempt):
    # Each line is written only when user-all shows the one before, so there is one right order.
    steps = ["1:first\\n", "2:be", "1:second\\n", "2:gun\\n", "1:third\\n", "2:last"]
    script = f"""
import os
seen = 0
for step in {steps!r}:
    fd, text = step.split(":")
    os.write(int(fd), text.encode())
    seen += (len(text) if text.endswith("\\n") else 0) + (2 if text == "gun\\n" else 0)
    while os.stat("../user-all/current").st_size < seen: pass
""".replace("'", '"').replace("\\\\n", "\\n")
    attempt.run(python(script))
    assert attempt.stream("user-all") == b"first\nsecond\nbegun\nthird\nlast\n"


def test_fifty_megabytes_arrive_exactly(attempt):
    script = """
import os, hashlib, random
source = random.Random(7)
left, digest, n = 50_000_000, hashlib.sha256(), 0
while left > 0:
    line = b"%d:" % n + b"x" * source.choice((0, 10, 100, 3000)) + b"\\n"
    block = line * source.choice((1, 20, 700))
    digest.update(block)
    view = memoryview(block)
    while view: view = view[os.write(1, view):]
    left -= len(block)
    n += 1
os.write(2, digest.hexdigest().encode())
"""
    attempt.run(python(script))
    digest = attempt.stream("user-stderr").decode()
    assert hashlib.sha256(attempt.stream("user-stdout")).hexdigest() == digest
    combined = attempt.stream("user-all").removesuffix(b"\n").removesuffix(digest.encode())
    assert hashlib.sha256(combined).hexdigest() == digest


def test_short_lines_of_a_busy_stream_are_read_many_at_once(attempt):
    script = """
import os
for n in range(200_000): os.write(1, b"x" * 119 + b"\\n")
status = open("/proc/%d/status" % os.getppid()).read()
os.write(2, status.split("nonvoluntary")[0].split()[-1].encode())
"""
    attempt.run(python(script))
    sleeps = int(attempt.stream("user-stderr"))
    assert sleeps < 200_000 / 50
    assert attempt.stream("user-stdout") == (b"x" * 119 + b"\n") * 200_000


def test_a_huge_line_waits_on_disk_and_is_combined_whole(attempt):
    size = 20 * IN_MEMORY
    script = f"""
import os
block = b"y" * 65536
for n in range({size} // 65536): os.write(1, block)
os.write(2, b"between\\n")
while not os.stat("../user-all/current").st_size: pass
status = open("/proc/%d/status" % os.getppid()).read()
os.write(2, status[status.index("VmHWM"):].split("\\n")[0].encode())
os.write(1, b"\\nend\\n")
"""
    attempt.run(python(script))
    stderr = attempt.stream("user-stderr")
    combined = attempt.stream("user-all")
    assert combined == b"between\n" + b"y" * size + b"\nend\n" + stderr.split(b"\n")[1] + b"\n"
    assert attempt.stream("user-stdout") == b"y" * size + b"\nend\n"
    assert int(stderr.split()[-2]) < 40_000  # KiB: less than a process that held the line would have
    assert not list(attempt.folder.glob(".unfinished*"))


def test_two_writers_never_split_a_line(attempt):
    script = """
import os
if os.fork(): fd, mark = 1, b"a"
else: fd, mark = 2, b"b"
for n in range(20000):
    line = mark * (n % 300) + b"\\n"
    cut = n % 7
    if cut: os.write(fd, line[:-cut])
    os.write(fd, line[-cut:] if cut else line)
if fd == 1: os.wait()
"""
    attempt.run(python(script))
    lines = attempt.stream("user-all").split(b"\n")[:-1]
    assert len(lines) == 40_000
    assert all(len(set(line)) <= 1 for line in lines)
    for mark, name in ((b"a", "user-stdout"), (b"b", "user-stderr")):
        assert [line for line in lines if mark in line] == [line for line in attempt.stream(name).split(b"\n") if line]


def test_a_background_process_that_keeps_the_output_open(attempt, alive):
    attempt.run("sleep 1000 & echo $!")
    pid = int(attempt.stream("user-stdout"))
    (warning,) = [line for line in attempt.log if "WARNING" in line]
    assert f"{pid} (sleep)" in warning
    assert not alive(pid)
    assert attempt.report["reason"] == contract.SUCCEEDED


def test_a_background_process_may_finish_its_output(attempt):
    attempt.run("(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo late) & :")
    assert attempt.stream("user-all") == b"late\n"
    assert not any("WARNING" in line for line in attempt.log)


def test_rotation_keeps_every_byte_and_cuts_at_lines(attempt):
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(file_bytes=10_000, kept_files=1000))
    attempt.run("seq 30000")
    expected = "".join(f"{n}\n" for n in range(1, 30_001)).encode()
    for name in ("user-stdout", "user-all"):
        assert attempt.stream(name) == expected
        files = sorted((attempt.folder / name).iterdir())
        assert all(path.stat().st_size >= 8000 and path.read_bytes().endswith(b"\n") for path in files[:-1])
        assert all(path.stat().st_size <= 10_000 for path in files)
        assert all(path.stat().st_mode & 0o777 == 0o744 and path.name.endswith(".s") for path in files[:-1])
        assert files[-1].name == "current"
        assert files[-1].stat().st_mode & 0o777 == 0o644
    assert attempt.report["removed_bytes"] is None


def test_rotation_counts_what_it_removes(attempt):
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(file_bytes=4096, kept_files=1))
    attempt.run("seq 5000 >&2")
    kept = attempt.stream("user-stderr")
    expected = "".join(f"{n}\n" for n in range(1, 5001)).encode()
    assert expected.endswith(kept)
    removed = attempt.report["removed_bytes"]
    assert removed == {"user-stderr": len(expected) - len(kept), "user-all": removed["user-all"]}
    assert len(list((attempt.folder / "user-stderr").iterdir())) == 2
    assert any("Log rotation has removed" in line for line in attempt.log)


@pytest.fixture
def rotating(tmp_path):
    """Makes rotating files in one folder; they are closed with the test."""
    made = []

    def make(file_bytes=4096, kept_files=1000):
        policy = contract.LogPolicy(file_bytes=file_bytes, kept_files=kept_files)
        made.append(RotatingFile(str(tmp_path / "stream"), policy, Faults(), lambda path, size: None))
        return made[-1]

    yield make
    for file in made:
        file.close()


def kept(file):
    """The contents of all files in the folder, and their sizes."""
    texts = [path.read_bytes() for path in sorted(Path(file.folder).iterdir())]
    return b"".join(texts), [len(text) for text in texts]


def test_the_data_of_a_large_file_is_freed(rotating):
    file = rotating(1 << 24, kept_files=0)
    for n in range(3 * 16):
        file.write([b"%d" % (n % 10) * (1 << 20)])
    assert os.listdir(file.folder) == ["current"]
    assert file.removed_bytes == 3 << 24
    wait_until(lambda: not [each for each in open_files() if each.startswith(file.folder) and "(deleted)" in each], 10)


def open_files():
    """The paths of the files that this process holds open."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(f"/proc/self/fd/{fd}")


@pytest.mark.parametrize("seed", range(20))
def test_rotation_is_exact_for_any_pieces(rotating, seed):
    source = random.Random(seed)
    file, expected = rotating(4096), b""
    for _ in range(60):
        parts = [
            bytes(source.choices(b"ab\n" if source.random() < 0.7 else b"ab", k=source.choice((0, 1, 50, 2096, 5000))))
            for _ in range(source.choice((1, 2)))
        ]
        file.write(parts)
        expected += b"".join(parts)
    text, sizes = kept(file)
    assert text == expected
    assert max(sizes) <= 4096


def test_a_line_longer_than_a_file_is_cut_at_the_limit(rotating):
    file = rotating(4096)
    file.write([b"x" * 9000])
    assert kept(file)[1] == [4096, 4096, 808]


def test_an_unfinished_file_of_an_earlier_run_is_put_aside(rotating):
    first = rotating()
    first.write([b"earlier"])
    first.close()
    second = rotating()
    second.write([b"later"])
    (aside,) = [name for name in os.listdir(second.folder) if name != "current"]
    assert aside.startswith("@40000000")
    assert aside.endswith(".u")
    assert len(aside) == 27
    assert kept(second)[0] == b"earlierlater"


def test_spilling_works_where_there_are_no_unnamed_files(tmp_path, rotating):
    file, faults = rotating(1 << 30), Faults()
    combined = Combined(file, str(tmp_path), faults)
    line = b"z" * (IN_MEMORY // 2 + 1)
    for piece in (line, line, line, b"end\nrest"):
        combined.feed(piece, len(piece))
    combined.finish()
    assert kept(file)[0] == line * 3 + b"end\nrest\n"
    assert faults.first is None


def test_nothing_is_lost_by_tasks_that_print_and_exit_at_once(attempt):
    for _ in range(20):
        for name in contract.STREAMS:
            (attempt.folder / name / "current").unlink(missing_ok=True)
        attempt.run("echo to-stdout; echo to-stderr >&2")
        assert attempt.stream("user-all") in (b"to-stdout\nto-stderr\n", b"to-stderr\nto-stdout\n")


def test_the_console_gets_raw_streams_and_the_runtime_log(attempt, capfdbinary):
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(console=True))
    attempt.run("printf 'out\\377'; printf 'err' >&2")
    out, err = capfdbinary.readouterr()
    assert out == b"out\xff"
    runtime_log = (attempt.folder / contract.RUNTIME_LOG).read_bytes()
    assert err.replace(b"err", b"", 1) == runtime_log


def test_a_full_console_holds_the_task_up_but_not_its_signals(attempt):
    reader, writer = os.pipe()
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(console=True))
    attempt.start("seq 10000000", stdout=writer, stderr=writer)
    os.close(writer)
    attempt.wait_for_event(contract.RUNNING)
    wait_until(lambda: attempt.stream("user-stdout"))
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    os.close(reader)
    assert len(attempt.stream("user-stdout")) < 1_000_000  # of 79 MB


def test_a_console_that_nobody_reads_any_more_is_left_alone(attempt):
    reader, writer = os.pipe()
    os.close(reader)
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(console=True))
    assert attempt.run("seq 100000", stdout=writer, stderr=writer) == 0
    os.close(writer)
    assert attempt.stream("user-stdout").endswith(b"\n100000\n")


def test_a_slow_console_gets_everything(attempt):
    reader, writer = os.pipe()
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(console=True))
    attempt.start("seq 300000", stdout=writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    assert attempt.wait() == 0
    assert text == attempt.stream("user-stdout") == "".join(f"{n}\n" for n in range(1, 300_001)).encode()
