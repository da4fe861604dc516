"""A run is found on machines that have not submitted it."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.engines.kubernetes.access.conftest import RUN_ID

from kedge.cli.main import cli
from kedge.engines.kubernetes.objects import labels
from kedge.errors import InputError
from kedge.jobs import runs
from kedge.runs import status
from kedge.states import State


@pytest.fixture
def elsewhere(scene, monkeypatch, tmp_path):
    """The run was submitted; this is another machine, whose settings name the cluster."""
    scene.submit()
    shutil.rmtree(scene.run.path)
    settings = tmp_path / "config.toml"
    settings.write_text(f'engine = "kubernetes"\n[engines.kubernetes]\nkubeconfig = "{scene.server.kubeconfig}"\n')
    monkeypatch.setenv("KEDGE_CONFIG_FILE", str(settings))
    return scene


def test_a_run_is_found_by_its_name(elsewhere):
    original = {"parameters": {"lr": 1}, "engine": "local", "secrets_dir": "/there", "source": "/home/me/job.yaml"}
    described = {"id": RUN_ID, "name": "x", "user": "x", "created": "2026-01-01T00:00:00.000000Z", "version": "1"}
    (elsewhere.there / "run.json").write_text(json.dumps(described | original))
    elsewhere.happens("job-started")
    found = runs.find("train")
    assert found.id == RUN_ID
    info = found.info()
    # What commands on this machine act on is not what the cluster says.
    assert (info.engine, info.name, info.user, info.secrets_dir) == ("kubernetes", "train", "me", None)
    assert (info.parameters, info.source) == ({"lr": 1}, "/home/me/job.yaml")
    assert status.read(found).state not in (State.LOST, State.DAMAGED)
    runs.stop(found)
    assert json.loads(elsewhere.anchor["metadata"]["annotations"][labels.REQUESTS])[0]["kind"] == "stop"


def test_ps_lists_them_all(elsewhere, capsys):
    cli(["ps"], standalone_mode=False)
    assert RUN_ID in capsys.readouterr().out
    assert runs.run_ids() == [RUN_ID]


def test_ps_of_another_engine(elsewhere, monkeypatch, tmp_path, capsys):
    text = (tmp_path / "config.toml").read_text()
    (tmp_path / "config.toml").write_text(text.replace('engine = "kubernetes"\n', "", 1))
    cli(["ps"], standalone_mode=False)
    assert RUN_ID not in capsys.readouterr().out
    cli(["ps", "--engine", "kubernetes"], standalone_mode=False)
    assert RUN_ID in capsys.readouterr().out


def test_an_unknown_run_stays_unknown(elsewhere):
    with pytest.raises(InputError, match="no-such"):
        runs.find("no-such")


def test_without_the_server(elsewhere, capsys):
    elsewhere.server.stop()
    with pytest.raises(InputError, match="runs of other machines cannot be listed: the Kubernetes API server"):
        runs.find("train")
    cli(["ps"], standalone_mode=False)
    assert "runs of other machines cannot be listed" in capsys.readouterr().err


@pytest.mark.parametrize("run_id", ["../x", "", ".hidden", "other-abc234", "a" * 200, "x/y"])
def test_an_anchor_that_is_not_what_it_says(elsewhere, run_id):
    elsewhere.api.patch("ConfigMap", RUN_ID, {"metadata": {"annotations": {labels.RUN_ID: run_id}}})
    assert runs.find_in_cluster() == ""
    assert not list(elsewhere.jobs.glob("*"))


def test_a_run_that_is_here_is_left_alone(elsewhere):
    found = runs.find("train")
    facts = found.run_file.read_text()
    assert runs.find_in_cluster() == ""
    assert found.run_file.read_text() == facts
