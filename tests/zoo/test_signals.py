"""Programs that are ended from outside."""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from .case import Case
from .conftest import Zoo

WAIT = """
    import os
    import signal

    # Even if the tests run under nohup or in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    print("epoch 1 loss 0.5")
    print(f"ready {os.getpid()}"); signal.pause()  # in one line, as the signal may come before the pause
"""
SHELL_WAIT = "echo ready $$\nread line < <(tail -f /dev/null)"

# What somebody outside sends to a program that works, and what kedge can know of it.
STRIKES = [
    (Case("terminated", "sigterm_unattributed", WAIT), SIGTERM),
    (Case("killed", "sigkill_unattributed", WAIT), SIGKILL),
    (Case("interrupted", "user_interrupt", WAIT, frame="train.py:8"), SIGINT),
    (Case("hung up", "user_interrupt", WAIT), SIGHUP),
    (Case("shell terminated", "sigterm_unattributed", command=SHELL_WAIT), SIGTERM),
    (Case("shell killed", "sigkill_unattributed", command=SHELL_WAIT), SIGKILL),
]

CASES = [
    Case("stopped by timeout", "time_limit", "import signal\nprint('epoch 1')\nsignal.pause()\n",
         "timeout --verbose 0.5 python train.py"),
    Case("stopped by a timeout that says nothing", "time_limit", "import signal\nprint('epoch 1')\nsignal.pause()\n",
         "timeout 0.5 python train.py"),
    Case("killed in a pipe", "sigkill_unattributed", "import os\nprint('epoch 1')\nos.kill(os.getpid(), 9)\n",
         "python train.py 2>&1 | cat"),
    Case("processor time used up", "time_limit", "while True:\n    pass\n", "ulimit -S -t 1\npython train.py"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "signal"), STRIKES, ids=str)
def test_signals(zoo: Zoo, case: Case, signal: Signals) -> None:
    zoo.expect(case, strike=signal)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_limits(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
