"""The agent in the pod of a task: its supervisor runs in another container."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.agent.pod_rig import PodUnderTest

from kedge.contract import CODE_DIR
from kedge.link import pod_folders
from kedge.runtime.agent import pod_files
from kedge.testing.wait import wait_until

WAITS = "touch ready; while [ -e ready ]; do sleep 0.05; done"  # the test removes it
SECRETS = {"texts": {"token": "hidden-value"}, "document": {"token": "hidden-value"}}


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[PodUnderTest]:
    found = PodUnderTest(tmp_path)
    found.prepare()
    yield found
    found.close()


def has_open(pid, name):
    try:
        return any(os.readlink(each).endswith(f"/{name}") for each in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:  # it was just closed
        return False


def begun(pod, command=WAITS, **spec):
    pod.start_supervisor()
    pod.start()
    pod.run(command, **spec)


def test_a_task_from_its_start_to_its_end(pod):
    command = f"echo out; cat {pod.path(pod_folders.SECRETS)}/values.json >&2; pwd; echo done > $KEDGE_OUTPUT_DIR/made"
    begun(pod, command, secrets=SECRETS, mask=False)
    end = pod.ended()
    assert (end["report"]["exit_code"], end["code"], end["text"]) == (0, None, "")
    assert pod.events() == ["starting", "running", "exited", "finished"]
    files = pod.files()
    assert files["user-stdout/current"].decode().splitlines() == ["out", str(pod.folder)]
    assert json.loads(files["user-stderr/current"]) == {"token": "hidden-value"}
    assert files["output/made"] == b"done\n"
    assert json.loads(files["report.json"]) == end["report"]
    assert os.listdir(pod.path(pod_folders.SECRETS)) == []
    assert pod.finish() == 0


def test_the_agent_starts_later_than_the_supervisor_that_waits_for_it(pod):
    pod.start_supervisor()
    wait_until(lambda: has_open(pod.supervisor.pid, "status"))
    pod.start()
    pod.run("exit 3")
    assert pod.ended()["report"]["user_exit_code"] == 3


def test_ports_are_taken_when_the_supervisor_runs(pod):
    pod.start()
    pod.joined()
    pod.send("reserve", ports={"http": 1})
    pod.joined()
    assert pod.said("reserved") == []
    pod.start_supervisor()
    assert list(pod.wait_for("reserved")["ports"]) == ["http"]


def test_a_supervisor_that_is_killed(pod):
    begun(pod, f"echo last words; {WAITS}")
    pod.wait_for_file("ready")
    os.kill(pod.supervisor_pid(), signal.SIGKILL)
    end = pod.ended()
    assert (end["report"], end["code"], end["text"]) == (None, None, "")
    assert pod.files()["user-stdout/current"] == b"last words\n"


def test_a_supervisor_that_ends_before_it_gets_its_task(pod):
    pod.start()
    pod.start_supervisor()
    pod.reserve()
    pod.supervisor.kill()
    pod.supervisor.wait()
    pod.run("true", answered=False)
    assert (pod.ended()["report"], pod.ended()["text"]) == (None, "the supervisor ended before it got its task")


def test_a_stop_and_the_end_of_the_grace_period(pod):
    begun(pod, f"trap '' TERM; {WAITS}")
    pod.wait_for_file("ready")
    pod.control("stop")
    pod.wait_for_event("stopping")
    pod.control("end-grace")
    assert pod.ended()["report"]["killed"]


def test_a_kill(pod, alive):
    begun(pod, "setsid sleep 1000 & echo $! > pid; touch ready; sleep 1000")
    pod.wait_for_file("ready")
    sleeper = int((pod.folder / "pid").read_text())
    pod.control("kill")
    assert (pod.ended()["report"], pod.ended()["code"]) == (None, -signal.SIGKILL)
    assert pod.supervisor.wait() == 137
    wait_until(lambda: not alive(sleeper))


def test_a_signal_to_the_agent_asks_for_a_stop_and_ends_nothing_else(pod):
    begun(pod)
    pod.wait_for_file("ready")
    pod.process.terminate()
    assert pod.ended()["report"]["stopped_by"] == "TERM"
    assert pod.process.poll() is None
    assert pod.finish() == 0


def test_a_pod_that_ends_before_its_task_gets_a_stop_at_once(pod):
    pod.start()
    pod.start_supervisor()
    pod.reserve()
    pod.process.terminate()
    pod.run(WAITS)
    assert pod.ended()["report"]["stopped_by"] == "TERM"


def test_an_agent_that_finishes_early_ends_the_task(pod):
    begun(pod)
    pod.wait_for_file("ready")
    assert pod.finish() == 0
    assert pod.supervisor.wait() == 137


def test_an_agent_that_finishes_before_the_start_ends_the_supervisor(pod):
    pod.start_supervisor()
    pod.start()
    pod.reserve()
    assert pod.finish() == 0
    assert pod.supervisor.wait() == 137


def test_an_agent_that_is_killed_while_its_task_runs(pod):
    begun(pod, "touch ready; until [ -e go ]; do sleep 0.02; done; exit 4")
    pod.wait_for_file("ready")
    os.kill(pod.agent_pid(), signal.SIGKILL)
    pod.joined(2)
    pod.answer_mirror(2)
    (pod.folder / "go").touch()
    assert pod.ended()["report"]["user_exit_code"] == 4
    assert list(dict.fromkeys(pod.events())) == ["starting", "running", "exited", "finished"]


def test_a_supervisor_that_ends_while_there_is_no_agent(pod):
    begun(pod)
    pod.wait_for_file("ready")
    os.kill(pod.agent_pid(), signal.SIGSTOP)
    os.kill(pod.supervisor_pid(), signal.SIGKILL)
    os.kill(pod.agent_pid(), signal.SIGKILL)
    pod.joined(2)
    pod.answer_mirror(2)
    assert pod.ended()["report"] is None


def test_what_the_task_does_to_shared_files_harms_nobody(pod, tmp_path):
    outside = tmp_path / "outside"
    (outside / "user-stdout").mkdir(parents=True)
    (outside / "user-stdout" / "current").write_text("not of the task")
    shared, logs = pod.path(pod_folders.SHARED), pod.path(pod_folders.LOGS)
    output = pod.path(pod_folders.OUTPUT)
    begun(
        pod,
        f"rm {shared}/*; mkfifo {shared}/status; ln -s /etc/passwd {shared}/control; mv {logs} {logs}.old;"
        f"ln -s {outside} {logs}; rmdir {output}; ln -s {outside} {output}; echo fine",
    )
    end = pod.ended()
    assert end["report"] is None, "the supervisor could not write where it was told to"
    assert pod.files()["user-stdout/current"] == b"fine\n"
    assert not any(path.startswith("output/") for path in pod.files())


def test_outputs_on_a_volume_are_not_sent(pod):
    pod.start_supervisor()
    pod.start(mirrored=0)
    pod.run("echo x > $KEDGE_OUTPUT_DIR/x")
    pod.ended()
    assert "output/x" not in pod.files()
    (end,) = [one for one in pod.said("file") if one["do"] == "end"]
    assert (end["skipped_files"], end["skipped_bytes"]) == (0, 0)


@pytest.mark.parametrize(
    ("code", "folder"), [("/run/code/train", "/run/tasks/0/code/train"), (None, "/run/code/train")]
)
def test_a_task_with_code_starts_in_it(code, folder):
    spec = {
        "uid": "u", "workdir": folder, "code": code, "rules": [], "exit_spec": None, "logs": {"console": False},
        "folder": "/run/tasks/0",
    }  # fmt: skip
    found = pod_files.on_pod({"spec": spec}, "")["spec"]
    assert CODE_DIR in folder
    assert found["workdir"] == f"{pod_folders.SCRIPTS}/train"
    assert found["code"] == (pod_folders.SNAPSHOT if code else None)
    assert found["logs"]["console"]
