"""The shell scripts of a task: which shell runs them, with which options, in which folder."""

from __future__ import annotations

import os

from kedge import contract
from kedge.contract import SecretRef, TaskSpec, Text
from kedge.light.types import Callable, Iterator, Mapping, NamedTuple
from kedge.runtime.files import link, write_file
from kedge.runtime.setup import parameters
from kedge.runtime.setup.environment import DEFAULT_PATH


class Shell(NamedTuple):
    """The shell that runs the task's scripts, and whether it has the option pipefail."""

    path: str
    pipefail: bool


def find_shell(path: str | None, directory: str, has_pipefail: Callable[[str], bool]) -> Shell | None:
    """bash if it is on the task's PATH, else sh (`has_pipefail` is called for it), else None."""
    for name in ("bash", "sh"):
        for folder in (path or DEFAULT_PATH).split(":"):
            file = os.path.join(directory, folder, name)
            if os.path.isfile(file) and os.access(file, os.X_OK):
                return Shell(file, name == "bash" or has_pipefail(file))
    return None


def command_options(shell: Shell) -> str:
    """The first contract.OPTION_LINES lines of user.sh."""
    options = ("errexit", "nounset", "pipefail") if shell.pipefail else ("errexit", "nounset")
    return f"set{''.join(f' -o {option}' for option in options)}\n"


class ScriptFolder:
    """Writes scripts to runtime.d with mode 0700. A script with a secret is stored below the secrets' folder, which
    tasks may share, in a subfolder for this attempt; runtime.d gets a symlink to it."""

    def __init__(self, spec: TaskSpec, secrets: Mapping[str, str]) -> None:
        self._folder = spec.runtime_d
        self._hidden = f"{spec.secrets_dir}/{spec.uid}" if spec.secrets_dir else None
        self._secrets = secrets

    def write(self, name: str, text: Text) -> str:
        """Write one script and return the path to run it by."""
        content = contract.render_text(text, self._secrets)
        if not content.endswith("\n"):
            content += "\n"
        path = target = f"{self._folder}/{name}"
        if self._hidden and any(isinstance(part, SecretRef) for part in text):
            os.makedirs(self._hidden, 0o700, exist_ok=True)
            target = f"{self._hidden}/{name}"
            link(target, path)
        write_file(target, content.encode("utf-8", "surrogateescape"), 0o700)
        return path


def secret_references(spec: TaskSpec) -> Iterator[SecretRef]:
    """Every reference to a secret in the task's scripts, actions and environment."""
    callbacks = [callback for step in spec.steps for callback in step.callbacks]
    for text in (spec.command, *spec.env.values(), *(callback.script for callback in callbacks)):
        yield from (part for part in text if isinstance(part, SecretRef))
    for callback in callbacks:
        if callback.action:
            yield from parameters.references(callback.action)
