"""The copy of a folder below a run folder: complete, and safe although tasks have written the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kedge.runs import tree_copy


def copy_of(source: Path, target: Path, *progress: Callable[[int, int], None]) -> tuple[str, ...]:
    return tree_copy.copy(source.parent, source.name, target, *progress)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "old" / "job-dir"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "new" / "job-dir"
    folder.mkdir(parents=True)
    return folder


def test_everything_is_copied_with_modes_and_times(source: Path, target: Path) -> None:
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("no ignore rules")
    (source / ".gitignore").write_text("*")
    (source / "step").mkdir(mode=0o750)
    with (source / "step" / "sparse").open("wb") as file:
        file.write(b"begin")
        file.truncate(10 << 20)
    (source / "read-only").write_text("x")
    (source / "read-only").chmod(0o4555)
    os.utime(source / "step", ns=(1, 2))
    os.utime(source / "read-only", ns=(3, 4))
    seen: list[tuple[int, int]] = []
    assert copy_of(source, target, lambda done, total: seen.append((done, total))) == ()
    for path in ("step/sparse", "read-only", ".git/config", ".gitignore"):
        assert (target / path).read_bytes() == (source / path).read_bytes()
    assert (target / "step" / "sparse").stat().st_blocks == (source / "step" / "sparse").stat().st_blocks
    assert [(target / name).stat().st_mode & 0o7777 for name in ("step", "read-only")] == [0o750, 0o755]
    assert [(target / name).stat().st_mtime_ns for name in ("step", "read-only")] == [2, 4]
    assert seen
    assert seen[-1][0] == seen[-1][1]


def test_links_inside_lead_to_the_copy(source: Path, target: Path) -> None:
    (source / "a" / "b").mkdir(parents=True)
    (source / "file").write_text("content")
    for place, text in {
        "plain": "file", "a/b/up": "../../file", "a/abs": f"{source}/file", "root": f"{source}", "a/b/folder": "..",
        "a/in-container": "/usr/local/pai/job-dir/file", "dangling": "a/none", "loop": "loop",
    }.items():  # fmt: skip
        (source / place).symlink_to(text)
    assert copy_of(source, target) == ()
    shutil.rmtree(source)
    for place in ("plain", "a/b/up", "a/abs", "a/in-container"):
        assert (target / place).read_text() == "content", place
    assert (target / "root").resolve() == target
    assert (target / "a" / "b" / "folder").resolve() == target / "a"
    assert os.readlink(target / "dangling") == "a/none"


def test_what_leads_out_or_is_no_file_is_left_out(source: Path, target: Path) -> None:
    (source / "a").mkdir()
    links = {
        "absolute": "/etc/passwd", "a/relative": "../../x", "a/through": "link/../x", "link": ".",
        "beside": f"{source}x",
        "a/hidden": f"{source}/../x", "a/both": "../a/../../x",
    }  # fmt: skip
    for place, text in links.items():
        (source / place).symlink_to(text)
    os.mkfifo(source / "pipe")
    assert set(copy_of(source, target)) == {*links, "pipe"} - {"link"}
    assert sorted(os.listdir(target)) == ["a", "link"]
    assert os.listdir(target / "a") == []


def test_a_folder_that_became_a_link_is_not_followed(
    source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    (source / "a").mkdir()
    (source / "a" / "file").write_text("own")
    listed = list(tree_copy._listed(source.parent, source.name))

    def swapped(run: Path, name: str) -> list[tree_copy.TreeEntry]:
        (source / "a").rename(source / "b")
        (source / "a").symlink_to(tmp_path / "outside")
        return listed

    monkeypatch.setattr(tree_copy, "_listed", swapped)
    assert copy_of(source, target) == ("a/file",)
    assert not (target / "a" / "file").exists()


def test_a_link_in_place_of_a_folder_on_the_way_is_refused(source: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "code").symlink_to(source.parent)
    with pytest.raises(NotADirectoryError):
        tree_copy.copy(tmp_path / "run", "code/job-dir", target)


def test_folders_may_be_deeper_than_a_path(source: Path, target: Path) -> None:
    names = ["d" * 200] * 30
    with ExitStack() as opened:

        def folder(name: str | Path, above: int | None = None) -> int:
            fd = os.open(name, os.O_RDONLY, dir_fd=above)
            opened.callback(os.close, fd)
            return fd

        at = folder(source)
        for name in names:
            os.mkdir(name, dir_fd=at)
            at = folder(name, at)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        assert copy_of(source, target) == ()
        at = folder(target)
        for name in names:
            at = folder(name, at)
        assert os.listdir(at) == ["file"]


def test_only_links_of_the_job_folder_may_use_its_path_in_containers(source: Path, target: Path) -> None:
    (source / "link").symlink_to("/usr/local/pai/job-dir/file")
    assert copy_of(source, target) == ()
    assert os.readlink(target / "link") == "file"
    code = source.rename(source.with_name("code"))
    (target / "link").unlink()
    assert copy_of(code, target) == ("link",)
