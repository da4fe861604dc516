"""Remedies name what they speak of."""

from __future__ import annotations

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.decide.remedies import remedy
from kedge.diagnose.model import Evidence
from kedge.diagnose.regex import over_characters
from kedge.diagnose.rules.packaged import packaged

TRACE = b'Traceback (most recent call last):\n  File "train.py", line 88, in step\n    x\n'


@pytest.mark.parametrize(
    ("log", "named"),
    [
        (TRACE + b"ModuleNotFoundError: No module named 'apex.optimizers'\n", "Install apex.optimizers in"),
        (b"bash: line 3: nvcc: command not found\n", "Install nvcc in"),
        (b"sh: 1: nvcc: not found\n", "Install nvcc in"),
        (TRACE + b"FileNotFoundError: [Errno 2] No such file or directory: '/data/a.csv'\n", "path /data/a.csv,"),
        (b"python: can't open file '/app/trian.py': [Errno 2] No such file or directory\n", "path of /app/trian.py,"),
        (TRACE + b"PermissionError: [Errno 13] Permission denied: '/out'\n", "mode of /out,"),
        (TRACE + b"OSError: [Errno 28] No space left on device: '/ckpt/last.pt'\n", "volume of /ckpt/last.pt,"),
        (b"./a: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or "
         b"directory\n", "Install libcudart.so.12,"),
        (b"usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --bach 3\n", "Correct --bach 3."),
        (b"sh: can't fork: Resource temporarily unavailable\n", "--pids-limit"),
        (TRACE + b"KeyError: 'loss'\n", "Fix train.py:88 in step."),
    ],
)  # fmt: skip
def test_the_remedy_names_it(log: bytes, named: str) -> None:
    found = classify(Evidence(logs=(("log", log),), exit_code=127 if b"not found" in log else 1))
    assert any(named in step for step in found.remedy), found


def test_without_a_subject_the_general_words_are_used() -> None:
    rules = packaged()
    for name in rules.causes():
        assert not any("{" in step or "|" in step for step in remedy(rules.cause(name))), name
        assert all(over_characters(pattern).groups == 1 for pattern in rules.cause(name).subject), name
    assert remedy(rules.cause("missing_module"))[0].startswith("Install the module in")
    assert "the path" in remedy(rules.cause("permission_denied"), ["Permission denied: '/" + "x" * 200 + "'"])[0]
