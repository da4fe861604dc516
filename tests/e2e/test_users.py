"""Users without a name or without a home folder, as containers have them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.errors import CannotRun, InputError
from kedge.jobs.user import user_name
from kedge.runs import transfer, tree_copy
from kedge.runs.folder import jobs_dir
from kedge.settings import values as settings

NOBODY = 1_234_567  # a user id without an entry in /etc/passwd


def passes_as_nobody(check: Callable[[], None]) -> bool:
    """Whether the check passes in a child process of an unknown user."""
    child = os.fork()
    if child == 0:
        try:
            for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
                os.environ.pop(name, None)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            check()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_a_name_is_shown_by_number() -> None:
    def check() -> None:
        assert user_name() == str(NOBODY)

    assert passes_as_nobody(check)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_sites_file_that_a_user_cannot_read_is_an_error_and_a_closed_folder_of_another_user_is_not(
    tmp_path: Path,
) -> None:
    """The site's file may hold limits. What is in a folder that the user cannot enter are no settings of theirs."""
    site, closed = tmp_path / "site.toml", tmp_path / "closed"
    site.write_text("engine = 'local'")
    site.chmod(0o600)
    closed.mkdir(0o700)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)

    def check() -> None:
        assert settings.load({"XDG_CONFIG_HOME": str(closed)}).from_files == {}
        with pytest.raises(InputError, match=r"site\.toml: it cannot be read: Permission denied"):
            settings.load({"XDG_CONFIG_HOME": str(closed), "KEDGE_SITE_FILE": str(site)})

    assert passes_as_nobody(check)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_copy_of_other_users_files_lets_them_do_what_they_could(tmp_path: Path) -> None:
    """Without root the files of a container's user, in a folder that is open to all, become those of the user."""
    source, target = tmp_path / "old" / "job-dir", tmp_path / "new" / "job-dir"
    (source / "step").mkdir(parents=True)
    (source / "step" / "data").write_text("x")
    target.mkdir(parents=True)
    os.chown(target, NOBODY, NOBODY)
    for path, mode in ((source, 0o777), (source / "step", 0o755), (source / "step" / "data", 0o644)):
        path.chmod(mode)
    (source / "closed").write_text("x")
    for folder in (tmp_path, *tmp_path.parents[:3], source.parent, target.parent):
        folder.chmod(0o755)

    def check() -> None:
        assert tree_copy.copy(source.parent, source.name, target) == ()
        assert [(target / name).stat().st_mode & 0o777 for name in ("step", "step/data")] == [0o777, 0o666]

    assert passes_as_nobody(check)
    (source / "closed").chmod(0)

    def refused() -> None:
        with pytest.raises(InputError, match=r"job-dir/closed: it cannot be copied: Permission denied"):
            tree_copy.copy(source.parent, source.name, target)

    assert passes_as_nobody(refused)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_a_user_may_not_read_is_named_and_the_rest_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "closed").mkdir(parents=True)
    (source / "closed").chmod(0o700)
    for name, mode in (("secret", 0o600), ("public", 0o644)):
        (source / name).write_text("x")
        (source / name).chmod(mode)
    target.mkdir()
    os.chown(target, NOBODY, NOBODY)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)

    def check() -> None:
        copy = transfer.FileTransfer(shared=False)
        copy.entry(os.open(source, os.O_RDONLY), os.open(target, os.O_RDONLY), "copy", "source")
        denied = [f"source/{name} cannot be read: Permission denied" for name in ("closed", "secret")]
        assert (copy.failures, copy.files, os.listdir(target / "copy")) == (denied, 1, ["public"])

    assert passes_as_nobody(check)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_a_home_learns_which_variables_help() -> None:
    def check() -> None:
        with pytest.raises(CannotRun, match="XDG_STATE_HOME or HOME"):
            jobs_dir({})

    assert passes_as_nobody(check)
