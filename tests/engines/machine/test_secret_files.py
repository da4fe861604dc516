from __future__ import annotations

from pathlib import Path

import pytest

from kedge.engines.machine import secret_files
from kedge.errors import DiskFull
from kedge.resolve.model import Secrets


def test_full_memory_is_a_disk_full_error(small_disk: Path) -> None:
    folder = small_disk / "kedge-secrets"
    text = "x" * (4 << 20)
    with (
        pytest.raises(DiskFull, match=f"^{folder}: cannot be written: the file system is full"),
        secret_files.written(str(folder), Secrets({"token": text}, {"token": text})),
    ):
        pass
    assert not folder.exists()
