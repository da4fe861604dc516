"""The folders of a task: its results, its code, what the job's tasks share."""

from __future__ import annotations

from pathlib import Path

from kedge.contract import CODE_DIR, TASK_STARTS
from kedge.errors import EXIT_FAILED
from kedge.testing.command import Kedge
from kedge.testing.conformance.case import ConformanceCase, same

_SAVE = 'echo "$PAI_TASK_INDEX" > "$KEDGE_OUTPUT_DIR/result"'
# A counter that every try reads and replaces, as training does with a checkpoint.
_RESUME = [
    'cd "$KEDGE_JOB_DIR"; step=0; [ ! -e checkpoint ] || read -r step < checkpoint',
    "echo resumed at $step; echo $((step + 1)) > new; mv new checkpoint",
    'echo $step > "$KEDGE_OUTPUT_DIR/step"; [ $step = 2 ]',
]
_OUTPUTS = [
    {"name": "model", "type": "output", "uri": "hdfs://10.0.0.1:9000/me"},
    {"name": "logs", "type": "output"},
]
_CODE = {"name": "source", "type": "script", "uri": "./source"}
_FILES = {"source/main.sh": "echo main", "source/data/one": "one"}
# Every task writes the same names, and reads them when all tasks have written.
_WRITE_ALL = [
    'echo "$PAI_TASK_INDEX" > same; echo "echo I am $PAI_TASK_INDEX" > main.sh; rm -r data',
    'touch "$KEDGE_JOB_DIR/$PAI_TASK_INDEX"; until [ "$(ls "$KEDGE_JOB_DIR" | wc -l)" = 10 ]; do sleep 0.1; done',
    "cat same; sh main.sh; ls",
]
_TEN = {"instances": 10, "completion": {"minSucceededInstances": -1}}
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


def _uri_in_result(kedge: Kedge) -> None:
    same("result", _content(kedge.outputs() / "model" / "result"), ["hdfs://10.0.0.1:9000/me\n"])


def _all_results(kedge: Kedge) -> None:
    results = (kedge.outputs(f"worker-{index}") / "result" for index in range(10))
    same("results", _content(*results), [f"{index}\n" for index in range(10)])


def _all_files(kedge: Kedge) -> None:
    if kedge.keeps_code:
        own = (kedge.task(f"worker-{index}") / CODE_DIR / "source" / "same" for index in range(10))
        same("what is kept of the tasks", _content(*own), [f"{index}\n" for index in range(10)])
    snapshot = kedge.only_run() / CODE_DIR / "source"
    same("the snapshot", _content(snapshot / "main.sh", snapshot / "data" / "one"), ["echo main", "one"])
    same("files in it", sorted(file.name for file in snapshot.iterdir()), ["data", "main.sh"])


def _steps_of_the_job(kedge: Kedge) -> None:
    steps = (kedge.outputs(attempt=attempt) / "step" for attempt in range(3))
    same("results of the attempts", _content(*steps), ["0\n", "1\n", "2\n"])


def _steps_of_the_task(kedge: Kedge) -> None:
    steps = (kedge.outputs(name) / "step" for name in ("worker-0", "worker-0.1", "worker-0.2"))
    same("results of the attempts", _content(*steps), ["0\n", "1\n", "2\n"])
    same("the job's folder", _content(kedge.job_dir() / "checkpoint"), ["3\n"])


def _no_copies(kedge: Kedge) -> None:
    same("copies", list(kedge.task("worker-0").parent.glob(f"*/{CODE_DIR}")), [])


BEHAVIOURS = {
    "tasks that write results of the same name lose nothing": ConformanceCase(
        _SAVE, roles={"worker": _TEN}, more=_all_results
    ),
    "tasks that write the same files of their code lose nothing": ConformanceCase(
        _WRITE_ALL,
        roles={"worker": {"script": "source", **_TEN}},
        keys={"prerequisites": [_CODE]},
        files=_FILES,
        logs={f"worker-{index}": f"{index}\nI am {index}\nmain.sh\nsame\n" for index in range(10)},
        more=_all_files,
    ),
    "a retry starts with fresh code": ConformanceCase(
        ["sh main.sh; ls data; rm -r data; echo false > main.sh; touch new; ls", "[ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]"],
        roles={"worker": {"script": "source"}},
        keys={"prerequisites": [_CODE], "jobRetryCount": 1},
        files=_FILES,
        logs={"worker-0": "main\none\nmain.sh\nnew\n", "attempt-1/worker-0": "main\none\nmain.sh\nnew\n"},
        attempts=2,
    ),
    "a task that is retried alone starts with fresh code": ConformanceCase(
        ["sh main.sh; rm main.sh", "[ $FC_TASK_ATTEMPT_ID = 1 ]"],
        roles={"worker": {"script": "source", "taskRetryCount": 1}},
        keys={"prerequisites": [_CODE], "extras": {"gangAllocation": False}},
        files=_FILES,
        logs={"worker-0": "main\n", "worker-0.1": "main\n"},
    ),
    "all tasks can share one copy of the code": ConformanceCase(
        ["sh main.sh; cat data/one; echo", "exit 3"],
        roles={"worker": {"script": "source", "instances": 2, "completion": {"minFailedInstances": 2}}},
        keys={"prerequisites": [_CODE], "extras": {"kedge": {"code": "readOnly"}}},
        files=_FILES,
        code=EXIT_FAILED,
        logs={"worker-0": "main\none\n", "worker-1": "main\none\n"},
        more=_no_copies,
    ),
    "an output prerequisite is a folder that exists": ConformanceCase(
        'echo <% $output.uri %> > "$KEDGE_OUTPUT_DIR/<% $output.name %>/result"; ls "$KEDGE_OUTPUT_DIR"',
        roles={"worker": {"output": "model", "prerequisites": ["logs"]}},
        keys={"prerequisites": _OUTPUTS},
        logs="logs\nmodel\n",
        more=_uri_in_result,
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
