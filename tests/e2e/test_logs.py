"""kedge logs and the live view: the lines of all tasks, by time, while they are printed and later."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge

# Each task waits for its turn, so there is one right order of all lines.
_TURNS = """
import os, sys, time
folder, index = sys.argv[1], int(os.environ["PAI_TASK_INDEX"])
for number in range(index, 60, 3):
    while not os.path.exists(f"{folder}/{number}"): time.sleep(0.0002)
    print("turn", number, flush=True)
    while True:
        logged = open("../user-all/current").read() if os.path.exists("../user-all/current") else ""
        if f"turn {number}" in logged.splitlines(): break
    open(f"{folder}/{number + 1}", "w").close()
"""


def turns(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"turn (\d+)$", text, re.MULTILINE)]


def test_tasks_that_print_in_turns_are_merged_in_that_order(kedge: Kedge) -> None:
    (kedge.folder / "turns.py").write_text(_TURNS.replace("../user-all", "$PAI_LOG_DIR/user-all"))
    script = _TURNS.replace('"../user-all/current"', 'os.environ["PAI_LOG_DIR"] + "/user-all/current"')
    (kedge.folder / "turns.py").write_text(script)
    (kedge.folder / "turn").mkdir()
    (kedge.folder / "turn" / "0").touch()
    command = f"exec python {kedge.folder}/turns.py {kedge.folder}/turn"
    live = kedge("run", kedge.job(command, roles={"worker": {"instances": 3}})).stdout
    assert turns(live) == list(range(60))
    assert turns(kedge("logs", "job").stdout) == list(range(60))
    assert turns(kedge("logs", "-f", "job").stdout) == list(range(60))
    assert turns(kedge("logs", "job", "worker:2", "worker-0").stdout) == [n for n in range(60) if n % 3 != 1]
    assert turns(kedge("logs", "job", "--tail", 7, "worker").stdout) == list(range(53, 60))
    check_times(kedge)


def check_times(kedge: Kedge) -> None:
    lines = [json.loads(line) for line in kedge("logs", "job", "--json").stdout.splitlines()]
    assert [(line["task"], line["line"], line["attempt"]) for line in lines] == [
        (f"worker:{n % 3}", f"turn {n}", 0) for n in range(60)
    ]
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    shown = kedge("logs", "job", "-t", TZ="Asia/Kolkata").stdout.splitlines()
    for line, time in zip(shown, times, strict=True):
        stamp = line.split(" | ")[1].split()[0]
        assert stamp.endswith("+05:30")
        assert (
            0 <= (datetime.fromisoformat(time[:26] + "+00:00") - datetime.fromisoformat(stamp)).total_seconds() < 0.001
        )
    middle = times[30][:26] + "Z"  # microseconds: at most one line has the same
    first, second = kedge("logs", "job", "--until", middle).stdout, kedge("logs", "job", "--since", middle).stdout
    assert turns(first) + turns(second) == list(range(60))
    assert abs(len(turns(first)) - 30) <= 1
    assert kedge("logs", "job", "--since", "2h", "--tail", 2).stdout == "worker:1 | turn 58\nworker:2 | turn 59\n"
    assert kedge("logs", "job", "--until", "2h").stdout == ""


def test_a_retry_is_followed_and_nothing_is_lost_or_doubled(kedge: Kedge) -> None:
    waits = f"while [ ! -e {kedge.folder}/go$KEDGE_TRY ]; do sleep 0.01; done"
    command = f"seq 1000; {waits}; seq 1001 2000; [ -e {kedge.folder}/last ] || exit 7"
    retry = {"extras": {"kedge": {"retry": {"backoffSec": 0.01}}}, "jobRetryCount": 1}
    kedge("run", "-d", kedge.job(command, roles={"worker": {"instances": 2}}, **retry))
    following = kedge.start("logs", "-f", "job")
    kedge.wait_for_output("1000\n")
    (kedge.folder / "go").touch()
    kedge.wait_for_output("1000\n", attempt=1)
    (kedge.folder / "last").touch()
    out, err = following.communicate(timeout=TIMEOUT)
    for index in range(2):
        numbers = [line.split(" | ")[1] for line in out.splitlines() if line.startswith(f"worker:{index} | ")]
        assert numbers == 2 * [str(n) for n in range(1, 2001)]
    assert "attempt 2 starts" in err or "attempt 2 starts" in kedge("logs", "-f", "job").stderr or not err
