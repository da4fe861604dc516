"""How far a task got, by the numbers in its log: if a retry got further than the one before, another is worthwhile."""

from __future__ import annotations

from kedge.diagnose.regex import regex
from kedge.light.types import Mapping

TAIL = 256 << 10  # bytes at the end of a log that are searched

# `Epoch 3/10`, `step: 1200`, `"global_step": 7`, `checkpoint-500`, tqdm's `12/300 [00:10<`.
_COUNTER = (
    rb"(?i)\b(epoch|global[_ ]step|step|iteration|iter|checkpoint|ckpt|episode|round)s?"
    rb"['\"]?[ \t]?[-_:=#\[(]?[ \t]{0,4}(\d{1,12})\b"
    rb"|\b(\d{1,12})/\d+ \[\d"
)
_SAME = {"global step": "step", "global_step": "step", "iteration": "iter", "ckpt": "checkpoint"}


def reached(log: bytes) -> dict[str, int]:
    """The highest epoch, step, iter, checkpoint and so on at the end of a log."""
    highest: dict[str, int] = {}
    for found in regex(_COUNTER).finditer(log[-TAIL:]):
        word, number, bar = found.groups()
        kind = word.decode("latin-1").lower() if word else "bar"
        kind = _SAME.get(kind, kind)
        highest[kind] = max(highest.get(kind, 0), int(number or bar))
    return highest


def advanced(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Whether any counter of the later attempt got further than in the earlier one."""
    return any(number > before.get(kind, -1) for kind, number in after.items())
