"""`kedge stop --kill` where the driver takes up the request, and where it never does."""

from __future__ import annotations

import json
import threading

import pytest
from tests.engines.kubernetes.access.conftest import RUN_ID

from kedge.engines.kubernetes.access import requests, unheard_kill
from kedge.engines.kubernetes.in_driver import log_facts
from kedge.engines.kubernetes.in_driver.log_pieces import LogPiece, LogPieces
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.errors import CannotRun
from kedge.runs import events, status
from kedge.runs.job_events import JobEvent
from kedge.states import FINAL, State
from kedge.testing.wait import wait_until

LOG = "attempt-0/worker-0/user-all"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(unheard_kill, "ACT_SEC", 0.5)


def owner(scene) -> ObjectOwner:
    return ObjectOwner(RUN_ID, scene.anchor["metadata"]["uid"], RUN_ID, "me", "train")


def runs_a_task(scene) -> None:
    scene.submit()
    scene.happens("job-started")
    folder = scene.there / LOG
    folder.mkdir(parents=True)
    (folder / "current").write_text("all that it has printed\n")
    metadata = labels.metadata(owner(scene), f"{RUN_ID}-a0-worker-0", labels.TASK)
    container = {"name": "app", "image": "i:1"}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 120}
    scene.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def pods_left(scene):
    found = [each for each in scene.server.listed("Pod") if each["metadata"]["labels"][labels.COMPONENT] == labels.TASK]
    return [each for each in found if each["metadata"].get("deletionGracePeriodSeconds") != 1]


def test_a_driver_that_never_acts_is_ended_with_all_that_the_cluster_has(scene):
    runs_a_task(scene)
    (note,) = requests.stop(scene.run, True)
    assert "has not acted within 0.5 s" in note
    assert "missing" not in note
    assert scene.anchor is None
    assert pods_left(scene) == []
    now = status.read(scene.run)
    assert (now.state, now.text) == (State.STOPPED, "stopped by a stop request")
    asked = [each for each in events.read(scene.run.events) if each["event"] == JobEvent.STOP_REQUESTED]
    assert [each["kill"] for each in asked] == [True]
    assert (scene.run.path / LOG / "current").read_text() == "all that it has printed\n"


def test_what_cannot_be_fetched_of_it_is_said(scene):
    runs_a_task(scene)
    scene.server.rules.deny("create", "pods/exec")
    (note,) = requests.stop(scene.run, True)
    assert "the end of its logs may be missing" in note
    assert scene.anchor is None
    assert status.read(scene.run).state == State.STOPPED


def test_a_driver_that_takes_the_request_up_goes_on(scene, monkeypatch):
    monkeypatch.setattr(unheard_kill, "ACT_SEC", 60.0)
    runs_a_task(scene)
    pieces = LogPieces(scene.api, RUN_ID, lambda number: labels.metadata(owner(scene), f"{RUN_ID}-log-0", labels.LOG))

    def act() -> None:
        asked = lambda: (scene.anchor["metadata"].get("annotations") or {}).get(labels.REQUESTS)  # noqa: E731
        wait_until(lambda: bool(asked()), 120)
        (request,) = json.loads(asked())
        pieces.write(LogPiece(0, log_facts.request_line(request["id"])))

    driver = threading.Thread(target=act)
    driver.start()
    assert requests.stop(scene.run, True) == ()
    driver.join()
    assert scene.anchor is not None
    assert len(pods_left(scene)) == 1
    assert status.read(scene.run).state not in FINAL


def test_who_may_not_delete_is_told(scene):
    runs_a_task(scene)
    scene.server.rules.deny("delete", "configmaps")
    with pytest.raises(CannotRun, match="delete"):
        requests.stop(scene.run, True)
