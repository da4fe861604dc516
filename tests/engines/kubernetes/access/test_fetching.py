"""Commands see what the driver has written, through the API server alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time

from tests.engines.kubernetes.access.conftest import RUN_ID, event
from tests.engines.kubernetes.access.copying import Log

from kedge.engines.kubernetes.access import copy_state, fetching, reader_pod, requests
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.objects import labels
from kedge.jobs import runs
from kedge.runs import copies, events, liveness, status
from kedge.runs.follow import follow
from kedge.runs.liveness import JobPhase
from kedge.runs.timed_log import TaskLines
from kedge.states import State
from kedge.testing.wait import wait_until

LAUNCHED = {"role": "worker", "index": 0, "attempt": 0, "task_attempt": 0}


def test_a_run_is_fetched_before_it_is_read(scene):
    scene.submit()
    scene.happens("job-started")
    found = runs.find("train")
    assert [each["event"] for each in events.read(found.events)] == ["job-submitted", "job-started"]
    assert status.read(found).state not in (State.LOST, State.DAMAGED)
    Log(scene.there / "attempt-0/worker-0").print(3)
    assert not list(runs.find("train").path.glob("attempt-0/worker-0/user-all/*"))
    assert list(runs.find("train", logs=True).path.glob("attempt-0/worker-0/user-all/*"))


def test_outputs_are_fetched_when_they_are_asked_for(scene):
    scene.submit()
    output = scene.there / "attempt-0/worker-0/output"
    output.mkdir(parents=True)
    (output / "model.pt").write_bytes(b"x" * 300_000)
    assert not (runs.find(RUN_ID, logs=True).path / "attempt-0/worker-0/output/model.pt").exists()
    found = runs.find(RUN_ID, outputs=("attempt-0/worker-0",))
    assert (found.path / "attempt-0/worker-0/output/model.pt").read_bytes() == b"x" * 300_000


def test_a_follower_sees_every_line_and_the_end(scene):
    scene.submit()
    seen: list[object] = []
    log = Log(scene.there / "attempt-0/worker-0", kept=100)

    def writes() -> None:
        wait_until(lambda: copies._followers, 60)
        scene.happens("task-launched", **LAUNCHED)
        for _ in range(20):
            log.print(40)
        log.file.close()
        scene.happens("task-completed", **LAUNCHED, state="succeeded", code=0)
        scene.ends()

    thread = threading.Thread(target=writes)
    thread.start()
    for item in follow(scene.run):
        seen.append(item)
    thread.join()
    lines = b"".join(item.data for item in seen if isinstance(item, TaskLines))
    assert [line.split(b":")[0] for line in lines.splitlines()] == [b"line %d" % n for n in range(1, 801)]
    names = [item["event"] for item in seen if isinstance(item, dict)]
    assert names[-1] == "job-completed"
    assert not copies._followers
    # The driver keeps the only other copy: it may go now.
    assert scene.anchor["metadata"]["annotations"][labels.FETCHED] == "true"
    assert copy_state.read(scene.run.cluster).is_complete


def test_outputs_are_not_asked_for_where_there_are_none(scene):
    scene.submit()
    scene.ends()
    asked, command = [], scene.server.commands
    scene.server.commands = lambda call: asked.append(call) or command(call)
    for item in follow(scene.run):
        assert item
    assert len(asked) == 1, "one conversation brings all"
    assert copy_state.read(scene.run.cluster).let_go


def test_a_driver_with_a_volume_is_not_told(scene):
    scene.submit(run_volume="runs")
    scene.ends()
    assert runs.wait(scene.run, time.monotonic() + 60).state == State.SUCCEEDED
    assert labels.FETCHED not in scene.anchor["metadata"]["annotations"]


def test_two_processes_follow_one_run(scene):
    """The second one reads what the first one fetches, and goes on when that is killed."""
    scene.submit()
    code = "import sys; from kedge.cli.main import main; sys.argv = ['kedge', 'logs', '-f', 'train']; sys.exit(main())"
    first = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    log = Log(scene.there / "attempt-0/worker-0")
    scene.happens("task-launched", **LAUNCHED)
    log.print(1)
    assert b"line 1:" in first.stdout.readline()
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(follow(scene.run)))
    thread.start()
    log.print(1)
    assert b"line 2:" in first.stdout.readline()
    first.kill()
    first.wait()
    first.stdout.close()
    log.print(1)
    log.file.close()
    scene.happens("task-completed", **LAUNCHED, state="succeeded", code=0)
    scene.ends()
    thread.join()
    lines = b"".join(item.data for item in seen if isinstance(item, TaskLines))
    assert lines.count(b"\n") == 3


def test_without_the_server_the_copy_is_shown_with_its_time(scene):
    scene.submit()
    scene.happens("job-started")
    assert copies.fetch(scene.run) == ""
    scene.server.stop()
    assert "cannot be reached" in copies.fetch(scene.run)
    now = status.read(scene.run)
    assert now.state not in (State.LOST, State.DAMAGED)
    assert any("what is shown of it is as it was at 20" in note for note in now.notes)


def test_a_driver_that_waits_says_why(scene):
    scene.server.nodes.automatic = False
    scene.submit()
    assert liveness.ask_scheduler(scene.run).text == "Kubernetes has not created the pod of its driver yet"
    scene.server.nodes.start_job(f"{RUN_ID}-driver")
    pod = scene.driver_pod()["metadata"]["name"]
    scene.server.nodes.unschedulable(pod, "0/3 nodes are available: 3 Insufficient cpu.")
    scene.forget_word()
    assert "too little CPU" in status.read(scene.run).pending
    scene.server.nodes.schedule(pod)
    scene.server.nodes.run(pod)
    scene.forget_word()
    assert liveness.ask_scheduler(scene.run).state == JobPhase.RUNNING


def test_a_run_whose_objects_were_deleted_has_ended(scene):
    scene.submit()
    scene.happens("job-started")
    copies.fetch(scene.run)
    scene.api.delete("ConfigMap", RUN_ID)
    now = status.read(scene.run)
    assert (now.state, now.text) == (State.FAILED, "what kedge had created for it in the namespace was deleted")


def test_the_end_of_a_driver_that_is_gone_with_its_records(scene):
    scene.submit()
    scene.ends("failed", 1)
    scene.server.nodes.automatic = False
    scene.server.nodes.finish(scene.driver_pod()["metadata"]["name"], 0)
    now = status.read(scene.run)
    assert (now.state, now.exit_code) == (State.FAILED, 1)
    assert "cannot be fetched any more" in now.text


def test_the_decision_log_tells_of_a_driver_that_is_gone(scene):
    scene.submit()
    lines = (
        scene.run.events.read_text(),
        '{"kedge-pod": "train-abc234-a0-worker-0"}\n',
        event("attempt-started", attempt=0),
    )
    completed = {"role": "worker", "index": 0, "task_attempt": 0, "state": "failed", "succeeded": False, "code": 7}
    report = {"kedge-file": "attempt-0/worker-0/report.json", "value": {"code": 7}}
    foreign = {"kedge-file": "cluster/ssh.json", "value": {}}
    end = event("task-completed", **completed), event("job-completed", state="failed", code=7, exit_code=1)
    for number, text in enumerate(("".join(lines), "".join(end))):
        given = f"{json.dumps(report)}\n{json.dumps(foreign)}\n" if number else ""
        head = {"name": f"{RUN_ID}-log-{number}", "labels": labels.of_component(RUN_ID, labels.LOG)}
        head["annotations"] = {"kedge.io/log-piece": str(number)}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": {"events.jsonl": given + text}}
        scene.api.create(made)
    scene.ends("failed", 1)
    scene.server.nodes.automatic = False
    scene.server.nodes.finish(scene.driver_pod()["metadata"]["name"], 0)
    now = status.read(scene.run)
    assert (now.state, now.exit_code, [task.state for task in now.tasks]) == (State.FAILED, 1, [State.FAILED])
    assert (scene.run.path / "attempt-0/worker-0/report.json").exists()
    assert not scene.run.cluster.ssh.exists()
    assert "gone with it" in copies.fetch(scene.run, logs=True)


def test_requests_are_written_on_the_anchor(scene):
    scene.submit()
    scene.happens("job-started")
    threads = [threading.Thread(target=requests.stop, args=(scene.run, False)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    requests.forward(scene.run, signal.SIGINT)
    found = json.loads(scene.anchor["metadata"]["annotations"][labels.REQUESTS])
    assert [each["kind"] for each in found] == ["stop"] * 4 + ["interrupt"]
    assert len({each["id"] for each in found}) == 5


def test_a_run_that_has_not_begun_is_withdrawn(scene):
    scene.server.nodes.automatic = False
    scene.submit()
    requests.stop(scene.run, False)
    assert scene.anchor is None
    now = status.read(scene.run)
    assert (now.state, now.text) == (State.STOPPED, "stopped by a stop request")


def test_an_ended_run_is_forgotten(scene):
    scene.submit()
    scene.ends()
    runs.wait(scene.run, time.monotonic() + 60)
    runs.remove(scene.run)
    assert scene.anchor is None
    assert not scene.run.path.exists()


def test_what_is_complete_is_not_fetched_again(scene):
    scene.submit()
    scene.ends()
    runs.wait(scene.run, time.monotonic() + 60)
    calls = len(scene.server.calls)
    runs.find("train", logs=True, outputs=("",))
    runs.all_runs()
    assert len(scene.server.calls) == calls


def test_many_runs_are_fetched_at_once_with_a_deadline(scene, monkeypatch):
    scene.submit()
    monkeypatch.setattr(fetching, "fetch", lambda run, **_: time.sleep(60))
    copies.fetch_all([scene.run], 0.1)


def test_the_volume_of_an_ended_run_is_read_by_a_pod_of_its_own(scene):
    scene.submit(run_volume="runs", run_as_user=1000)
    scene.ends()
    Log(scene.there / "attempt-0/worker-0").print(3)
    driver = scene.driver_pod()
    scene.server.nodes.finish(driver["metadata"]["name"], 0, container="driver")
    assert copies.fetch(scene.run, logs=True) == ""
    assert list(scene.run.path.glob("attempt-0/worker-0/user-all/*"))
    (made,) = [c for c in scene.server.calls if (c.verb, c.kind) == ("create", "Pod")]
    assert made
    assert wait_until(lambda: [pod["metadata"]["name"] for pod in scene.server.listed("Pod")] == [
        driver["metadata"]["name"]
    ], 60)  # fmt: skip


def test_a_pod_that_reads_is_like_the_driver(scene):
    scene.submit(run_volume="runs", pull_secrets=["registry"])
    job = scene.server.find("Job", f"{RUN_ID}-driver")
    made = reader_pod.pod(SubmittedRun(scene.run), job, scene.anchor, "abcd")
    assert made["metadata"]["ownerReferences"][0]["uid"] == scene.anchor["metadata"]["uid"]
    assert made["spec"]["volumes"] == [{"name": "run", "persistentVolumeClaim": {"claimName": "runs"}}]
    assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    context = made["spec"]["containers"][0]["securityContext"]
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    assert [mount["name"] for mount in made["spec"]["containers"][0]["volumeMounts"]] == ["run"]
