"""`kedge cp` into the pod of a task, with a real busybox."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import suppress

import pytest

from kedge.engines.base import Task, TaskAttempt
from kedge.engines.kubernetes.access import pod_files
from kedge.errors import InputError

ATTEMPT = TaskAttempt(Task("worker", 0), 0, 0)
BUSYBOX = shutil.which("busybox")
pytestmark = pytest.mark.skipif(BUSYBOX is None, reason="there is no busybox here")


@pytest.fixture
def pod(scene, monkeypatch, tmp_path):
    scene.submit()
    spec = {"containers": [{"name": "app", "image": "a"}, {"name": "agent", "image": "b"}]}
    name = scene.names.pod(0, "worker", 0)
    scene.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    (tmp_path / "output/models").mkdir(parents=True)
    monkeypatch.setattr(pod_files, "BUSYBOX", BUSYBOX)
    monkeypatch.setitem(pod_files.FOLDERS, "output", str(tmp_path / "output"))
    scene.server.commands = executed
    scene.output = tmp_path / "output"
    return scene


def executed(call) -> int:
    process = subprocess.Popen(call.argv, stdin=-1, stdout=-1, stderr=-1, bufsize=0)

    def forward() -> None:
        with suppress(ValueError, OSError), process.stdin:
            while data := call.read():
                process.stdin.write(data)

    threading.Thread(target=forward, daemon=True).start()
    call.write(process.stdout.read())
    call.write_error(process.stderr.read())
    process.stdout.close()
    process.stderr.close()
    return process.wait()


def copy(scene, source, path: str) -> tuple[int, int]:
    return pod_files.copy_in(scene.run, ATTEMPT, str(source), "output", path, lambda *_: None)


def test_files_and_folders(pod, tmp_path):
    (tmp_path / "a b'c.txt").write_text("text")
    (tmp_path / "tree/inner").mkdir(parents=True)
    (tmp_path / "tree/inner/data").write_bytes(os.urandom(2_000_000))
    assert copy(pod, tmp_path / "a b'c.txt", "") == (1, 4)
    assert (pod.output / "a b'c.txt").read_text() == "text"
    copy(pod, tmp_path / "a b'c.txt", "models/new.txt")
    assert (pod.output / "models/new.txt").read_text() == "text"
    assert copy(pod, tmp_path / "tree", "models") == (1, 2_000_000)
    assert (pod.output / "models/tree/inner/data").read_bytes() == (tmp_path / "tree/inner/data").read_bytes()


@pytest.mark.parametrize("path", ["../x", "/x", "none/x", "new/"])
def test_places_that_are_none(pod, tmp_path, path):
    (tmp_path / "a").write_text("text")
    with pytest.raises(InputError):
        copy(pod, tmp_path / "a", path)
