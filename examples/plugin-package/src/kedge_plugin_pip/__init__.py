"""`plugin: pip`: installs Python packages before the task's command starts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from kedge.contract import TASK_STARTS
from kedge.plugins.base import Callback, File, Parameter, ParameterError, Steps, Wrong
from kedge.plugins.parameters import boolean, list_of, string, text

CONFIG = ".kedge-pip/pip.conf"


class Pip:
    """Installs `packages` from `index`, whose address may contain a password."""

    parameters = (
        Parameter("packages", list_of(string), "packages to install, in pip's syntax: name==1.2", required=True),
        Parameter("index", text, "address of the package index"),
        Parameter("upgrade", boolean, "whether newer versions replace those in the image", default=False),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        for number, package in enumerate(values["packages"]):
            if package.startswith("-"):
                raise ParameterError(Wrong(f"{package!r} is an option, not a package", ("packages", number)))
        # In a file that only the task's user can read, because a command line would expose a password.
        index = ("index-url = ", *values["index"], "\n") if values["index"] else ()
        config = File(CONFIG, ("[global]\n", *index))
        words = ["python3", "-m", "pip", "install", *(["--upgrade"] if values["upgrade"] else ()), *values["packages"]]
        install = f'export PIP_CONFIG_FILE="$PWD/{CONFIG}"\n' + (shlex.join(words) if values["packages"] else "")
        return Steps(
            callbacks=(Callback(TASK_STARTS, (install, "\n")),),
            files=(config,),
            environment={"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
