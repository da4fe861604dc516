"""The submitter sends large code to the driver, with a real busybox and a fake of the API."""

from __future__ import annotations

import os

import pytest
from tests.engines.kubernetes.access.test_pod_files import BUSYBOX, executed

from kedge.engines.kubernetes import code_upload
from kedge.engines.kubernetes.objects import pod_paths
from kedge.errors import CannotRun

pytestmark = pytest.mark.skipif(BUSYBOX is None, reason="there is no busybox here")


@pytest.fixture
def driver(scene, monkeypatch, tmp_path):
    monkeypatch.setattr(code_upload, "_BUSYBOX", BUSYBOX)
    monkeypatch.setattr(pod_paths, "CODE_VOLUME", str(tmp_path / "code"))
    scene.server.commands = executed
    return scene


def test_code_is_there_as_a_whole(driver, tmp_path):
    driver.submit()
    data = os.urandom(2_500_000)
    code_upload.send(driver.api, driver.names, data, print)
    (folder,) = (tmp_path / "code").iterdir()
    assert folder.name == f"{driver.names.name}.code"
    assert [(each.name, each.read_bytes() == data) for each in folder.iterdir()] == [("code.tar.gz", True)]


def test_a_volume_that_cannot_be_written(driver, tmp_path):
    driver.submit()
    (tmp_path / "code").touch()
    with pytest.raises(CannotRun, match="the driver of the job cannot keep its code"):
        code_upload.send(driver.api, driver.names, b"code", print)


def test_a_driver_that_does_not_start(driver, monkeypatch):
    driver.server.nodes.automatic = False
    driver.submit()
    monkeypatch.setattr(code_upload, "_START_SEC", 0.7)
    monkeypatch.setattr(code_upload, "_QUIET_SEC", 0.0)
    said: list[str] = []
    with pytest.raises(CannotRun, match="the driver of the job, to which its code is sent, has not started"):
        code_upload.send(driver.api, driver.names, b"code", said.append)
    (text,) = said
    assert text.startswith("the code (0 MiB) is sent to the job's driver as soon as that runs: ")
