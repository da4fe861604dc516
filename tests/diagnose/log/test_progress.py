"""How far a log got."""

from __future__ import annotations

import pytest

from kedge.diagnose.log.progress import advanced, reached


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"Epoch 3/10", {"epoch": 3}),
        (b"global_step: 1200 loss 0.3", {"step": 1200}),
        (b"Saving model checkpoint to out/checkpoint-500", {"checkpoint": 500}),
        (b" 12%|# | 36/300 [00:10<01:20, 3.3it/s]", {"bar": 36}),
        (b'{"step": 7, "epoch": 1}', {"step": 7, "epoch": 1}),
        (b"nothing here", {}),
    ],
)
def test_reached(line: bytes, found: dict[str, int]) -> None:
    assert reached(b"Epoch 0\n" + line) == {"epoch": 0} | found


def test_further_in_any_counter_is_progress() -> None:
    assert advanced({"epoch": 3}, {"epoch": 3, "step": 1})
    assert advanced({"epoch": 3, "step": 90}, {"epoch": 4, "step": 10})
    assert not advanced({"epoch": 3, "step": 90}, {"epoch": 3, "step": 90})
