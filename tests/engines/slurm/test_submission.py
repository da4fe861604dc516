"""A run is handed over to Slurm, refused by it, or found again."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kedge
from kedge.bundle import cache, prune
from kedge.cli.commands.cache import _in_clusters as in_clusters
from kedge.engines.slurm.script import render
from kedge.errors import CannotRun, InputError
from kedge.jobs import runs, submission
from kedge.jobs.submission import Submitted
from kedge.runs import liveness, report, status
from kedge.runs.events import EventLog
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase
from kedge.states import State
from kedge.testing.wait import wait_until

from . import fake_slurm

_DEADLINE = 120.0
_TIME = "2026-01-02T03:04:05+00:00"
ENDS_WELL = f"""
echo '{{"time": "{_TIME}", "event": "job-completed", "state": "succeeded", "code": 0}}' >> "$run/events.jsonl"
"""


def _phase(submitted: Submitted) -> str:
    return liveness.ask_scheduler(submitted.run).state


def test_a_run_goes_to_slurm_and_ends(submitted: Submitted, slurm: Path, controller: Callable[[str], None]) -> None:
    controller(ENDS_WELL)
    submission.start(submitted)
    assert submitted.controller.started() is None
    assert submitted.controller.wait() is None
    assert status.read(submitted.run).state == State.SUCCEEDED
    (job,) = fake_slurm.jobs(slurm)
    assert submitted.run.cluster.object(submitted.run.cluster.job)["job"] == str(job["id"])


def test_a_job_inherits_the_users_own_environment(
    submitted: Submitted, slurm: Path, controller: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what kedge sets for Slurm's answers, and no options of another job."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("SBATCH_PARTITION", "other")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1")
    controller(f'printenv LC_ALL SLURM_TIME_FORMAT SBATCH_PARTITION SLURM_MEM_PER_NODE >"$run/seen"\n{ENDS_WELL}')
    submission.start(submitted)
    assert submitted.controller.wait() is None
    assert (submitted.run.path / "seen").read_text() == "de_DE.UTF-8\n"


def test_the_bundle_of_a_run_is_kept_from_the_start_of_its_submission(
    submitted: Submitted, slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another kedge prunes the cache when the script is written, when Slurm has the job, and while it waits."""
    pruned: list[object] = []
    script = render.script

    def prune_and_render(*args: Any) -> str:
        pruned.extend(prune.prune(0, in_clusters))
        return script(*args)

    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(render, "script", prune_and_render)
    (slurm / "hold").write_text("Resources")
    assert not in_clusters()
    submission.start(submitted)
    assert in_clusters() == {tmp_path / "bundle"}
    assert pruned + prune.prune(0, in_clusters) == []
    assert prune.prune(used=set, has_ended=lambda run: run != submitted.run.path) == [], "another XDG_STATE_HOME"
    assert prune.prune(has_ended=lambda run: run == submitted.run.path) != []


def test_only_this_user_reads_the_orders(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("Resources")
    submission.start(submitted)
    files = submitted.run.cluster
    assert files.object(files.secrets)["texts"]
    assert files.object(files.orders)["engine"] == "slurm"
    assert {path.stat().st_mode & 0o077 for path in (files.folder, *files.folder.iterdir())} == {0}


def test_a_pending_run_has_a_reason_and_a_start(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("Resources")
    submission.start(submitted)
    answer = liveness.ask_scheduler(submitted.run)
    assert (answer.state, answer.reason, answer.job) == (JobPhase.PENDING, "Resources", "1")
    assert answer.start.startswith("2030-01-0")
    assert liveness.is_controlled(submitted.run)


def test_a_refused_run_leaves_nothing(submitted: Submitted, slurm: Path) -> None:
    (slurm / "refuse").write_text(
        "sbatch: error: invalid partition specified: nope\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified"
    )
    with pytest.raises(CannotRun, match=r"invalid partition specified: nope.*sinfo lists them"):
        submission.start(submitted)
    assert not submitted.run.path.exists()
    assert not runs.all_runs()


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Requested node configuration is not available", "for each thread: an even cpu for worker avoids waste"),
        ("User's group not permitted to use this partition", "that partition is for other groups"),
        ("Access/permission denied", "for administrators (RootOnly) or for other login nodes"),
        ("Required partition not available (inactive or drain)", "name another partition"),
        ("Requested GRES option unsupported by configured SelectType plugin", "only with SelectType=select/cons_tres"),
        ("Invalid license specification", "in engines.slurm.sbatch of the site's file"),
        ("Job violates accounting/QOS policy (job submit limit, user's size)", "exceeds a limit of your account"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "ask for less with --slurm time"),
        ("Access denied to requested reservation", "check --slurm reservation"),
        ("System submissions disabled", "accepts no jobs now"),
        ("Incompatible versions of client and server code", "do not fit the cluster's version of Slurm"),
    ],
)  # fmt: skip
def test_what_to_change(submitted: Submitted, slurm: Path, said: str, advice: str) -> None:
    (slurm / "refuse").write_text(f"sbatch: error: Batch job submission failed: {said}")
    with pytest.raises(CannotRun) as error:
        submission.start(submitted)
    assert f"{said}. What to do: " in str(error.value)
    assert advice in str(error.value)


def test_what_sbatch_says_beside_the_number_of_the_job_is_a_note(submitted: Submitted, slurm: Path) -> None:
    """Warnings, words of the site's own plugins, and the name of the cluster where there are several."""
    (slurm / "hold").write_text("Resources")
    (slurm / "says").write_text(
        "sbatch: Your project ends on Friday.\n\nsbatch: error: not so bad\nlua: \x1b[2Jhello\n"
    )
    notes: list[str] = []
    submission.start(submitted, notes.append)
    assert notes.pop(0).startswith("kedge packs its runtime for the nodes, which takes some seconds")
    assert notes == ["sbatch: Your project ends on Friday.", "sbatch: not so bad", "sbatch: lua: ?[2Jhello"]
    assert submitted.run.cluster.object(submitted.run.cluster.job)["job"] == "1"


def test_a_silent_slurm_is_said(submitted: Submitted, slurm: Path) -> None:
    (slurm / "silent").touch()
    with pytest.raises(CannotRun, match=r"Unable to contact slurm controller.*try again later"):
        submission.start(submitted)
    assert not submitted.run.path.exists()


def test_the_job_of_a_killed_submitter_is_found(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("Priority")
    (slurm / "slow").touch()
    process = multiprocessing.get_context("fork").Process(target=submission.start, args=(submitted,))
    process.start()
    process.join(_DEADLINE)
    assert process.exitcode == -signal.SIGKILL
    submitted.controller.close()
    files = submitted.run.cluster
    assert files.object(files.job)["job"] is None
    assert liveness.is_controlled(submitted.run)
    assert files.object(files.job)["job"] == "1"
    (slurm / "slow").unlink()
    runs.stop(submitted.run)
    now = runs.wait(submitted.run)
    assert (now.state, now.text) == (State.STOPPED, "stopped by a stop request")


@pytest.mark.parametrize("written", [False, True])
def test_a_submission_that_never_reached_slurm_ends(submitted: Submitted, slurm: Path, written: bool) -> None:
    files = submitted.run.cluster
    files.make()
    if written:
        files.write(files.job, {"engine": "slurm", "job": None, "time": 1e9})
    assert liveness.is_controlled(submitted.run)
    submitted.controller.close()
    now = status.read(submitted.run)
    assert (now.state, now.text) == (State.FAILED, "its submission was interrupted before Slurm accepted it")


@pytest.mark.parametrize("written", [False, True])
def test_a_stop_ends_no_run_that_is_being_submitted(submitted: Submitted, slurm: Path, written: bool) -> None:
    """Its submitter, who makes a bundle for minutes perhaps, would give it to Slurm all the same."""
    files = submitted.run.cluster
    files.make()
    if written:
        files.write(files.job, {"engine": "slurm", "job": None, "time": 1e9})
    with pytest.raises(CannotRun, match="has not got the request: it is being submitted; try again in a moment"):
        runs.stop(submitted.run, kill=True)
    assert status.read(submitted.run).state == State.WAITING
    (slurm / "hold").write_text("Priority")
    submission.start(submitted)
    runs.stop(submitted.run)
    assert status.read(submitted.run).state == State.STOPPED


@pytest.mark.parametrize(
    ("slurms", "accounting", "state", "code", "text"),
    [
        ("CANCELLED", True, State.STOPPED, -210, f"cancelled outside of kedge by {os.environ.get('USER') or 'root'}"),
        ("CANCELLED", False, State.STOPPED, -210, "cancelled outside of kedge, with scancel or by Slurm"),
        ("TIMEOUT", False, State.FAILED, -1004, r"the time limit of the allocation \(01:00:00\) has passed"),
        ("NODE_FAIL", True, State.FAILED, -1001, "the node of the job's controller has failed .*node n1"),
        ("OUT_OF_MEMORY", False, State.FAILED, -1200, "ran out of memory"),
        ("PREEMPTED", True, State.FAILED, -1003, "preempted by Slurm"),
        (
            "FAILED",
            False,
            State.FAILED,
            None,
            "its controller ended with exit code 3 without recording its end",
        ),
        (
            "FAILED",
            True,
            State.FAILED,
            None,
            "its controller was ended by signal 9 without recording its end",
        ),
        ("FORGOTTEN", False, State.FAILED, None, "Slurm no longer knows the job"),
    ],
)
def test_an_end_that_the_job_did_not_record(
    submitted: Submitted, slurm: Path, slurms: str, accounting: bool, state: State, code: int | None, text: str
) -> None:
    (slurm / "hold").write_text("None")
    if accounting:
        (slurm / "accounting").touch()
    submission.start(submitted)
    assert liveness.is_controlled(submitted.run)
    fake_slurm.change(slurm, 1, state=slurms, by=str(os.getuid()), code="0:9" if accounting else "3:0")
    assert not liveness.is_controlled(submitted.run)
    now = status.read(submitted.run)
    assert (now.state, now.code) == (state, code)
    assert re.search(text, now.text or "")
    assert report.read(submitted.run)
    files = submitted.run.cluster
    assert not any(path.exists() for path in (files.secrets, files.link, files.orders))


@pytest.mark.parametrize(
    ("code", "said", "text"),
    [
        (
            "4:0",
            "kedge: /cache/kedge is not on the node n1; set XDG_CACHE_HOME",
            "could not start: /cache/kedge is not",
        ),
        ("0:53", "", "its node could not write into the run folder .* check that all nodes share"),
        ("3:0", "module: command not found", "exit code 3 .* check that all nodes share the folder"),
    ],
)
def test_why_a_controller_has_never_started(submitted: Submitted, slurm: Path, code: str, said: str, text: str) -> None:
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    (submitted.run.path / "cluster" / "batch.log").write_text(f"the site's greeting\n{said}\n")
    fake_slurm.change(slurm, 1, state="FAILED", by="0", code=code)
    assert not liveness.is_controlled(submitted.run)
    assert re.search(text, status.read(submitted.run).text or "")


def test_a_slurm_that_does_not_answer_ends_nothing(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    (slurm / "silent").touch()
    assert liveness.is_controlled(submitted.run)
    answer = liveness.last_answer(submitted.run.cluster)
    assert answer.state == JobPhase.UNKNOWN
    assert "Unable to contact slurm controller" in answer.text
    assert answer.job == "1", "without it, whoever follows the run is told nothing"
    (slurm / "silent").unlink()
    assert _phase(submitted) == JobPhase.PENDING


def test_the_silence_of_a_running_jobs_controller_is_said(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    fake_slurm.change(slurm, 1, state="RUNNING")
    heartbeat = submitted.run.cluster.heartbeat
    assert status.read(submitted.run).notes == (), "the batch script has just started"
    submitted.run.cluster.beat()
    assert status.read(submitted.run).notes == ()
    then = time.time() - 600
    heartbeat.write_text(json.dumps({"time": then}))
    os.utime(heartbeat, (then, then))
    (note,) = status.read(submitted.run).notes
    assert re.match(r"its controller has been silent for 10 min.*; if its node has failed", note)


def test_many_runs_are_one_question(
    submitted: Submitted, slurm: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    for _ in range(2):
        again = submission.submit(submitted.prepared, submitted.where)
        submission.start(again)
    monkeypatch.setattr("kedge.engines.slurm.job_table.CACHED_SEC", 600.0)
    (slurm / "calls").unlink()
    assert {now.state for _, _, now in runs.all_runs()} == {State.WAITING}
    assert (slurm / "calls").read_text().count("squeue") == 1


def test_a_pending_run_is_cancelled(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("Priority")
    submission.start(submitted)
    submitted.controller.signal(signal.SIGINT)
    submitted.controller.wait()
    now = status.read(submitted.run)
    assert (now.state, now.text, now.exit_code) == (State.STOPPED, "stopped by Ctrl-C", 130)
    assert fake_slurm.jobs(slurm)[0]["state"] == "CANCELLED"


def test_a_run_that_has_ended_is_removed(submitted: Submitted, slurm: Path, controller: Callable[[str], None]) -> None:
    (slurm / "hold").write_text("Priority")
    submission.start(submitted)
    with pytest.raises(InputError, match="stop it first"):
        runs.remove(submitted.run)
    runs.stop(submitted.run, kill=True)
    runs.remove(submitted.run)
    assert not submitted.run.path.exists()


def test_a_stop_completes_the_records_of_a_killed_controller(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    with EventLog(submitted.run.events) as log:
        log.append(JobEvent.JOB_COMPLETED, state="failed", code=1, text="its only task failed")
    assert not liveness.is_controlled(submitted.run)
    assert submitted.run.cluster.secrets.exists()
    runs.stop(submitted.run)
    assert report.read(submitted.run)
    assert not submitted.run.cluster.secrets.exists()


def test_the_python_api_waits_for_the_end(
    tmp_path: Path, slurm: Path, controller: Callable[[str], None], job_file: Path
) -> None:
    controller(ENDS_WELL)
    now = kedge.run(job_file, engine="slurm")
    assert now.state == State.SUCCEEDED
    assert now.cluster_job == "1"


def test_without_a_link_slurm_passes_a_stop_on(
    submitted: Submitted, slurm: Path, controller: Callable[[str], None]
) -> None:
    controller('trap "echo TERM > $run/got; exit 0" TERM; touch "$run/up"; while :; do sleep 0.05; done')
    submission.start(submitted)
    wait_until((submitted.run.path / "up").exists, _DEADLINE)
    notes = runs.stop(submitted.run)
    assert "the request was sent by scancel instead" in notes[0]
    wait_until((submitted.run.path / "got").exists, _DEADLINE)
