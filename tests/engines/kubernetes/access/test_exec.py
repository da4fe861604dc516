"""`kedge exec` in the pod of a task: a real runtime joins a real process, through a fake of the API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from kedge import link
from kedge.engines.base import ExecRequest, Task, TaskAttempt
from kedge.engines.kubernetes.access import exec as pod_exec
from kedge.engines.kubernetes.objects import pod_paths
from kedge.errors import CannotRun
from kedge.testing.wait import wait_until

RUNTIME = Path(link.__file__).parents[1] / "runtime"
ATTEMPT = TaskAttempt(Task("worker", 0), 0, 0)


@pytest.fixture
def pod(scene, monkeypatch, tmp_path):
    """The pod of a task; what is executed there runs on this machine."""
    scene.submit()
    name = scene.names.pod(0, "worker", 0)
    spec = {"containers": [{"name": "app", "image": "a"}, {"name": "agent", "image": "b"}]}
    scene.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    scene.joined = tmp_path / "joined"
    scene.server.commands = lambda call: joined(call, scene)
    return scene


def joined(call, scene) -> int:
    """Run `--join` with this process as the supervisor."""
    assert (call.container, tuple(call.argv[: len(pod_paths.JOIN_COMMAND)])) == ("app", pod_paths.JOIN_COMMAND)
    words = call.argv[len(pod_paths.JOIN_COMMAND) :]
    argv = [sys.executable, "-I", "-S", str(RUNTIME), "--join", str(scene.supervisor), *words]
    process = subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=-1, bufsize=0)

    def forward() -> None:
        with suppress(ValueError, OSError):  # the client has gone
            while data := call.read():
                process.stdin.write(data)
        process.stdin.close()

    def errors() -> None:
        while data := os.read(process.stderr.fileno(), 1 << 15):
            call.write_error(data)

    threads = [threading.Thread(target=each, daemon=True) for each in (forward, errors)]
    for thread in threads:
        thread.start()
    while data := os.read(process.stdout.fileno(), 1 << 15):
        call.write(data)
    code = process.wait()
    threads[1].join()
    process.stdout.close()
    process.stderr.close()
    return code


@pytest.fixture
def task(pod, tmp_path):
    """A process that has kept the environment of a task, as a supervisor does."""
    folder = tmp_path / "work"
    folder.mkdir()
    code = (
        "import sys; from kedge.runtime.setup.kept_environment import KeptEnvironment; kept = KeptEnvironment(); "
        f"kept.store({{'PATH': '/usr/bin:/bin', 'COLOUR': 'red'}}, {str(folder)!r}, '/bin/sh'); "
        "print('kept', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
    assert process.stdout.readline() == b"kept\n"
    pod.supervisor = process.pid
    yield pod
    process.communicate()


def execute(scene, *argv, given: bytes | None = None, capfd=None):
    """Run it with this input."""
    read, write = os.pipe()
    os.write(write, given or b"")
    os.close(write)
    old = os.dup(0)
    os.dup2(read, 0)
    try:
        code = pod_exec.run(scene.run, ATTEMPT, ExecRequest(argv, stdin=given is not None))
    finally:
        os.dup2(old, 0)
        os.close(old)
        os.close(read)
    return (code, *capfd.readouterr())


def test_a_program_has_the_tasks_environment_and_folder(task, capfd, tmp_path):
    assert execute(task, "sh", "-c", "echo $COLOUR; pwd; echo no >&2; exit 3", capfd=capfd) == (
        3, f"red\n{tmp_path / 'work'}\n", "no\n",
    )  # fmt: skip


def test_a_program_reads_to_the_end_of_the_input(task, capfd):
    """Also on a server that cannot end the input of a program."""
    text = "line\n" * 50_000
    code, out, _ = execute(task, "cat", given=text.encode()[:60_000], capfd=capfd)
    assert (code, out) == (0, text[:60_000])
    assert execute(task, "wc", "-c", capfd=capfd)[1].strip() == "0"


def test_a_program_that_does_not_read_its_input(task, capfd):
    assert execute(task, "true", given=b"x" * 60_000, capfd=capfd)[0] == 0


def test_exit_codes(task, capfd):
    assert execute(task, "no-such-program", capfd=capfd)[0] == 127
    assert execute(task, "sh", "-c", "kill -9 $$", capfd=capfd)[0] == 137


def test_signals_reach_the_program(task, capfd, tmp_path):
    flag = tmp_path / "ready"
    script = f"trap 'echo got; exit 5' INT; touch {flag}; while :; do sleep 0.05; done"

    def interrupt() -> None:
        wait_until(flag.exists, 60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert execute(task, "sh", "-c", script, capfd=capfd)[:2] == (5, "got\n")
    thread.join()


def test_a_task_without_a_pod(scene):
    scene.submit()
    with pytest.raises(CannotRun, match="worker:0 is not running"):
        pod_exec.run(scene.run, ATTEMPT, ExecRequest(("true",)))
