"""Logs that mean harm: never an exception, and work that is bounded (by counting, not by time)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.log.log_text import Log
from kedge.diagnose.model import LOG_TAIL, Evidence
from kedge.diagnose.rules import scan
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()
WORDS = [literal.text for literal in RULES.literals()[::7]] + [
    b"Traceback (most recent call last):\n", b'  File "t.py", line 3, in f\n', b"ValueError: x\n", b"\n", b"\r",
    b"\x1b[3", b"\0", b"[rank1]: ", b"\xff\xfe", b"  | ",
    b"During handling of the above exception, another exception occurred:\n", b"step 3\n",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(WORDS) | st.binary(max_size=20), max_size=60).map(b"".join),
    st.sampled_from([None, 0, 1, 137, -6]),
)
@settings(max_examples=150)
def test_never_raises(log: bytes, code: int | None) -> None:
    found = classify(Evidence((("log", log),), code), RULES)
    json.dumps(found.to_json())
    assert all(1 <= quote.line <= log.count(b"\n") + 1 for quote in found.evidence)


@pytest.mark.parametrize(
    "log",
    [
        b"CUDA out of memory. " * (LOG_TAIL // 20),
        b"CUDA out of memory. \n" * (LOG_TAIL // 21),
        b"Traceback (most recent call last):\n" * (LOG_TAIL // 35),
        b"\x1b" * (1 << 20),
        b"\0" * LOG_TAIL,
        b"\r" * LOG_TAIL,
        b'  File "x", line 1, in y\n' * (LOG_TAIL // 25),
        b"\xff" * LOG_TAIL,
    ],
    ids=["one line", "near misses", "headers", "escapes", "nuls", "returns", "frames", "invalid"],
)
def test_the_work_is_limited(log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def counted(*args: Any) -> Any:
        nonlocal tries
        tries += 1
        return match(*args)

    match = scan.match
    monkeypatch.setattr(scan, "match", counted)
    classify(Evidence((("log", log),), 1), RULES)
    most = max(len(literal.users) for literal in RULES.literals())
    assert tries <= (scan.TRIES + scan.TRIES_PIECE) * most


def test_the_end_of_a_log_full_of_near_misses_is_still_read() -> None:
    near = b"CUDA out of memory. Tried\n" * 200_000
    log = near + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert classify(Evidence((("log", log),), 1), RULES).cause == "gpu_oom"


def test_a_hit_in_the_middle_of_ten_megabytes_is_found() -> None:
    filler = b"x" * 99 + b"\n"
    log = (
        filler * 50_000 + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n" + filler * 50_000
    )
    assert [RULES.rule(hit.rule).name for hit in scan.scan(Log("log", log), RULES)] == ["torch-cuda-oom"]


def test_a_literal_across_two_pieces_of_one_long_line_is_found() -> None:
    text = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    log = Log("log", b"y" * (scan.PIECE - 30) + text + b"z" * scan.PIECE)
    assert scan.scan(log, RULES)


CUT = """\
step 10 loss 0.3
[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/train.py", line 8, in step
[rank1]:     loss.backward()
[rank1]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB
[rank1]:
[rank1]: During handling of the above exception, another exception occurred:
[rank1]:
[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/train.py", line 12, in main
[rank1]:     raise TrainingError("step failed") from None
[rank1]: TrainingError: step failed
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED
"""


@pytest.mark.parametrize("text", [CUT, CUT.replace("[rank1]: ", "")], ids=["ranks", "plain"])
def test_a_log_truncated_anywhere_has_a_diagnosis(text: str) -> None:
    lines = text.encode().splitlines(keepends=True)
    for first in range(len(lines)):
        for last in range(first, len(lines) + 1):
            log = b"".join(lines[first:last])
            assert classify(Evidence(logs=(("log", log),), exit_code=1), RULES).cause
            assert classify(Evidence(logs=(("log", log[:-7]),), exit_code=1), RULES).cause
