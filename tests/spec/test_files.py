from __future__ import annotations

import os
from pathlib import Path

import pytest

from kedge.errors import InputError
from kedge.spec.files import MAX_FILE_BYTES, read_text


def refusal(path: Path | str) -> str:
    with pytest.raises(InputError) as caught:
        read_text(path)
    return str(caught.value)


def test_text_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes("\ufeffa: é\r\n".encode())
    assert read_text(tmp_path / "job.yaml") == "\ufeffa: é\r\n"


def test_a_missing_file_gets_a_suggestion_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "digits.yaml").touch()
    path = tmp_path / "digit.yaml"
    assert refusal(path) == f"{path}: there is no such file; did you mean 'digits.yaml'?"
    assert refusal(tmp_path / "no" / "x.yaml").endswith("there is no such file")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, ""])
def test_impossible_file_names_are_refused(name: str) -> None:
    assert ": " in refusal(name)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path).endswith("it is a directory, not a job file")
    assert refusal(tmp_path / "pipe").endswith("it is a named pipe, not a job file")
    assert refusal("/dev/zero").endswith("it is a device, not a job file")
    (tmp_path / "file").touch()
    assert "cannot be read" in refusal(tmp_path / "file" / "below")


def test_a_file_without_read_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.touch(mode=0o000)
    user = os.geteuid()
    if user == 0:  # root may read everything
        os.seteuid(65534)
    try:
        assert refusal(path).endswith("it cannot be read: permission denied")
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\nb: \xff\n", "byte 0xff at offset 8 (line 2) is not UTF-8; save the file as UTF-8"),
        (b"\x7fELF\x02\0\0", "this is not a text file: it has a NUL byte at offset 5"),
        ("a: 1".encode("utf-16"), "this looks like UTF-16; save the file as UTF-8"),
        (b"a: \xc3", "byte 0xc3 at offset 3 (line 1) is not UTF-8; save the file as UTF-8"),
    ],
)
def test_bytes_that_are_not_utf_8_text_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "job.yaml").write_bytes(data)
    assert refusal(tmp_path / "job.yaml") == f"{tmp_path}/job.yaml: {message}"


def test_a_large_file_is_refused_by_its_size(tmp_path: Path) -> None:
    with open(tmp_path / "job.yaml", "wb") as file:
        file.truncate(50 << 30)  # sparse; reading it would take minutes and all memory
    assert refusal(tmp_path / "job.yaml").endswith("the limit for a job file is 4 MiB, and this one has 51200.0 MiB")
    with open(tmp_path / "job.yaml", "wb") as file:
        file.write(b"#" * MAX_FILE_BYTES)
    assert len(read_text(tmp_path / "job.yaml")) == MAX_FILE_BYTES


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    refusal(tmp_path)
    refusal("/dev/zero")
    assert set(os.listdir("/proc/self/fd")) <= before
