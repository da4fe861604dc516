"""Secrets that the submitter gives, from all sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kedge.errors import InputError
from kedge.resolve.model import Inputs
from kedge.resolve.secrets import LARGEST, collect, read_given
from kedge.spec.parse import parse

JOB = """\
protocolVersion: 2
name: j
type: job
prerequisites: [{name: img, type: dockerimage, uri: u}]
taskRoles:
  w: {dockerImage: img, resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}, commands: [a]}
"""


def test_a_value_comes_from_text_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("of a file\n\n")
    monkeypatch.setenv("GIVEN", "of a variable")
    reader, writer = os.pipe()
    os.write(writer, b"of a pipe\n")
    os.close(writer)
    sources = ("plain", f"@{tmp_path}/file", f"@/dev/fd/{reader}", "env:GIVEN")
    assert [read_given("t", source) for source in sources] == ["plain", "of a file\n", "of a pipe", "of a variable"]
    os.close(reader)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("hunter2", "No such file"), ("fifo", "nobody writes"), ("/dev/zero", "a device"), ("", "No such file"),
        ("folder", "a directory"), ("large", "more than 1 MiB"), ("bytes", "not UTF-8"), ("a\0b", "null byte"),
    ],
)  # fmt: skip
def test_an_unreadable_file_is_reported_without_its_name(tmp_path: Path, file: str, why: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "large").open("wb") as large:
        large.truncate(LARGEST + 1)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=why) as error:
        read_given("token", f"@{tmp_path / file}" if file else "@")
    assert str(error.value).startswith("--secret token: ")
    assert "hunter2" not in str(error.value)


def test_a_missing_variable_is_reported_without_its_name() -> None:
    with pytest.raises(InputError, match="--secret token: the variable after 'env:' is not set"):
        read_given("token", "env:hunter2")


@pytest.mark.parametrize("value", ["a\0b", os.fsdecode(b"hunter2\xff"), "\ud800"])
def test_a_value_that_no_script_can_contain_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="the secret token is not UTF-8 text") as error:
        collect(parse(JOB), Inputs("me", secrets={"token": value}), {})
    assert "hunter2" not in str(error.value)
