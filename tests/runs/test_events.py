from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.errors import DiskFull
from kedge.runs.events import EventLog, EventReader, is_written, read
from kedge.testing.wait import wait_until


def names(path: Path) -> list[str]:
    return [event["event"] for event in read(path)]


def test_append_and_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        appended = log.append("task-launched", role="worker", index=3, sync=True)
        log.append("line", text="a\nb\r\u2028c\udcff")
    first, second = read(path)
    assert first == appended == {"time": first["time"], "event": "task-launched", "role": "worker", "index": 3}
    assert second["text"] == "a\nb\r\u2028c?"  # characters that break terminals and files
    assert len(path.read_bytes().splitlines()) == 2


def test_a_missing_log_has_no_events(tmp_path: Path) -> None:
    assert list(read(tmp_path / "none")) == []


@pytest.mark.parametrize("torn", [b'{"event": "to', b'{"event": "torn"}', b"x" * 200_000, b""])
def test_a_torn_line_is_skipped_and_later_removed(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "log"
    with EventLog(path) as log:
        log.append("a")
    with path.open("ab") as file:
        file.write(torn)
    assert names(path) == ["a"]
    with EventLog(path) as log:
        log.append("b")
    assert names(path) == ["a", "b"]
    assert path.read_bytes().count(b"\n") == 2


def test_a_log_has_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert not is_written(path)
    first = EventLog(path)
    assert is_written(path)

    def write() -> None:
        with EventLog(path) as log:
            log.append("b")

    second = threading.Thread(target=write)
    second.start()
    first.append("a")
    first.close()
    second.join()
    assert names(path) == ["a", "b"]
    assert not is_written(path)


def test_a_log_that_is_removed_during_the_wait_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log"
    path.parent.mkdir()
    first = EventLog(path)
    with ThreadPoolExecutor() as pool:
        second = pool.submit(EventLog, path)
        wait_until(lambda: descriptors(path) == 2, what="a second writer")
        shutil.rmtree(path.parent)
        first.close()
        with pytest.raises(FileNotFoundError):
            second.result()


def descriptors(path: Path) -> int:
    """How often this process has a file open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.path.samestat(os.stat(f"/proc/self/fd/{name}"), os.stat(path))
    return found


def test_a_log_of_only_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"event"')
    with EventLog(path) as log:
        log.append("a")
    assert names(path) == ["a"]


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"event": "a"}\n' + bytes(40) + b'\n[1]\n\n\xff\n{"event": "b"}\n')
    assert names(path) == ["a", "b"]


NO_EVENTS = [
    b"[]", b"null", b"3", b'"a"', b"{}", b'{"event": null}', b'{"event": ["b"]}', b'{"event": "b", "time": 7}',
    b'{"event": "b", "time": "yesterday"}', b'{"event": "b", "time": "2026-02-01T02:54:48"}',
    b'{"event": "b", "time": "0001-01-01T00:00:00+23:59"}', b'{"event": "b", "index": "x"}',
    b'{"event": "b", "index": -1}', b'{"event": "b", "index": true}', b'{"event": "b", "index": 1e3}',
    b'{"event": "b", "index": ' + b"9" * 5000 + b"}", b'{"event": "b", "attempt": ' + b"9" * 30 + b"}",
    b'{"event": "b", "delay_sec": NaN}', b'{"event": "b", "delay_sec": 1e999}', b'{"event": "b", "other": -Infinity}',
    b'{"event": "b", "role": "../.."}', b'{"event": "b", "roles": {"a/b": 1}}', b'{"event": "b", "roles": {"a": -1}}',
    b'{"event": "b", "roles": {"a": 999999999999}}', b'{"event": "b", "roles": [["a", 1]]}',
    b'{"event": "b", "root": "x"}', b'{"event": "b", "root": {"cause": 1}}', b'{"event": "b", "text": {}}',
    b'{"event": "b", "other": ' + b"[" * 100 + b"]" * 100 + b"}", b"[" * 200_000, b'{"a":' * 200_000,
    b'{"event": "b", "other": "' + b"x" * (2 << 20) + b'"}', bytes(3 << 20),
]  # fmt: skip


@pytest.mark.parametrize("line", NO_EVENTS, ids=lambda line: repr(line[:50]))
def test_lines_that_are_not_events_are_skipped(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"event": "a"}\n' + line + b'\n{"event": "c"}\n')
    assert names(path) == ["a", "c"]
    tail = EventReader(path)
    assert [event["event"] for event in tail.events()] == ["a", "c"]
    with path.open("ab") as file:
        file.write(line)
    assert list(tail.events()) == []
    with path.open("ab") as file:
        file.write(b'\n{"event": "d"}\n')
    assert [event["event"] for event in tail.events()] == ["d"]


def test_an_endless_log_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"event": "a"}\n')
    os.truncate(path, 1 << 40)
    assert names(path) == ["a"]


def test_only_a_regular_file_is_a_log(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b'{"event": "a"}\n')
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert [names(tmp_path / name) for name in ("real", "link", "zero", "folder", "pipe")] == [["a"], [], [], [], []]


def test_a_full_disk_leaves_only_whole_lines(small_disk: Path) -> None:
    path = small_disk / "log"
    with EventLog(path) as log:
        count = 0
        with pytest.raises(DiskFull, match="log: cannot be written: the file system is full"):  # noqa: PT012
            while True:
                log.append("a", text="x" * 1000)
                count += 1
        assert path.read_bytes()[-1:] == b"\n"
        assert len(names(path)) == count > 1000


def test_a_partly_written_line_is_removed(tmp_path: Path) -> None:
    # With this file size limit the kernel writes only the first half of the line.
    script = (
        "import resource, sys; from pathlib import Path; from kedge.errors import DiskFull\n"
        "from kedge.runs.events import EventLog\n"
        "with EventLog(Path(sys.argv[1])) as log:\n"
        "    log.append('a')\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "    try: log.append('b', text='x' * 2000)\n"
        "    except DiskFull as error: print(error.__cause__.errno)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "    log.append('c')\n"
    )
    path = tmp_path / "log"
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(errno.EFBIG)
    assert names(path) == ["a", "c"]


def test_a_writer_that_is_killed_loses_no_finished_line(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from kedge.runs.events import EventLog\n"
        "log = EventLog(Path(sys.argv[1]))\n"
        "for n in range(10**9): log.append('n', n=n); print(n, flush=True)\n"
    )
    path = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout
        written = [int(writer.stdout.readline()) for _ in range(500)]
        writer.kill()
    assert [event["n"] for event in read(path)][:500] == written


def test_tail(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = EventReader(path)
    assert list(tail.events()) == []
    path.write_bytes(b'{"event": "a"}\n{"event": "b"}\n{"ev')
    assert [event["event"] for event in tail.events()] == ["a", "b"]
    assert list(tail.events()) == []
    with path.open("ab") as file:
        file.write(b'ent": "c"}\n')
    assert [event["event"] for event in tail.events()] == ["c"]


def test_tail_of_a_log_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    script = (
        "import sys; from pathlib import Path; from kedge.runs.events import EventLog\n"
        "with EventLog(Path(sys.argv[1])) as log:\n"
        "    for n in range(2000): log.append('n', n=n, text='x' * (n % 300))\n"
    )
    tail, seen = EventReader(path), []

    def all_seen() -> bool:
        seen.extend(event["n"] for event in tail.events())
        return len(seen) >= 2000

    with subprocess.Popen([sys.executable, "-c", script, path]) as writer:
        wait_until(all_seen)
        assert writer.wait() == 0
    assert seen == list(range(2000))


@given(data=st.binary(max_size=60), cut=st.integers(0, 120))
def test_tail_sees_each_line_once(tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int) -> None:
    path = tmp_path_factory.mktemp("tail") / "log"
    whole = b"".join(json.dumps({"event": "n", "n": n}).encode() + b"\n" for n in range(5)) + data.replace(b"\n", b"")
    tail = EventReader(path)
    path.write_bytes(whole[:cut])
    first = list(tail.events())
    path.write_bytes(whole)
    assert [event["n"] for event in first + list(tail.events())] == list(range(5))


def test_the_descriptor_is_not_inherited(tmp_path: Path) -> None:
    with EventLog(tmp_path / "log"):
        listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN  # exceeding the file size limit is an error, not death
