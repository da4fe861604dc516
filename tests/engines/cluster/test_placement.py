"""Where tasks of a cluster find their storages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kedge.engines.base import Task
from kedge.engines.cluster.placement import ClusterPlaces
from kedge.resolve.model import Mount, RemoteStorage, VolumeClaim
from kedge.runs.folder import Run

from .scene import plan

MOUNTS = (
    Mount("home", "/home/ada", folder="/lustre/ada"),
    Mount("data", "/data", claim=VolumeClaim("datasets")),
    Mount("data", "/again", claim=VolumeClaim("datasets")),
    Mount("nas", "/nas", remote=RemoteStorage("nfs", "nas", "/export")),
    Mount("unknown", "/unknown"),
)


@pytest.mark.parametrize("shared", [True, False])
def test_storages_are_links_or_mounted_where_the_job_wants_them(tmp_path: Path, shared: bool) -> None:
    run = Run(tmp_path / "run")
    places = ClusterPlaces(replace(plan("true"), mounts=MOUNTS), run, shared=shared)
    environment = places.write_spec(Task("w", 0), 0, 0, "host", {}, ()).environment
    found = {key: value for key, value in environment.items() if key.startswith("KEDGE_STORAGE_")}
    link = {"KEDGE_STORAGE_HOME": str(run.storages / "home")}
    mounted = {
        "KEDGE_STORAGE_HOME": "/home/ada", "KEDGE_STORAGE_DATA": "/data", "KEDGE_STORAGE_NAS": "/nas",
    }  # fmt: skip
    assert found == (link if shared else mounted)
