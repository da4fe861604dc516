"""What exit codes say in words."""

from __future__ import annotations

import pytest

from kedge.diagnose.decide.exit_codes import meaning


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, ""),
        (1, ""),
        (124, "`timeout` ended the command at its limit"),
        (127, "the command was not found"),
        (137, "death by signal 9 (SIGKILL)"),
        (-11, "death by signal 11 (SIGSEGV)"),
        (42, ""),
        (250, ""),
    ],
)
def test_an_exit_code_as_text(code: int | None, said: str) -> None:
    assert meaning(code) == said
