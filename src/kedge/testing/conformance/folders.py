"""The folders of a task: its results, what the job's tasks share."""

from __future__ import annotations

from pathlib import Path

from kedge.contract import JOB_DIR, OUTPUT_DIR, TASK_STARTS
from kedge.testing.command import Kedge
from kedge.testing.conformance.case import ConformanceCase, same

_SAVE = 'echo "$PAI_TASK_INDEX" > "$KEDGE_OUTPUT_DIR/result"'
# A counter that every try reads and replaces, as training does with a checkpoint.
_RESUME = [
    'cd "$KEDGE_JOB_DIR"; step=0; [ ! -e checkpoint ] || read -r step < checkpoint',
    "echo resumed at $step; echo $((step + 1)) > new; mv new checkpoint",
    'echo $step > "$KEDGE_OUTPUT_DIR/step"; [ $step = 2 ]',
]
_SEES_FOLDERS = {
    "name": "looks",
    "type": "script",
    "plugin": "cmd",
    "callbacks": [
        {"event": TASK_STARTS, "commands": ['touch "$KEDGE_OUTPUT_DIR/of-hook" "$KEDGE_JOB_DIR/of-hook"']},
    ],
}


def _content(*files: Path) -> list[str]:
    return [file.read_text() for file in files]


def _all_results(kedge: Kedge) -> None:
    results = (kedge.task(f"worker-{index}") / OUTPUT_DIR / "result" for index in range(10))
    same("results", _content(*results), [f"{index}\n" for index in range(10)])


def _steps_of_the_job(kedge: Kedge) -> None:
    steps = (kedge.task(attempt=attempt) / OUTPUT_DIR / "step" for attempt in range(3))
    same("results of the attempts", _content(*steps), ["0\n", "1\n", "2\n"])


def _steps_of_the_task(kedge: Kedge) -> None:
    steps = (kedge.task(name) / OUTPUT_DIR / "step" for name in ("worker-0", "worker-0.1", "worker-0.2"))
    same("results of the attempts", _content(*steps), ["0\n", "1\n", "2\n"])
    same("the job's folder", _content(kedge.only_run() / JOB_DIR / "checkpoint"), ["3\n"])


BEHAVIOURS = {
    "tasks that write results of the same name lose nothing": ConformanceCase(
        _SAVE, roles={"worker": {"instances": 10, "completion": {"minSucceededInstances": -1}}}, more=_all_results
    ),
    "hooks and the command see the same folders, which exist": ConformanceCase(
        ['ls "$KEDGE_OUTPUT_DIR" "$KEDGE_JOB_DIR" | grep -cx of-hook', '[ "$KEDGE_OUTPUT_DIR" != "$KEDGE_JOB_DIR" ]'],
        roles={"worker": {"prerequisites": ["looks"]}},
        keys={"prerequisites": [_SEES_FOLDERS]},
        logs="2\n",
    ),
    "the job's folder survives retries of the job": ConformanceCase(
        _RESUME,
        keys={"jobRetryCount": 3},
        logs={f"attempt-{attempt}/worker-0": f"resumed at {attempt}\n" for attempt in range(3)},
        attempts=3,
        more=_steps_of_the_job,
    ),
    "the job's folder survives retries of a task": ConformanceCase(
        _RESUME,
        roles={"worker": {"taskRetryCount": 3}},
        keys={"extras": {"gangAllocation": False}},
        logs={"worker-0": "resumed at 0\n", "worker-0.1": "resumed at 1\n", "worker-0.2": "resumed at 2\n"},
        attempts=1,
        more=_steps_of_the_task,
    ),
}
