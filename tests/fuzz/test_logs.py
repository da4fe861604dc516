"""Logs of any bytes, read as by `kedge diagnose`: compressed or not, masked, with colours, truncated."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import resource
import tempfile
from pathlib import Path

import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.cli.commands.diagnose import _diagnose as diagnosis
from kedge.cli.log_files import read_tail
from kedge.cli.view.answer import print_root
from kedge.diagnose.model import LOG_TAIL
from kedge.diagnose.rules.packaged import packaged
from kedge.errors import InputError
from kedge.runs.job_report import RootCause

from .values import check_error

WORDS = [literal.text for literal in packaged().literals()[::9]] + [
    b"Traceback (most recent call last):\n",
    b'  File "t.py", line 3, in f\n',
    b'  File "t.py", line ' + b"9" * 5000 + b"\n",
    b"ValueError: x\n",
    b"\n",
    b"\r",
    b"\x1b[31m",
    b"\x1b[3",
    b"\x1b]0;t\x07",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"******",
    b"[rank1]: ",
    b"[rank" + b"9" * 5000 + b"]: ",
    b"  | ",
    b"step 3 loss nan\n",
    b"\xe2\x80\xa8",
    b"x" * 9000,
    b"{",
    b"}",
    b"During handling of the above exception, another exception occurred:\n",
    b"Process 9999999999999999999 ",
    b"exit code: -" + b"1" * 400,
    b"signal 99999",
    b"Killed\n",
    b"9" * 5000,
    b"1e999",
    b"rank=" + b"7" * 5000,
]
logs = st.lists(st.sampled_from(WORDS) | st.binary(max_size=20), max_size=60).map(b"".join)
codes = st.sampled_from([None, 0, 1, 137, -6, 255, 2**31, -(2**40), 10**30])


def diagnosed(log: bytes, code: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "log"))
        Path(file).write_bytes(log)
        try:
            tail = read_tail(file)
        except InputError as error:
            check_error(error)
            return
        found = diagnosis(file, tail, code, packaged())
        root = RootCause.of_diagnosis({**found.to_json(), "task": file})
        assert RootCause.from_json(json.loads(json.dumps(root.to_json()))) == root
        with contextlib.redirect_stdout(io.StringIO()):
            print_root(root, "Root cause")


@given(logs, codes)
@settings(max_examples=40)
def test_a_log_of_any_bytes(log: bytes, code: int | None) -> None:
    diagnosed(log, code)


@given(logs, st.sampled_from([gzip.compress, zstandard.compress]), st.integers(0, 40), st.binary(max_size=5))
@settings(max_examples=25)
def test_a_truncated_or_damaged_compressed_log(log: bytes, compress: object, cut: int, more: bytes) -> None:
    assert callable(compress)
    data = compress(log)
    diagnosed(data[: len(data) - cut] + more, 1)


@given(st.binary(max_size=60), st.sampled_from([b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]))
@settings(max_examples=25)
def test_data_that_only_looks_compressed(data: bytes, start: bytes) -> None:
    diagnosed(start + data, 1)


def test_a_decompression_bomb_needs_little_memory(tmp_path: Path) -> None:
    # zstd blocks in which 4 bytes encode 128 KiB of one character; 256 MiB in total.
    run = (((1 << 17) << 3) | 2).to_bytes(3, "little") + b"x"
    file = tmp_path / "log"
    file.write_bytes(b"\x28\xb5\x2f\xfd\x00\x58" + run * (2 << 10) + b"\x01\0\0")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(read_tail(str(file)).content) <= LOG_TAIL
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
