"""Who owns the files of a run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kedge.engines.container.ownership import all_ours

NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of two users")
def test_an_unreadable_folder_is_not_ours() -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "closed").mkdir(0o700)
        os.chown(name, NOBODY, -1)
        os.seteuid(NOBODY)
        try:
            assert not all_ours(Path(name))
        finally:
            os.seteuid(0)
