"""The runtime's `scp` against OpenSSH's server."""

from __future__ import annotations

import filecmp
import os

import pytest


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "below").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "empty").touch()
    (root / "below" / "run.sh").write_text("#!/bin/sh\n")
    (root / "below" / "run.sh").chmod(0o755)
    os.utime(root / "below" / "run.sh", (1e9, 1e9))
    return root


def same(one, other):
    found = filecmp.dircmp(one, other)
    below = [name for name in found.subdirs.values() if name.left_only + name.right_only + name.diff_files]
    return not (found.left_only + found.right_only + found.diff_files + below)


@pytest.mark.parametrize("from_task", [True, False])
def test_a_folder_is_copied_with_modes_and_times(server, tree, tmp_path, from_task):
    source, target = (f"worker_a-0:{tree}", tmp_path / "copy") if from_task else (tree, f"worker_a-0:{tmp_path}/copy")
    done = server.run("-r", "-p", "-q", source, target, program="scp")
    assert (done.returncode, done.stderr) == (0, "")
    assert same(tree, tmp_path / "copy")
    script = tmp_path / "copy" / "below" / "run.sh"
    assert (script.stat().st_mode & 0o777, script.stat().st_mtime) == (0o755, 1e9)


def test_a_program_stays_a_program_without_p(server, tree, tmp_path):
    assert server.run(f"worker_a-0:{tree}/below/run.sh", tmp_path / "run.sh", program="scp").returncode == 0
    assert os.access(tmp_path / "run.sh", os.X_OK)


def test_wildcards_are_those_of_the_other_task(server, tree, tmp_path):
    (tmp_path / "into").mkdir()
    done = server.run(f"worker_a-0:{tree}/*", tmp_path / "into", program="scp")
    assert sorted(os.listdir(tmp_path / "into")) == ["a.txt", "empty"]
    assert (done.returncode, done.stderr) == (1, f"scp: {tree}/below: not a regular file\n")


@pytest.mark.parametrize(
    ("source", "target", "code", "message"),
    [
        ("worker_a-0:/no/such/file", "x", 1, "scp: /no/such/file: No such file or directory"),
        ("worker_a-0:/etc/passwd", "worker_a-1:x", 1, "copying between two other hosts is not supported"),
        ("down-0:/etc/passwd", "x", 255, "Connection refused"),
        ("nobody-0:/etc/passwd", "x", 255, "nobody-0 has no address and is no task of this job"),
        ("worker_a-0:/etc/passwd", "/no/such/", 1, "scp: /no/such/: No such file or directory"),
    ],
)
def test_a_copy_that_fails_is_explained(server, tmp_path, source, target, code, message):
    done = server.run(source, target, program="scp", cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_command_line_is_explained(prepared):
    assert "usage: scp " in prepared.run("one", program="scp").stderr
    assert "unknown option -- Z" in prepared.run("-Z", "a", "b", program="scp").stderr
