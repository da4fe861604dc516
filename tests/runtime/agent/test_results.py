"""What an agent takes from the folder of a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.link import messages
from kedge.link.frames import FrameReader, encoded
from kedge.runtime.agent import results


@pytest.mark.parametrize("text", [b"\xff" * (3 << 20), "\u4e2d".encode() * (2 << 20), b"x" * (7 << 20)])
def test_whatever_a_task_writes_as_its_report_fits_into_a_message(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "report.json").write_bytes(b'{"message": "' + text + b'"}')
    found = results.report(str(tmp_path))
    assert encoded({"kind": messages.ENDED, "seq": 1, "report": found})
    assert (found is None) == (not text.isascii())


def test_whatever_a_task_writes_is_not_too_deep_for_a_message(tmp_path: Path) -> None:
    """The controller would refuse it, and the agent would send it again for ever."""
    reader = FrameReader()
    reader.trust()
    for levels in range(2, 70):
        line = b'{"a":' * levels + b"1" + b"}" * levels
        (tmp_path / "report.json").write_bytes(line)
        for found in (results.report(str(tmp_path)), results.event(line)):
            ended = {"report": found, "line": found}
            reader.feed(encoded({"kind": messages.HELLO, "state": {"ended": ended}}))
            assert reader.next()
            assert (found is None) == (levels >= 56)
