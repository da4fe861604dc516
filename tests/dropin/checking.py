"""Runs the image checker in this process, on a job configuration that is written for the test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import yaml

from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import init_paths
from kedge.dropin.program import InitContext
from kedge.dropin.registry import image_checker


class Checked(NamedTuple):
    """The exit code, and the log without times and places."""

    code: int
    log: str

    @property
    def last(self) -> str:
        return self.log.splitlines()[-1]


class Checking:
    """A pod's folders. `environment` is the one of the init container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.config = folder / "work", folder / "config"
        self.job_config = self.work / "runtime.d" / "job_config.yaml"
        self.secrets = self.work / "secrets" / "secrets.yaml"
        for file in (self.job_config, self.secrets):
            file.parent.mkdir(parents=True)
        self.config.mkdir()
        self.environment = {
            "PAI_WORK_DIR": str(self.work), "PAI_CONFIG_DIR": str(self.config), "FC_TASKROLE_NAME": "taskrole1",
        }  # fmt: skip

    def job(self, uri: str, auth: object = None) -> None:
        """Write the configuration of a job whose second role uses an image."""
        item = {"name": "image", "type": "dockerimage", "uri": uri} | ({"auth": auth} if auth else {})
        other = {"name": "image", "type": "script", "uri": "not this"}
        roles = {"taskrole": {"dockerImage": "missing"}, "taskrole_1": {"dockerImage": "image"}}
        self.job_config.write_text(yaml.safe_dump({"prerequisites": [other, item], "taskRoles": roles}))

    def run(self, *arguments: str) -> Checked:
        """Run the checker on what the folders hold."""
        log = self.folder / "init.log"
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            context = InitContext(init_paths(self.environment), self.environment, InitLog([fd]))
            code = image_checker.run(arguments, context)
        finally:
            os.close(fd)
        return Checked(code, "".join(line.split(" - ", 1)[-1] + "\n" for line in log.read_text().splitlines()))

    def check(self, uri: str, auth: object = None) -> Checked:
        """Check one image."""
        self.job(uri, auth)
        return self.run()
