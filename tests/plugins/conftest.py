"""Jobs with plugins, and plugins in packages and on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.resolve.model import Inputs, ResolvedJob
from kedge.resolve.resolve import resolve
from kedge.spec.parse import parse

RUNTIME_PLUGINS = "com.microsoft.pai.runtimeplugin"


def document(*items: dict[str, Any], plugins: list[dict[str, Any]] | None = None, **keys: Any) -> str:
    """A job file with one role that requires the items, and with runtime plugins."""
    image = {"name": "image", "type": "dockerimage", "uri": "busybox"}
    role = {
        "prerequisites": [item["name"] for item in items],
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
        "commands": ["true"],
    }
    head = {"protocolVersion": 2, "name": "j", "type": "job"}
    body = {"prerequisites": [image, *({"type": "script"} | item for item in items)], "taskRoles": {"w": role}}
    extras = {"extras": {RUNTIME_PLUGINS: plugins}} if plugins else {}
    return yaml.safe_dump({**head, **body, **extras, **keys}, sort_keys=False)


def resolved(*items: dict[str, Any], plugins: list[dict[str, Any]] | None = None, **keys: Any) -> ResolvedJob:
    return resolve(parse(document(*items, plugins=plugins, **keys)), Inputs("me"))


Packages = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def with_packages(tmp_path: Path) -> Packages:
    """Plans a job in a process with packages of plugins: {package: {plugin: source of a class Plugin}}."""

    def plan(job: str, packages: dict[str, dict[str, str]]) -> subprocess.CompletedProcess[str]:
        site = tmp_path / "site"
        for package, plugins in packages.items():
            about = site / f"{package}-1.0.dist-info"
            about.mkdir(parents=True)
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            points = [f"{plugin} = {package}_{plugin}:Plugin" for plugin in plugins]
            (about / "entry_points.txt").write_text("\n".join(["[kedge.plugins]", *points]))
            for plugin, source in plugins.items():
                (site / f"{package}_{plugin}.py").write_text(source)
        (tmp_path / "job.yaml").write_text(job)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }
        argv = [sys.executable, "-m", "kedge", "plan", "--json", str(tmp_path / "job.yaml")]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)

    return plan


def steps(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The steps in the printed plan."""
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["roles"][0]["steps"]
    return found
