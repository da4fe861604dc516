"""The commands that follow, show and remove runs, and the files of a run folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

from kedge.contract import CURRENT, EVENTS_FILE, FINISHED, REPORT_FILE, RUNNING, RUNTIME_LOG, SPEC_FILE, STREAMS
from kedge.errors import EXIT_FAILED
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.command import Kedge
from kedge.testing.conformance.case import same


def in_the_background(kedge: Kedge) -> None:
    job = kedge.job("echo one; sleep 0.5; echo two", roles={"worker": {"instances": 2}})
    name = kedge("run", "-d", job).stdout.strip()
    followed = kedge("logs", "-f", name).stdout
    expected = ["worker:0 | one", "worker:0 | two", "worker:1 | one", "worker:1 | two"]
    same("followed lines", sorted(followed.splitlines()), expected)
    same("wait", kedge("wait", name).stdout, "succeeded\n")
    same("logs of a task", kedge("logs", "job", "worker-1").stdout, "one\ntwo\n")
    same("its stderr", kedge("logs", name, "worker:1", "--stream", "stderr").stdout, "")
    assert kedge.leftovers() == []


def as_json(kedge: Kedge) -> None:
    done = kedge("run", "--json", kedge.job("echo out; echo err >&2; exit 3"), code=EXIT_FAILED)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    same(
        "first and last event",
        (events[0]["event"], events[-1]["event"]),
        (JobEvent.JOB_SUBMITTED, JobEvent.JOB_COMPLETED),
    )
    same("lines", {event["line"] for event in events if event["event"] == "log"}, {"out", "err"})
    same("codes", [event["user_exit_code"] for event in events if event["event"] == JobEvent.TASK_COMPLETED], [3])


def run_folder(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("echo hello"))
    run = kedge.only_run()
    for name in (
        "job.yaml",
        "plan.json",
        "run.json",
        "events.jsonl",
        "report.json",
        "report.md",
        "attempt-0/peers.json",
    ):
        assert (run / name).is_file(), f"{name} is missing"
    for name in (SPEC_FILE, REPORT_FILE, RUNTIME_LOG, *(f"{stream}/{CURRENT}" for stream in STREAMS)):
        assert (kedge.task() / name).is_file(), f"{name} is missing"
    same("the engine", json.loads((run / "run.json").read_text())["engine"], kedge.engine)
    lines = (kedge.task() / EVENTS_FILE).read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert RUNNING in events, events
    same("the last event of a task", events[-1], FINISHED)


def show_and_remove(kedge: Kedge) -> None:
    name = kedge("run", "-d", kedge.job("echo ready; sleep 1000")).stdout.strip()
    kedge.wait_for_output("ready")
    assert f"kedge stop {name}" in kedge("rm", name, code=2).stderr
    same("wait", kedge("wait", name, "--timeout", "0.2", code=1).stdout, "running\n")
    kedge("stop", name)
    shown = json.loads(kedge("show", name, "--json").stdout)
    same("state", (shown["state"], shown["tasks"][0]["state"]), (State.STOPPED, State.STOPPED))
    assert " stopped " in kedge("ps").stdout
    same("rm", kedge("rm", name).stdout, f"{name} removed\n")
    same("runs", kedge.runs(), [])


def two_at_once(kedge: Kedge) -> None:
    jobs = [kedge.job("echo $KEDGE_JOB_ID; sleep 0.5", name=name) for name in ("first", "second")]
    for process in [kedge.start("run", job) for job in jobs]:
        kedge.finish(process, 0)
    ids = [(run / "attempt-0" / "worker-0" / STREAMS[0] / CURRENT).read_text().strip() for run in kedge.runs()]
    same("ids", ids, [run.name for run in kedge.runs()])
    assert kedge.leftovers() == []


def again(kedge: Kedge) -> None:
    code = {"name": "code", "type": "script", "uri": "./code"}
    job = kedge.job(
        "sh main.sh <% $parameters.lr %> $A $B",
        roles={"worker": {"script": "code"}},
        prerequisites=[code],
        parameters={"lr": 0.1},
        extras={"kedge": {"env": {"A": 1}}},
    )
    (kedge.folder / "code").mkdir()
    (kedge.folder / "code" / "main.sh").write_text('echo "$@"\n')
    first = kedge("run", "-d", job, "-p", "lr=1.0", "--env", "B=2").stdout.strip()
    kedge("wait", first)
    job.unlink()
    shutil.rmtree(kedge.folder / "code")
    second = kedge("rerun", "-d", first).stdout.strip()
    kedge("wait", second)
    third = kedge("rerun", "-d", second, "-p", "lr=0.2", "--env", "B=3").stdout.strip()
    kedge("wait", third)
    logs = [kedge("logs", name, "worker-0").stdout for name in (first, second, third)]
    same("logs", logs, ["1.0 1 2\n", "1.0 1 2\n", "0.2 1 3\n"])
    shown = json.loads(kedge("show", third, "--json").stdout)
    same("origin and engine", (shown["rerun_of"], shown["engine"]), (second, kedge.engine))
    assert kedge.leftovers() == []


def with_job_dir(kedge: Kedge) -> None:
    steps = "cd $KEDGE_JOB_DIR; mkdir -p deep; echo step >> deep/steps; ln -sf deep/steps last; wc -l < last"
    first = kedge("run", "-d", kedge.job(steps)).stdout.strip()
    kedge("wait", first)
    without = kedge("rerun", "-d", first).stdout.strip()
    kedge("wait", without)
    continued = kedge("rerun", "-d", first, "--with-job-dir").stdout.strip()
    kedge("wait", continued)
    logs = [kedge("logs", name, "worker-0").stdout.strip() for name in (first, without, continued)]
    same("steps", logs, ["1", "1", "2"])
    same("the old folder", (kedge.job_dir(first) / "last").read_text(), "step\n")


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "a job in the background is followed and waited for": in_the_background,
    "events and lines as JSON": as_json,
    "the run folder has all files": run_folder,
    "a run is shown, stopped and removed": show_and_remove,
    "a run is made again from its own copy, with changes": again,
    "a run that is made again can begin with a copy of the job folder": with_job_dir,
    "two jobs at once do not interfere": two_at_once,
}
