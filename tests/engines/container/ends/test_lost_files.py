"""Notes about files that are lost with their containers."""

from __future__ import annotations

import pytest

from kedge.engines.base import Task
from kedge.engines.container.ends.lost_files import LostFiles, note, outputs


@pytest.mark.parametrize(
    ("changed", "workdir", "expected"),
    [
        (["/app", "/app/out", "/app/out/a.pt", "/app/log"], "/", ["/app/log", "/app/out/a.pt"]),
        (["/a.pt"], "/", ["/a.pt"]),
        (["/mnt", "/mnt/data", "/usr/local/pai"], "/", []),  # mount points
        (["/etc/hosts", "/tmp/x", "/run/y", "/usr/lib/z", "/var/lib/apt/lists", "/dev/null"], "/", []),
        (["/root/.cache/pip/x", "/app/__pycache__/m.pyc", "/opt/lib/site-packages/p.py", "/app/x.pyc"], "/app", []),
        (["/usr/src/app/a.pt", "/usr/src/b.pt"], "/usr/src/app", ["/usr/src/app/a.pt"]),
    ],
)
def test_results_are_distinguished_from_noise(changed: list[str], workdir: str, expected: list[str]) -> None:
    assert outputs(changed, ["/mnt/data", "/usr/local/pai"], workdir) == expected


def test_the_note_counts_all_and_names_the_largest() -> None:
    assert note({}, 3) is None
    one = note({Task("w", 0): LostFiles(1, "/a\x1b[2J", 12)}, 0)
    assert one is not None
    assert one.startswith("1 file was written inside containers and lost; it is /a?[2J of w:0 (12 bytes). Write")
    found = {Task("w", 0): LostFiles(1500, "/a", 12), Task("v", 1): LostFiles(1, "/out/model.pt", 90_000_000)}
    many = str(note(found, 7))
    assert many.startswith("at least 1,501 files were written inside containers and lost (containers not")
    assert "the largest is /out/model.pt of v:1 (90 MB)" in many
