from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.runs.ignore_files import Rules


def fill(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def kept(folder: Path, rules: Rules | None = None, prefix: str = "") -> set[str]:
    rules = rules or Rules(folder)
    found: set[str] = set()
    for entry in os.scandir(folder):
        if rules.ignores(entry.name, entry.is_dir()):
            continue
        path = Path(entry.path)
        found |= kept(path, Rules(path, rules), f"{prefix}{entry.name}/") if entry.is_dir() else {prefix + entry.name}
    return found


def kept_by_git(folder: Path) -> set[str]:
    if not shutil.which("git"):
        pytest.skip("there is no git to compare with")
    environment = os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q", folder], check=True, env=environment)
    command = ["git", "-C", folder, "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return set(listed.split("\0")) - {""}


FILES = (
    *("a", "b.log", "keep.log", "!odd", "#odd", "end ", "st*r", "star"),
    *("x/a", "x/b.log", "x/y/a", "x/y/c", "x/y/z/a", "d/e/a", "d/f", "foo/keep", "foo/q/z"),
)
TREE = dict.fromkeys(FILES, "")


@pytest.mark.parametrize(
    "ignore",
    [
        {".gitignore": "*.log\n!keep.log\n"},
        {".gitignore": "x/\n!x/y/a\n"},
        {".gitignore": "/a\n"},
        {".gitignore": "foo/**\n!foo/keep\n"},
        {".gitignore": "foo/*\n!foo/q/\n"},
        {".gitignore": "**/a\n", "x/y/.gitignore": "!a\n"},
        {".gitignore": "*\n!*/\n!c\n"},
        {"x/.gitignore": "/a\ny/z\n", ".gitignore": "# nothing\n\n \n"},
        {".gitignore": "x/**/a\nd/e\n", "x/y/.gitignore": "*\n"},
        {".gitignore": "\ufeffa\r\n*.log  \r\n!\n!/\n\\\n[\n"},
        {".gitignore": "\\!odd\n\\#odd\nend\\ \nst\\*r\n[!a-f]\n!x\n!d\n!foo\n"},
    ],
    ids=str,
)
def test_ignores_what_git_ignores(tmp_path: Path, ignore: dict[str, str]) -> None:
    fill(tmp_path, TREE | ignore)
    assert kept(tmp_path) == kept_by_git(tmp_path)


NAMES = st.sampled_from(["a", "b", "c.py", "*", "**", "?", "*.py", "[ab]", "[!a]", "[]a]", "a*b", "\\a"])
PATTERNS = st.builds(
    lambda negated, start, parts, end: f"{negated}{start}{'/'.join(parts)}{end}",
    st.sampled_from(["", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)
IGNORE_FILES = st.dictionaries(
    st.sampled_from([".gitignore", "a/.gitignore", "a/b/.gitignore"]),
    st.lists(PATTERNS, min_size=1, max_size=4).map("\n".join),
    min_size=1,
)
PROPERTY_TREE = dict.fromkeys(("a/a", "a/b/a", "a/b/b/c.py", "a/b/c.py", "a/c.py", "b/a/b", "b/b", "c.py"), "")


@settings(max_examples=60)
@given(IGNORE_FILES)
def test_random_patterns_match_as_in_git(tmp_path_factory: pytest.TempPathFactory, ignore: dict[str, str]) -> None:
    root = fill(tmp_path_factory.mktemp("tree"), PROPERTY_TREE | ignore)
    assert kept(root) == kept_by_git(root)


def test_kedgeignore_takes_precedence(tmp_path: Path) -> None:
    fill(tmp_path, {".gitignore": "data.bin\n", ".kedgeignore": "!data.bin\nnotes\n", "data.bin": "", "notes": ""})
    fill(tmp_path, {"x/.gitignore": "!notes\n", "x/notes": ""})
    assert kept(tmp_path) == {".gitignore", ".kedgeignore", "data.bin", "x/.gitignore"}


def test_the_git_folder_is_always_left_out(tmp_path: Path) -> None:
    fill(tmp_path, {".git/config": "", "sub/.git": "gitdir: x", ".kedgeignore": "!.git\n", "a": ""})
    assert kept(tmp_path) == {".kedgeignore", "a"}


def test_an_ignore_file_that_is_a_link_or_a_folder_has_no_effect(tmp_path: Path) -> None:
    fill(tmp_path, {"rules": "a\n", "a": "", ".kedgeignore/a": ""})
    (tmp_path / ".gitignore").symlink_to("rules")
    assert "a" in kept(tmp_path)


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9\n")
    for name in (b"caf\xe9", b"th\xe9"):
        (Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))).touch()
    assert kept(tmp_path) == {".gitignore", os.fsdecode(b"th\xe9")}
