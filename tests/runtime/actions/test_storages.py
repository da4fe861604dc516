"""Data that is on this machine already, or in a storage that fsspec can read."""

from __future__ import annotations

import os
import sys

import pytest
from tests.runtime.actions.downloads import DATA, SUM, cause


def test_local_files_and_folders(attempt, download, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here/file").write_bytes(DATA)
    (tmp_path / "here/link").symlink_to("file")
    assert download(uri=str(tmp_path / "here/file"), sha256=SUM, path=str(tmp_path / "one")) == 0
    assert download(uri=f"file://{tmp_path}/here/f%69le?a/b#c", path=str(tmp_path / "two")) == 0
    assert download(uri=str(tmp_path / "here"), path=str(tmp_path / "all")) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == DATA
    assert (tmp_path / "all/link").is_symlink()
    assert (tmp_path / "here/file").exists()


def bin_with(tmp_path, name, text):
    """A PATH with one more program at the front."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / name
    program.write_text(text)
    program.chmod(0o755)
    return f"{tmp_path}/bin:{os.environ['PATH']}"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_fsspec_of_the_image(attempt, download, tmp_path, what):
    path = bin_with(tmp_path, "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    attempt.spec = attempt.spec._replace(environment={"PATH": path})
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket/file").write_bytes(DATA)
    uri = f"local://{tmp_path}/bucket" + ("/file" if what == "file" else "")
    assert download(uri=uri, path=str(tmp_path / "got")) == 0
    assert (tmp_path / ("got" if what == "file" else "got/file")).read_bytes() == DATA
    assert download(uri=f"local://{tmp_path}/none", path=str(tmp_path / "no")) == 255
    assert cause(attempt) == "data_file_missing"


def test_fsspec_without_its_backend(attempt, download, tmp_path):
    path = bin_with(tmp_path, "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    attempt.spec = attempt.spec._replace(environment={"PATH": path})
    assert download(uri="s3://bucket/x?secret=1") == 255
    assert "pip install fsspec s3fs" in attempt.report["message"]
    assert "secret=1" not in attempt.report["message"]
    assert cause(attempt) == "missing_module"


def test_no_fsspec_and_no_python(attempt, download, tmp_path):
    path = bin_with(tmp_path, "python3", f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    attempt.spec = attempt.spec._replace(environment={"PATH": path})
    assert download(uri="hf://datasets/x/y") == 255
    assert "pip install fsspec huggingface_hub" in attempt.report["message"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/bash").symlink_to("/bin/bash")
    attempt.spec = attempt.spec._replace(environment={"PATH": str(tmp_path / "empty")})
    assert download(uri="gs://bucket/x") == 255
    assert "there is no python3 in the task's image" in attempt.report["message"]
