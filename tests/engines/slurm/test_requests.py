"""The owner's requests reach a controller over its link, whatever Slurm says."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import OwnerRequest
from kedge.engines.controller.stop_requests import KILL, NOTICE
from kedge.engines.slurm import requests
from kedge.errors import CannotRun
from kedge.jobs import runs, submission
from kedge.jobs.submission import Submitted
from kedge.link.keys import LinkKeys
from kedge.runs.controller_lock import RELEASE
from kedge.testing.wait import wait_until

from . import fake_slurm

_DEADLINE = 120.0


class _Listener:
    """The link of a controller: notes what the owner asks for."""

    def __init__(self, keys: LinkKeys) -> None:
        self.heard: list[tuple[str, str]] = []
        self.server = LinkServer(keys, lambda *task: False, "controller")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while not self._over.wait(0.01):
            for update in self.server.poll():
                if isinstance(update, OwnerRequest):
                    self.heard.append((update.kind, update.by))

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.server.close()


@pytest.fixture
def listener(submitted: Submitted, slurm: Path) -> Iterator[_Listener]:
    """The link of a run that Slurm calls pending."""
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    files = submitted.run.cluster
    listener = _Listener(LinkKeys.from_json(files.read(files.link)))
    files.write(files.address, {"addresses": ["127.0.0.1"], "port": listener.server.port, "controller": "controller"})
    yield listener
    listener.close()


def test_every_request_has_its_name_on_the_link(submitted: Submitted, listener: _Listener) -> None:
    assert runs.stop(submitted.run) == ()
    assert runs.stop(submitted.run, kill=True) == ()
    for number in (2, 1, 15, KILL, NOTICE):
        runs.forward(submitted.run, number)
    runs.release(submitted.run)
    wait_until(lambda: len(listener.heard) == 8, _DEADLINE)
    kinds = ["stop", "kill", "interrupt", "hangup", "stop", "kill", "notice", "release"]
    assert listener.heard == [(kind, "") for kind in kinds]


def test_a_stranger_at_the_address_gets_nothing(submitted: Submitted, listener: _Listener, slurm: Path) -> None:
    files = submitted.run.cluster
    keys = LinkKeys.from_json(files.read(files.link))
    files.write(files.link, keys._replace(owner="00").to_json())
    (slurm / "silent").touch()
    with pytest.raises(
        CannotRun, match=r"which continues: the controller refuses: .*Unable to contact slurm controller"
    ):
        runs.forward(submitted.run, RELEASE)
    assert listener.heard == []


def test_a_stop_that_the_controller_may_have_counted_is_not_made_again_by_slurm(
    submitted: Submitted, listener: _Listener, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them would be a kill. A kill is asked for by all means."""
    monkeypatch.setattr(requests, "_LINK_SEC", 0.5)
    monkeypatch.setattr(listener.server._owners, "answer", list)
    with pytest.raises(CannotRun, match="received the request"):
        runs.stop(submitted.run)
    assert listener.heard == [("stop", "")]
    assert "scancel" not in (slurm / "calls").read_text()
    runs.stop(submitted.run, kill=True)
    assert "scancel" in (slurm / "calls").read_text()


def test_without_a_controller_nothing_is_released(submitted: Submitted, slurm: Path) -> None:
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    runs.release(submitted.run)
    assert "scancel" not in (slurm / "calls").read_text()


@pytest.fixture
def unlinked(listener: _Listener, slurm: Path, controller: Callable[[str], None]) -> Path:
    """The run of `listener` runs, and its link is down. The folder of Slurm's state."""
    listener.close()
    controller("exec sleep 60")
    fake_slurm.release(slurm)
    wait_until(lambda: fake_slurm.jobs(slurm)[0]["pid"], _DEADLINE)
    return slurm


def test_another_users_job_is_asked_for_by_its_owner(
    submitted: Submitted, unlinked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stops the job of another user without its link is told how that went."""
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    calls = unlinked / "calls"
    calls.unlink()
    (note,) = runs.stop(submitted.run)
    assert note.startswith("the controller of this run cannot be reached")
    assert note.endswith("the request was sent by scancel instead")
    assert f"--user={owner} " in calls.read_text()
    assert "scancel --batch --signal=TERM 1" in calls.read_text()


def test_a_job_that_slurm_does_not_list_is_not_taken_for_stopped(submitted: Submitted, unlinked: Path) -> None:
    """A site may hide the jobs of others."""
    (unlinked / "bin" / "squeue").write_text("#!/bin/sh\n")
    with pytest.raises(CannotRun, match=r"which continues: the controller .* does not list its job"):
        runs.stop(submitted.run)
