"""Logs: everything that a task prints is kept unchanged."""

from __future__ import annotations

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
    "tasks that print and end at once lose no output": ConformanceCase(
        "echo task $PAI_TASK_INDEX", roles={"worker": {"instances": 10}}, more=_all_tasks
    ),
}
