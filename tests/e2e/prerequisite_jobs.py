"""Job files with prerequisites, and what tasks logged of them."""

from __future__ import annotations

from pathlib import Path

from .conftest import Kedge

IMAGES = ("openpai/standard:python_3.6-pytorch_1.2.0-gpu", "siaimes/pytorch1.10.0:v1.0.0")
IMAGE = f"  - {{type: dockerimage, uri: '{IMAGES[0]}', name: docker_image_0}}\n"


def role(listed: str, command: str = "sleep 0s", more: str = "") -> str:
    return f"""
taskRoles:
  taskrole:
    instances: 1
    completion: {{minFailedInstances: 1}}
    taskRetryCount: 0
    prerequisites: [{listed}]
    dockerImage: docker_image_0
    resourcePerInstance: {{gpu: 0, cpu: 3, memoryMB: 29065}}
    commands: ['{command}']
    {more}
defaults: {{virtualCluster: default}}
"""


def head(name: str, prerequisites: str) -> str:
    return f"protocolVersion: 2\nname: {name}\ntype: job\njobRetryCount: 0\nprerequisites:\n{prerequisites}{IMAGE}"


def hooks(name: str, **events: str) -> str:
    callbacks = "".join(f"      - {{event: {event}, commands: [{lines}]}}\n" for event, lines in events.items())
    plugin = "com.microsoft.pai.runtimeplugin.cmd"
    return f"  - type: script\n    name: {name}\n    plugin: {plugin}\n    callbacks:\n{callbacks}"


def write(kedge: Kedge, text: str, name: str = "job.yaml") -> Path:
    file = kedge.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for image in IMAGES:
        text = text.replace(image, kedge.image)
    file.write_text(text)
    return file


def runtime_log(kedge: Kedge, task: str = "taskrole-0") -> list[str]:
    """The messages of a task's runtime.log, without time and program."""
    text = (kedge.only_run() / "attempt-0" / task / "runtime.log").read_text()
    return [line.split("] ", 2)[-1] for line in text.splitlines()]


def in_order(log: list[str], *wanted: str) -> None:
    """Each of `wanted` is a whole message, one after the other."""
    rest = iter(log)
    for message in wanted:
        assert message in rest, f"{message!r} is missing or too early in {log}"
