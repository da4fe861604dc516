"""Jobs for the tests of what is rendered for Kubernetes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kedge.jobs.preparation import prepare
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs

IMAGE = "registry.example.org/vision/torch:2.3"


def role(instances: int, cpu: float, memory_mb: int, gpu: int = 0) -> dict[str, Any]:
    return {"instances": instances, "resourcePerInstance": {"cpu": cpu, "memoryMB": memory_mb, "gpu": gpu}}


def planned(
    roles: Mapping[str, dict[str, Any]],
    extras: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    image: Mapping[str, Any] | None = None,
    workdir: str | None = None,
) -> Plan:
    """The plan of a job with these roles; `more` are other keys of the file, `image` more keys of the image."""
    usual = {"dockerImage": "image", "commands": ["python train.py"]}
    document = {
        "protocolVersion": 2, "name": "train", "type": "job", "extras": dict(extras or {}),
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": IMAGE, **(image or {})}],
        "taskRoles": {name: {**usual, **own} for name, own in roles.items()},
        **(more or {}),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(yaml.safe_dump(document))
        return prepare(str(path), Inputs(user="ada", workdir=workdir)).plan
