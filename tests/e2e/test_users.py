"""Users without a name or without a home folder, as containers have them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import pytest

from kedge.errors import CannotRun
from kedge.jobs.user import user_name
from kedge.runs.folder import jobs_dir

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
def test_a_user_without_a_home_learns_which_variables_help() -> None:
    def check() -> None:
        with pytest.raises(CannotRun, match="XDG_STATE_HOME or HOME"):
            jobs_dir({})

    assert passes_as_nobody(check)
