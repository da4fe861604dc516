from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest

from kedge.untrusted import open_folder, open_regular, parse, read, read_path
from kedge.untrusted_values import fits


def test_only_regular_files_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        for name in ("link", "pipe", "socket", "none"):
            with pytest.raises(FileNotFoundError):
                open_regular(tmp_path, name)
    with open(open_regular(tmp_path, "file"), "rb") as file:
        assert file.read() == b"content"


def test_no_link_on_the_way_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "inner").symlink_to("b")
    for name in ("link/b/file", "a/inner/file", "a/inner"):
        with pytest.raises(FileNotFoundError):
            open_regular(tmp_path, name)
    with pytest.raises(NotADirectoryError):
        open_folder(tmp_path, "a/inner")
    with open(open_regular(tmp_path / "link", "b/file"), "rb") as file:  # what leads to the folder is the caller's
        assert file.read() == b"content"


def test_files_above_the_limit_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    assert read(tmp_path, "file", 10) == read_path(tmp_path / "file", 10) == bytes(10)
    with pytest.raises(OSError, match="larger than"):
        read(tmp_path, "file", 9)
    with pytest.raises(OSError, match="larger than"):
        read_path(tmp_path / "file", 9)


def test_a_trusted_path_may_be_a_link_to_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_path(tmp_path / "link", 100) == b"content"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_path(path, 100)


def test_parse() -> None:
    assert parse(b'{"a": [1, 1.5, true, null, "x"]}') == {"a": [1, 1.5, True, None, "x"]}
    assert parse(b'["\\ud83d\\ude00", "a\\ud800b", "\xff"]') == ["\U0001f600", "a?b", "\ufffd"]
    assert parse(b"[[" * 30 + b"]]" * 30)
    assert parse(b"[" + b"{}," * 1000 + b"{}]") == [{}] * 1001


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "x",
        "NaN",
        "[Infinity]",
        "1e999",
        "9" * 20,
        "9" * 5000,
        "[" * 70 + "]" * 70,
        "[" * 10**6,
        '{"a":' * 10**5,
    ],
    ids=lambda text: text[:20],
)
def test_unusable_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text.encode())


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Named(TypedDict):
    name: str


class Shape(Named, total=False):
    points: list[dict[str, int]]


@pytest.mark.parametrize(
    ("value", "wanted", "fit"),
    [
        (1, int, True), (True, int, False), (1, float, True), (1.5, int, False), (None, str | None, True),
        (["a"], tuple[str, ...], True), (["a", 1], list[str], False), ({"a": 1}, dict[str, int], True),
        ({"a": "b"}, dict[str, int], False), ([], dict[str, int], False), (Point(1, 2), Point, True),
        (Point("x"), Point, False), ({"name": "a"}, Shape, True), ({}, Shape, False),
        ({"name": "a", "points": [{"x": 1}]}, Shape, True), ({"name": "a", "points": {}}, Shape, False),
        (object(), Any, True),
    ],
)  # fmt: skip
def test_fits(value: object, wanted: Any, fit: bool) -> None:
    assert fits(value, wanted) is fit
