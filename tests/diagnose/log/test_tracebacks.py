"""Tracebacks as they stand in logs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kedge.diagnose.log.log_text import Log
from kedge.diagnose.log.tracebacks import Trace, find


def traces(text: str) -> list[Trace]:
    return find(Log("log", text.encode()))


def run(folder: Path, program: str) -> list[Trace]:
    """The tracebacks that a real program prints."""
    path = folder / "train.py"
    path.write_text(program)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    return traces(done.stdout + done.stderr)


PLAIN = """Traceback (most recent call last):
  File "/work/train.py", line 88, in <module>
    main()
  File "/work/train.py", line 12, in step
    loss.backward()
    ^^^^^^^^^^^^^^^
  File "/opt/conda/lib/python3.11/site-packages/torch/_tensor.py", line 522, in backward
    torch.autograd.backward(
RuntimeError: it broke
"""


def test_a_plain_traceback() -> None:
    (trace,) = traces("epoch 1\n" + PLAIN + "bye\n")
    assert trace.uncaught
    assert trace.decisive.type == "RuntimeError"
    assert trace.frame(trace.decisive) == "train.py:12 in step"


def test_lines_of_other_ranks_are_mixed_in() -> None:
    lines = [f"[rank1]: {line}\n[rank0]: step 7\n" for line in PLAIN.splitlines()]
    (trace,) = traces("".join(lines))
    assert (trace.rank, trace.decisive.type, len(trace.decisive.frames)) == ("rank1", "RuntimeError", 3)


def test_a_progress_bar_precedes_the_header() -> None:
    (trace,) = traces(" 10%|█   | 9/99 [00:01<00:10, 9.1it/s]" + PLAIN)
    assert trace.decisive.type == "RuntimeError"


def test_a_log_that_begins_inside_a_traceback() -> None:
    (trace,) = traces(PLAIN.split("\n", 3)[3])
    assert trace.uncaught
    assert trace.decisive.type == "RuntimeError"


def test_a_direct_cause_decides(tmp_path: Path) -> None:
    (trace,) = run(tmp_path, "try:\n  {}['a']\nexcept KeyError as e:\n  raise RuntimeError('x') from e\n")
    assert [block.type for block in trace.blocks] == ["KeyError", "RuntimeError"]
    assert trace.decisive.type == "KeyError"


def test_an_exception_that_was_being_handled_does_not_decide(tmp_path: Path) -> None:
    (trace,) = run(tmp_path, "try:\n  {}['a']\nexcept KeyError:\n  raise RuntimeError('x')\n")
    assert trace.decisive.type == "RuntimeError"


def test_an_exception_group(tmp_path: Path) -> None:
    (trace,) = run(tmp_path, "raise ExceptionGroup('two', [OSError('a'), ValueError('b')])\n")
    assert [block.type for block in trace.blocks] == ["ExceptionGroup"]
    groups = "def f(e):\n  try:\n    raise e\n  except Exception as x:\n    return x\n"
    (trace,) = run(tmp_path, groups + "raise ExceptionGroup('two', [f(OSError('a')), f(ValueError('b'))])\n")
    assert [block.type for block in trace.blocks] == ["ExceptionGroup", "OSError", "ValueError"]


def test_caught_and_uncaught_exceptions_are_distinguished(tmp_path: Path) -> None:
    program = (
        "import traceback\ndef f():\n  try:\n    1/0\n"
        "  except ZeroDivisionError:\n    traceback.print_exc()\nf()\nf.x\n"
    )
    caught, uncaught = run(tmp_path, program)
    assert (caught.uncaught, uncaught.uncaught) == (False, True)


def test_exceptions_that_python_ignores(tmp_path: Path) -> None:
    (trace,) = run(tmp_path, "class A:\n  def __del__(self):\n    1/0\nA()\n")
    assert trace.ignored


def test_an_error_of_another_process_is_repeated(tmp_path: Path) -> None:
    program = (
        "import multiprocessing as m\ndef f(x):\n  return {}[x]\n"
        "if __name__ == '__main__':\n  with m.Pool(1) as p:\n    p.map(f, [1])\n"
    )
    (trace,) = run(tmp_path, program)
    assert trace.decisive.type == "KeyError"
    assert trace.frame(trace.decisive) == "train.py:3 in f"


def test_a_box_of_rich() -> None:
    box = """╭─────────────── Traceback (most recent call last) ────────────────╮
│ /work/train.py:7 in main                                         │
│                                                                  │
│ ❱ 7     boom()                                                   │
╰──────────────────────────────────────────────────────────────────╯
ValueError: boom
"""
    (trace,) = traces(box)
    assert trace.decisive.type == "ValueError"
    assert trace.frame(trace.decisive) == "train.py:7 in main"


def test_only_the_first_and_last_of_very_many_are_read() -> None:
    assert len(traces(PLAIN * 500)) == 200


@pytest.mark.parametrize(
    "prefix", ["    ", "node07: ", "2024-01-01 10:00:00,1 - root - ERROR - ", "E0101 x.py:3] ", "Rank 0: "]
)
def test_a_prefix_that_all_lines_share_is_removed(prefix: str) -> None:
    text = 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    main()\nOddError: odd\n'
    (trace,) = find(Log("log", "".join(f"{prefix}{line}\n" for line in text.splitlines()).encode()))
    assert trace.decisive.type == "OddError"
    assert trace.frame(trace.decisive) == "train.py:3"


def test_frames_that_a_terminal_wrapped_are_still_one_traceback() -> None:
    text = (
        'Traceback (most recent call last):\n  File \n"/w/long/path/train.py", line \n33, in main\n    run()\n'
        '  File "/w/x/multi\npart/api.py", line 7, in run\n    f()\nOddError: odd\n'
    )
    (trace,) = find(Log("log", text.encode()))
    assert trace.decisive.type == "OddError"


def test_a_truncated_traceback_has_the_type_of_its_raise() -> None:
    text = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in f\n    raise x.OddError("odd", 3)\n'
    (trace,) = find(Log("log", text.encode()))
    assert trace.decisive.type == "OddError"


def test_an_inner_exception_on_the_next_line_belongs_to_the_message() -> None:
    compiled = PLAIN.replace(
        "RuntimeError: it broke", "acme.CompilerFailed: backend='x' raised:\nRuntimeError: Acme Error 3"
    )
    (trace,) = traces(compiled + "Segmentation fault\n")
    assert [line.body for line in trace.decisive.message] == [
        b"acme.CompilerFailed: backend='x' raised:",
        b"RuntimeError: Acme Error 3",
    ]
