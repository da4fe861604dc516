"""Outputs on a site's volume and in running tasks, with a real busybox and a fake of the API."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from tests.engines.kubernetes.access.test_pod_files import BUSYBOX, executed

from kedge.engines.kubernetes.access import fetching, kept_outputs, pod_files, reader_pod, removal, submitted
from kedge.engines.kubernetes.access.file_source import FileSource
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.objects import pod_paths
from kedge.errors import CannotRun
from kedge.jobs import runs
from kedge.runs import copies, output_lists, outputs

pytestmark = pytest.mark.skipif(BUSYBOX is None, reason="there is no busybox here")
OUTPUT = "attempt-0/worker-0/output"


@pytest.fixture
def volume(scene, monkeypatch, tmp_path):
    """The folder of the run on its volume; the driver cannot be asked any more."""
    monkeypatch.setattr(pod_paths, "OUTPUTS_VOLUME", str(tmp_path / "volume"))
    monkeypatch.setattr(kept_outputs, "BUSYBOX", BUSYBOX)
    monkeypatch.setattr(removal, "BUSYBOX", BUSYBOX)
    folder = tmp_path / "volume" / f"{scene.names.name}.outputs"
    (folder / OUTPUT / "deep").mkdir(parents=True)
    (folder / "job-dir").mkdir()
    (folder / OUTPUT / "result").write_text("one")
    (folder / OUTPUT / "deep/big").write_bytes(os.urandom(300_000))
    (folder / OUTPUT / "link").symlink_to("/etc")
    (folder / "job-dir/shared name").write_text("all")
    scene.submit(outputs_volume="outputs")
    scene.api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "outputs"}, "spec": {}})
    (scene.run.path / "attempt-0/worker-0").mkdir(parents=True)
    scene.server.commands = executed
    return folder


def listed(run) -> set[tuple[str, str, int]]:
    return {(f.name, each.path, each.size) for f in outputs.folders(run) for each in outputs.files(run, f)}


def test_what_is_on_a_volume_is_listed_without_being_copied(scene, volume):
    copies.list_outputs(scene.run)
    assert copies.why_old(scene.run) == ""
    assert listed(scene.run) == {
        ("worker:0", "result", 3), ("worker:0", "deep/big", 300_000), ("worker:0", "link", 4),
        ("job", "shared name", 3),
    }  # fmt: skip
    assert not (scene.run.path / OUTPUT).exists()


def test_whoever_follows_a_run_to_its_end_gets_the_list(scene, volume, monkeypatch):
    scene.ends()
    assert output_lists.is_missing(scene.run)
    monkeypatch.setattr(fetching, "_fetch_copy", lambda *given: None)  # the fake has commands for the volume alone
    assert fetching._let_go(scene.run, SubmittedRun(scene.run)) is None
    assert ("job", "shared name", 3) in listed(scene.run)
    assert not output_lists.is_missing(scene.run)


def test_only_what_is_named_is_copied(scene, volume, tmp_path):
    assert copies.fetch_files(scene.run, OUTPUT, "deep/") == ""
    here = scene.run.path / OUTPUT
    assert (here / "deep/big").read_bytes() == (volume / OUTPUT / "deep/big").read_bytes()
    assert not (here / "result").exists()
    (volume / OUTPUT / "deep/big").rename(volume / OUTPUT / "deep/new")
    assert copies.fetch_files(scene.run, OUTPUT, "deep") == ""
    assert os.listdir(here / "deep") == ["new"]
    found = submitted.SubmittedRun(scene.run)
    kept_outputs.fetch_on_claim(found, found.job(), "")
    assert sorted(os.listdir(here)) == ["deep", "result"]  # links lead nowhere here
    assert (scene.run.path / "job-dir/shared name").read_text() == "all"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "deep/../../x"])
def test_a_path_that_leads_out_of_the_folder(scene, volume, path):
    assert "leads out" in copies.fetch_files(scene.run, OUTPUT, path)


def test_what_is_not_there_is_said(scene, volume):
    assert "No such file" in copies.fetch_files(scene.run, OUTPUT, "none")


def test_pods_that_read_are_root_only_where_tasks_may_be(scene, volume):
    found = submitted.SubmittedRun(scene.run)
    job = found.job()
    with reader_pod.started(found, job, found.anchor(), ("outputs",)) as name:
        (container,) = scene.server.find("Pod", name)["spec"]["containers"]
        assert container["securityContext"]["runAsUser"] == 0
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
    job["metadata"]["annotations"].clear()
    with reader_pod.started(found, job, found.anchor(), ("outputs",)) as name:
        assert scene.server.find("Pod", name)["spec"]["containers"][0]["securityContext"]["runAsUser"] == 65532
    assert scene.server.find("Pod", name) is None


def test_what_a_run_has_on_volumes_is_removed_with_it(scene, volume):
    other = volume.with_name("other-run.outputs")
    shutil.copytree(volume, other, symlinks=True)
    runs.engine_of(scene.run).forget(scene.run)
    assert not volume.exists()
    assert other.exists()
    assert scene.anchor is None


def test_a_running_task_is_read_in_its_pod(scene, monkeypatch, tmp_path):
    scene.submit()
    name = scene.names.pod(0, "worker", 0)
    spec = {"containers": [{"name": "app", "image": "a"}, {"name": "agent", "image": "b"}]}
    scene.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    (tmp_path / "output").mkdir()
    (tmp_path / "output/result").write_text("one")
    monkeypatch.setattr(pod_files, "BUSYBOX", BUSYBOX)
    monkeypatch.setitem(pod_files.FOLDERS, "output", str(tmp_path / "output"))
    with (scene.run.path / "events.jsonl").open("a") as log:
        for event in ("task-launched", "task-started"):
            facts = {"role": "worker", "task_index": 0, "attempt": 0, "task_attempt": 0}
            log.write(json.dumps({"time": "2026-01-01T00:00:00.000000Z", "event": event, **facts}) + "\n")
    (scene.run.path / "attempt-0/worker-0").mkdir(parents=True)
    scene.server.commands = executed
    found = submitted.SubmittedRun(scene.run)
    kept_outputs.list_running(found)
    assert listed(scene.run) == {("worker:0", "result", 3)}
    assert kept_outputs.fetch_running(found, OUTPUT, "result")
    assert (scene.run.path / OUTPUT / "result").read_text() == "one"
    assert not kept_outputs.fetch_running(found, "attempt-0/worker-1/output", "")


def test_a_program_that_fails_says_why(scene, volume):
    found = submitted.SubmittedRun(scene.run)
    pod = found.driver()["metadata"]["name"]
    source = FileSource(found.api, pod, "driver", str(BUSYBOX), "/nowhere", "the claim x")
    with pytest.raises(CannotRun, match=r"the claim x cannot be read: .*nowhere"):
        source.files()
    with pytest.raises(CannotRun, match=r"the claim x cannot be read: .*nowhere"):
        source.fetch("", "/tmp/nothing")
