"""Logs: everything that a task prints is kept unchanged."""

from __future__ import annotations

import json

from kedge.contract import REPORT_FILE
from kedge.testing.command import Kedge
from kedge.testing.conformance.case import ConformanceCase, same

_LINES = 2000


def _whole_lines(kedge: Kedge) -> None:
    lines = kedge.task_log().splitlines()
    same("lines of both streams", sorted(set(lines)), ["error " * 20, "output " * 20])
    same("number of lines", len(lines), 2 * _LINES)


def _all_tasks(kedge: Kedge) -> None:
    for index in range(10):
        same(f"worker-{index}", kedge.task_log(f"worker-{index}"), f"task {index}\n")


def _timed_lines(kedge: Kedge) -> None:
    for stream, count in (("all", 9), ("stdout", 6), ("stderr", 3), ("runtime", None)):
        printed = kedge("logs", "job", "--json", "--stream", stream).stdout.splitlines()
        lines = [json.loads(line) for line in printed]
        same("number of lines", len(lines), len(lines) if count is None else count)
        for line in lines:
            report = json.loads((kedge.task(line["task"].replace(":", "-")) / REPORT_FILE).read_text())
            between = report["started"] <= line.get("time", "") <= report["ended"]
            assert between, f"{line} was not printed between {report['started']} and {report['ended']}"
        same("order", lines, sorted(lines, key=lambda line: str(line["time"])))


BEHAVIOURS = {
    "each stream has a log and both share a combined log": ConformanceCase(
        "echo out; echo err >&2", stdout=b"out\n", stderr=b"err\n", prints=("^worker:0 . out$", "^worker:0 . err$")
    ),
    "output without a newline": ConformanceCase(
        "printf 'no newline'", stdout=b"no newline", stderr=b"", logs="no newline\n"
    ),
    "output that is not text": ConformanceCase(
        r"printf '\000\001\200\377\r\n'", stdout=b"\0\1\x80\xff\r\n", prints=("^worker:0",)
    ),
    "a task that prints nothing": ConformanceCase("true", stdout=b"", stderr=b"", logs=""),
    "a large output arrives complete and in order": ConformanceCase(
        "seq 100000", stdout="".join(f"{number}\n" for number in range(1, 100_001)).encode()
    ),
    "lines of two writers are never torn": ConformanceCase(
        [
            f'many() {{ i=0; while [ $i -lt {_LINES} ]; do echo "$1"; i=$((i + 1)); done; }}',
            f"many '{'output ' * 20}' & many '{'error ' * 20}' >&2; wait",
        ],
        more=_whole_lines,
    ),
    "the output of a background process is waited for": ConformanceCase(
        "{ while kill -0 $$ 2> /dev/null; do sleep 0.1; done; echo late; } & echo early", logs="early\nlate\n"
    ),
    "every line has a time within its task's": ConformanceCase(
        "echo one; sleep 0.1; echo two >&2; echo three",
        roles={"worker": {"instances": 2}, "ps": {}},
        keys={"extras": {"kedge": {"completion": "everyTaskSucceeds"}}},
        more=_timed_lines,
    ),
    "tasks that print and end at once lose no output": ConformanceCase(
        "echo task $PAI_TASK_INDEX", roles={"worker": {"instances": 10}}, more=_all_tasks
    ),
}
