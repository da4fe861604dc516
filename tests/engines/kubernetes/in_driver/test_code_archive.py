"""The job's code in its driver: how it comes there, and from there to the agents of tasks."""

from __future__ import annotations

import os
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kedge.engines.base import Task, TaskAttempt
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import Heard, Message
from kedge.engines.kubernetes.in_driver import code_archive
from kedge.engines.kubernetes.in_driver.code_server import CodeServer
from kedge.engines.kubernetes.in_driver.outputs_volume import OutputsVolume
from kedge.engines.kubernetes.objects import labels
from kedge.errors import CannotRun
from kedge.link import messages
from kedge.link.frames import LinkFrame
from kedge.runtime.agent.pod_code_fetch import CodeFetch
from kedge.runtime.process.loop import Loop

WORKER, OTHER = Task("worker", 0), Task("ps", 0)


def driver(anchor: Any) -> Any:
    api = SimpleNamespace(get=lambda kind, name: anchor)
    names = SimpleNamespace(anchor="run")
    return SimpleNamespace(owner=SimpleNamespace(name="run"), names=names, lease=SimpleNamespace(check=int), api=api)


def test_code_that_an_earlier_driver_had_is_lost(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"is lost with that.*code-volume"):
        code_archive.awaited(driver({"metadata": {"labels": {}}}), str(tmp_path))


def test_code_that_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_archive, "_QUIET_SEC", 0.3)
    with pytest.raises(CannotRun, match="has not been sent"):
        code_archive.awaited(driver({"metadata": {"labels": {labels.INCOMPLETE: "true"}}}), str(tmp_path))


class Wire:
    """A CodeServer whose connections are lists, and an agent that fetches."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.updates: list[Any] = []
        self.sent: list[tuple[Task, str, dict[str, Any], bytes]] = []
        monkeypatch.setattr(LinkServer, "poll", lambda _: self.updates)
        monkeypatch.setattr(LinkServer, "send", lambda _, *sent: bool(self.sent.append(sent)))
        self.server = CodeServer.__new__(CodeServer)
        archive = folder / "code.tar.gz"
        (folder / "code").mkdir()
        (folder / "code/data").write_bytes(os.urandom(700_000))
        with tarfile.open(archive, "w:gz") as file:
            file.add(folder / "code", "code")
        roles = (SimpleNamespace(name="worker", code="code"), SimpleNamespace(name="ps", code=None))
        self.server.offer(archive, SimpleNamespace(roles=roles, shares_code=False))  # type: ignore[arg-type]

    def offered(self, task: Task) -> Any:
        self.server.send(task, messages.RESERVE, {"ports": {}})
        return self.sent.pop()[2].get("code")

    def answer(self, offset: Any) -> LinkFrame:
        self.updates[:] = [Message(WORKER, 0, messages.CODE_WANTED, {"offset": offset}, b""), Heard(WORKER, 0)]
        assert self.server.poll() == [Heard(WORKER, 0)]
        task, kind, header, body = self.sent.pop()
        assert task == WORKER
        return LinkFrame(kind, header, body)


def test_an_agent_fetches_the_code_of_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire, loop = Wire(tmp_path, monkeypatch), Loop()
    root = tmp_path / "pod"
    (root / "kedge/agent").mkdir(parents=True)
    (root / "usr/local/pai").mkdir(parents=True)
    assert wire.offered(OTHER) is None
    wanted: list[int] = []
    fetch = CodeFetch(str(root), wire.offered(WORKER), loop, wanted.append, lambda: None)
    fetch.ask()
    fetch.ask()  # another controller: the same again
    while wanted:
        frame = wire.answer(wanted.pop(0))
        fetch.take(frame)
        fetch.take(frame)  # it comes twice
    assert loop.until(lambda: fetch.done, time.monotonic() + 30)
    assert fetch.error == ""
    assert (root / "usr/local/pai/snapshot/data").read_bytes() == (tmp_path / "code/data").read_bytes()
    assert list((root / "kedge/agent").iterdir()) == []
    loop.close()


def test_a_damaged_archive_is_said(tmp_path: Path) -> None:
    loop, root = Loop(), tmp_path / "pod"
    (root / "kedge/agent").mkdir(parents=True)
    fetch = CodeFetch(str(root), {"name": "code", "shared": False}, loop, lambda _: None, lambda: None)
    (root / "usr/local/pai").mkdir(parents=True)
    fetch.take(LinkFrame(messages.CODE, {"offset": 0, "size": 4}, b"none"))
    assert loop.until(lambda: fetch.done, time.monotonic() + 30)
    assert "cannot be unpacked" in fetch.error
    loop.close()


def test_folders_for_outputs_are_writable_for_all_and_those_above_are_not(tmp_path: Path) -> None:
    volume = OutputsVolume("run", "claim", str(tmp_path))
    volume.prepare()
    volume.make(TaskAttempt(WORKER, 1, 2))
    volume.make(TaskAttempt(WORKER, 1, 2))
    modes = {str(each.relative_to(tmp_path)): each.stat().st_mode & 0o7777 for each in tmp_path.rglob("*")}
    assert modes == {
        "run.outputs": 0o755, "run.outputs/job-dir": 0o777, "run.outputs/attempt-1": 0o755,
        "run.outputs/attempt-1/worker-0.2": 0o755, "run.outputs/attempt-1/worker-0.2/output": 0o777,
    }  # fmt: skip


def test_a_volume_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotRun, match=r"claim claim \(engines.kubernetes.outputs-volume\): Not a directory"):
        OutputsVolume("run", "claim", str(tmp_path / "file")).prepare()
