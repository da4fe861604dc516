"""The folders of a run on the site's volume for outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.engines.kubernetes.in_driver.outputs_volume import OutputsVolume
from kedge.errors import CannotRun


def test_a_job_folder_begins_as_a_copy_of_another_one(tmp_path: Path) -> None:
    OutputsVolume("old", "outputs", str(tmp_path)).prepare()
    old = tmp_path / "old.outputs/job-dir"
    (old / "deep").mkdir()
    (old / "deep/steps").write_text("step\n")
    (old / "last").symlink_to("/usr/local/pai/job-dir/deep/steps")
    (old / "away").symlink_to("/etc/passwd")
    volume = OutputsVolume("new", "outputs", str(tmp_path))
    assert volume.prepare("old") == ("away",)
    new = tmp_path / "new.outputs/job-dir"
    assert (new / "last").read_text() == "step\n"
    assert (new.stat().st_mode & 0o777, [path.name for path in new.parent.iterdir()]) == (0o777, ["job-dir"])
    (new / "deep/steps").write_text("two\n")
    assert volume.prepare("old") == (), "another driver goes on with what is there"
    assert ((new / "last").read_text(), (old / "deep/steps").read_text()) == ("two\n", "step\n")


def test_a_copy_that_was_not_finished_is_made_again(tmp_path: Path) -> None:
    OutputsVolume("old", "outputs", str(tmp_path)).prepare()
    half = tmp_path / "new.outputs/.job-dir.new"
    half.mkdir(parents=True)
    (half / "part").touch()
    OutputsVolume("new", "outputs", str(tmp_path)).prepare("old")
    assert not any((tmp_path / "new.outputs/job-dir").iterdir())
    assert not half.exists()


def test_the_job_folder_of_a_run_that_was_removed(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="not on the volume of the claim outputs any more"):
        OutputsVolume("new", "outputs", str(tmp_path)).prepare("old")
    assert not (tmp_path / "new.outputs/job-dir").exists()
