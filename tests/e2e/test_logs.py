"""kedge logs and the live view: the lines of all tasks, by time, while they are printed and later."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime

from kedge.contract import LOG_TIMES
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge

# Each task waits for its turn, so there is one right order of all lines.
_TURNS = """
import os, sys, time
folder, index, log = sys.argv[1], int(os.environ["PAI_TASK_INDEX"]), os.environ["PAI_LOG_DIR"] + "/user-all/current"
for number in range(index, 60, 3):
    while not os.path.exists(f"{folder}/{number}"): time.sleep(0.0002)
    print("turn", number, flush=True)
    while True:
        if os.path.exists(log) and f"turn {number}" in open(log).read().splitlines(): break
    open(f"{folder}/{number + 1}", "w").close()
"""


def turns(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"turn (\d+)$", text, re.MULTILINE)]


def test_tasks_that_print_in_turns_are_merged_in_that_order(kedge: Kedge) -> None:
    (kedge.folder / "turns.py").write_text(_TURNS)
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


def test_retries_are_followed_and_nothing_is_lost_or_doubled(kedge: Kedge) -> None:
    tries = f"{kedge.folder}/tries"
    wait = f"while [ ! -e {kedge.folder}/go ]; do sleep 0.01; done"
    command = f"echo >> {tries}; seq 1000; {wait}; seq 1001 2000; [ $(wc -l < {tries}) = 3 ]"
    alone = {"jobRetryCount": 1, "extras": {"gangAllocation": False}}
    kedge("run", "-d", kedge.job(command, roles={"worker": {"taskRetryCount": 1}}, **alone))
    following = kedge.start("logs", "-f", "job", "worker")
    kedge.wait_for_output("1000\n")
    (kedge.folder / "go").touch()
    out, err = following.communicate(timeout=TIMEOUT)
    lines = [line.split(" | ") for line in out.splitlines()]
    numbers = [str(number) for number in range(1, 2001)]
    assert [number for _, number in lines] == 3 * numbers
    assert [label.rstrip() for label, _ in lines[:: len(numbers)]] == ["worker:0", "worker:0.1", "worker:0"]
    assert "attempt 2 starts" in err
    assert kedge("logs", "job", "worker:0").stdout.split() == numbers
    assert kedge("logs", "job", "worker:0", "--attempt", 1).stdout.split() == 2 * numbers


def test_logs_of_a_running_task_end_with_what_it_has_printed(kedge: Kedge) -> None:
    kedge("run", "-d", kedge.job(f"echo first; printf begun; while [ ! -e {kedge.folder}/go ]; do sleep 0.01; done"))
    kedge.wait_for_output("first\n")
    assert kedge("logs", "job").stdout == "worker:0 | first\n"
    following = kedge.start("logs", "-f", "job", "--tail", "0", "--stream", "stdout", "-t")
    wait_until(lambda: "begun" in kedge("logs", "job", "--stream", "stdout").stdout)
    (kedge.folder / "go").touch()
    out, _ = following.communicate(timeout=TIMEOUT)
    assert out.count("\n") <= 1  # the unfinished line, if it was printed after the start
    assert kedge("logs", "job", "worker:0", "--stream", "stdout").stdout == "first\nbegun"


def test_wrong_options_are_explained(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("true"))
    for args, message in [
        (["--since", "yesterday"], "'yesterday' is not a time; write a duration such as 90s, 10m or 2h (ago)"),
        (["--until", "25:00"], "'25:00' is not a time"),
        (["--until", "10m", "-f"], "--until cannot be combined with --follow"),
        (["--attempt", 1, "-f"], "--attempt cannot be combined with --follow"),
        (["nobody"], "has no task or role nobody; its roles are worker (0 to 0)"),
        (["worker:0", "worker:1"], "has no task or role worker:1"),
    ]:
        assert message in kedge("logs", "job", *args, code=2).stderr


def test_old_logs_are_shown_without_times(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("echo $PAI_TASK_INDEX", roles={"worker": {"instances": 2}}))
    for index in range(2):
        shutil.rmtree(kedge.task(f"worker-{index}") / LOG_TIMES)
    assert kedge("logs", "job", "-t").stdout.split() == ["worker:0", "|", "-", "0", "worker:1", "|", "-", "1"]
    done = kedge("logs", "job", "--since", "1h")
    assert done.stdout == ""
    assert "note: the lines of worker:0, worker:1 are left out, because their times were not recorded" in done.stderr
