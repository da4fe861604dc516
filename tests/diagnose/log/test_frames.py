"""Frames of tracebacks, and what their functions tell."""

from __future__ import annotations

import pytest

from kedge.diagnose.log.frames import Frame, read

LIBRARY = "/opt/venv/lib/python3.11/site-packages/torch/optim/adamw.py"


def test_the_forms_of_a_frame() -> None:
    plain = Frame("/work/train.py", "88", "step")
    assert read(b'  File "/work/train.py", line 88, in step') == plain
    assert read("│ /work/train.py:88 in step │".encode()) == plain
    assert read(b"    loss = model(batch)") is None


@pytest.mark.parametrize("where", ["__init__", "AdamW.__init__", "__post_init__", "_validate_args", "check_config"])
def test_functions_that_check_arguments(where: str) -> None:
    assert Frame(LIBRARY, "37", where).checks_arguments
    assert not Frame("/work/train.py", "37", where).checks_arguments


@pytest.mark.parametrize("where", ["forward", "step", "validate_data", "check_array", "load_state_dict"])
def test_other_functions_check_data(where: str) -> None:
    assert not Frame(LIBRARY, "37", where).checks_arguments
