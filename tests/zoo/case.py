"""A case: a program that really fails, run as a job, with the diagnosis that kedge must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

from .needs import Need
from .places import Place, anywhere

SUCCESS = "none_success"


@dataclass(frozen=True)
class Case:
    """`program` is the text of train.py, with `files` beside it; every role runs `command` there unless `roles` has
    another one.

    `cause` is one of docs/causes.md, and `task` is the root task. `frame`, if given, is the user's line that failed,
    such as `train.py:3 in step`. `place` provides the surroundings that the program needs. `needs` lists requirements.
    """

    name: str
    cause: str
    program: str = ""
    command: str = "python train.py"
    frame: str | None = None
    task: str = "worker:0"
    files: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"worker": {}})
    place: Callable[[Path], AbstractContextManager[Place]] = anywhere
    needs: tuple[Need, ...] = ()

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def expected(self) -> tuple[str | None, str, str | None]:
        """The root task, cause and frame; no task if nothing failed."""
        return None if self.cause == SUCCESS else self.task, self.cause, self.frame

    def write(self, folder: Path) -> Path:
        """Write the job and its code below `folder`; return the job file."""
        code = folder / "code"
        code.mkdir()
        for name, text in {"train.py": self.program, **self.files}.items():
            (code / name).write_text(dedent(text).lstrip("\n"))
        job = folder / "job.yaml"
        job.write_text(yaml.safe_dump(self._document(), sort_keys=False))
        return job

    def _document(self) -> dict[str, Any]:
        role = {
            "dockerImage": "image",
            "script": "code",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 0, "ports": {"main": 1}},
            "commands": [dedent(self.command).strip("\n")],
        }
        return {
            "protocolVersion": 2,
            "name": "zoo",
            "type": "job",
            "prerequisites": [
                {"name": "image", "type": "dockerimage", "uri": "python:3.12"},
                {"name": "code", "type": "script", "uri": "./code"},
            ],
            "taskRoles": {name: {**role, **own} for name, own in self.roles.items()},
            "extras": {"kedge": {"retry": {"maxTransient": 0}}},  # one attempt says it all
        }
