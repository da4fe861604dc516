"""User files of kinds that would block their reader or never end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from kedge.cli.log_files import read_tail
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.rules import rule_files
from kedge.errors import InputError
from kedge.resolve import lock_file
from kedge.resolve.sources import files
from kedge.resolve.sources.base import Unavailable
from kedge.runs.ignore_files import Rules
from kedge.spec.files import read_text
from kedge.user_files import read

LIMIT_SEC = 60  # far more than any of this takes


class Hangs(BaseException):
    """Nobody takes it for an error of the file."""


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    def too_long(number: int, frame: FrameType | None) -> None:
        raise Hangs

    previous = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT_SEC)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10 << 30)


PLANTED: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "folder": Path.mkdir,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "sparse": sparse,
}
READERS: dict[str, Callable[[Path], object]] = {
    "job.yaml": read_text,
    "job.lock": lambda path: lock_file.load(str(path)),
    "rules.toml": rule_files.compiled,
    "exit.yaml": lambda path: exitspec.load(str(path)),
    "item.yaml": lambda path: files.read(str(path), "none"),
}


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("name", READERS)
def test_special_and_oversized_files_are_clear_errors(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    PLANTED[kind](path)
    with pytest.raises((InputError, Unavailable), match=name):
        READERS[name](path)


def test_an_endless_ignore_file(tmp_path: Path) -> None:
    sparse(tmp_path / ".gitignore")
    with pytest.raises(InputError, match=r"\.gitignore: cannot be read: it is larger than 1 MiB"):
        Rules(tmp_path)
    (tmp_path / ".gitignore").unlink()
    os.mkfifo(tmp_path / ".gitignore")
    assert not Rules(tmp_path).ignores("train.py", False)


def test_a_device_is_not_a_log() -> None:
    with pytest.raises(InputError, match="/dev/zero is a device, not a log"):
        read_tail("/dev/zero")


def test_a_named_pipe_is_not_a_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "current")
    code = "import sys; from kedge.cli.log_files import read_tail; read_tail(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "current"], capture_output=True, text=True, check=False, timeout=60
    )
    assert "current is a named pipe, not a log" in done.stderr


def test_a_pipe_of_the_shell_is_a_log() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"some\n")
    os.close(writer)
    assert read_tail(f"/dev/fd/{reader}").content == b"some\n"
    os.close(reader)


@pytest.mark.parametrize("path", ["/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"])
def test_an_inherited_pipe_is_read_to_its_end(path: str) -> None:
    script = "import sys; from kedge.user_files import read; sys.stdout.buffer.write(read(sys.argv[1], 1 << 20))"
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdin
        assert reader.stdout
        for _ in range(10):
            reader.stdin.write(b"some\n")
            reader.stdin.flush()
        reader.stdin.close()
        assert reader.stdout.read() == b"some\n" * 10


def test_a_job_file_from_a_process_substitution(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("protocolVersion: 2\nname: [\n")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kedge validate <(cat job.yaml)"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "<stdin>:3:" in done.stderr, done.stderr


def test_a_pipe_is_read_up_to_the_limit() -> None:
    reader, writer = os.pipe()
    os.write(writer, bytes(100))
    with pytest.raises(OSError, match="larger than 0 MiB"):
        read(f"/dev/fd/{reader}", 99)
    os.close(reader)
    os.close(writer)
