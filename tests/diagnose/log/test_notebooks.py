"""Tracebacks in IPython's form: their frames, failing lines, message, and what carries them."""

from __future__ import annotations

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.log import tracebacks
from kedge.diagnose.log.log_text import Log
from kedge.diagnose.model import Evidence
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()

CELL = """---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[4], line 2
      1 import pandas as pd
----> 2 frame["price"]

File /opt/lib/python3.10/site-packages/pandas/core/frame.py:3807, in DataFrame.__getitem__(self, key)
   3806 if is_single_key:
-> 3807     indexer = self.columns.get_loc(key)

KeyError: 'price'
"""
OLD = """ZeroDivisionError                         Traceback (most recent call last)
<ipython-input-3-1a2b3c> in <module>
----> 1 ratio(0)

~/work/stats.py in ratio(count)
     11 def ratio(count):
---> 12     return 1 / count

ZeroDivisionError: division by zero
"""


def test_a_cell_is_read() -> None:
    (trace,) = tracebacks.find(Log("log", CELL.encode()))
    assert trace.uncaught
    assert trace.decisive.type == "KeyError"
    assert [str(frame) for frame in trace.decisive.frames] == ["Cell In[4]:2", "frame.py:3807 in DataFrame.__getitem__"]
    assert trace.frame(trace.decisive) == "Cell In[4]:2"


def test_the_lines_of_older_frames_are_those_of_the_arrows() -> None:
    (trace,) = tracebacks.find(Log("log", OLD.encode()))
    assert [str(frame) for frame in trace.decisive.frames] == ["<ipython-input-3-1a2b3c>:1", "stats.py:12 in ratio"]


def test_the_program_that_runs_a_notebook_only_reports_its_error() -> None:
    runner = 'Traceback (most recent call last):\n  File "/opt/bin/papermill", line 8, in <module>\n    main()\n'
    log = runner + "papermill.exceptions.PapermillExecutionError: \n" + CELL
    answer = classify(Evidence((("log", log.encode()),), 1), RULES)
    assert (answer.cause, answer.frame) == ("python_bug", "Cell In[4]:2")


def test_a_cut_off_cell_has_no_message() -> None:
    (trace,) = tracebacks.find(Log("log", CELL.split("\n\n")[0].encode()))
    assert not trace.decisive.message
