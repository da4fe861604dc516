"""Paths that must stay inside a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kedge import beneath
from kedge.untrusted import FOLDER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("secret")
    top = tmp_path / "top"
    (top / "run" / "deep").mkdir(parents=True)
    (top / "run" / "file").write_text("inside")
    for name, to in {
        "latest": "run", "back": "run/deep/../file", "absolute": f"{top}/run/file", "up": "../outside",
        "run/out": "../../outside", "magic": "/proc/self/root", "loop": "loop",
    }.items():  # fmt: skip
        (top / name).symlink_to(to)
    return top


def content(top: Path, path: str) -> str:
    folder = os.open(top, FOLDER)
    try:
        with os.fdopen(beneath.open_beneath(folder, path, os.O_RDONLY)) as file:
            return file.read()
    finally:
        os.close(folder)


def refusal(top: Path, path: str) -> int | None:
    """The number of the error."""
    try:
        content(top, path)
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize("path", ["run/file", "latest/file", "back", "./run//file", "run/../run/file"])
def test_what_is_inside_is_opened_also_through_links(folder: Path, path: str) -> None:
    assert content(folder, path) == "inside"


@pytest.mark.parametrize(
    "path", ["absolute", "up", "run/out", "latest/out", "magic/etc/passwd", "../outside", "/etc/passwd", "loop"]
)
@pytest.mark.parametrize("has_openat2", [True, False])
def test_what_leads_out_is_not_opened(
    folder: Path, path: str, has_openat2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_openat2:
        monkeypatch.setattr(beneath, "_OPENAT2", 1_000_000)  # the kernel answers ENOSYS
    assert refusal(folder, path) in (errno.EXDEV, errno.ELOOP, errno.ENOTDIR)


def test_without_openat2_only_links_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "_OPENAT2", 1_000_000)
    assert content(folder, "run/file") == content(folder, "./run//file") == "inside"
    assert refusal(folder, "latest/file") in (errno.ELOOP, errno.ENOTDIR)
