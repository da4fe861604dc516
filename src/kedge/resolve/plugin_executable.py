"""A plugin that is an executable: `kedge-plugin-NAME` on PATH, JSON on its stdin and stdout. It runs where the job is
submitted, once for each task role that uses it."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kedge import programs
from kedge.contract import text_to_json
from kedge.plugins.base import PluginFailed, Steps
from kedge.resolve.plugin_answer import LARGEST, NoAnswer, steps_in
from kedge.spec.message_text import bare

PREFIX = "kedge-plugin-"
TIMEOUT_SEC = 30.0


class Executable:
    """The plugin behind one executable. It checks its parameters itself."""

    parameters = None

    def __init__(self, name: str, path: str, timeout_sec: float = TIMEOUT_SEC) -> None:
        self._name, self._path, self._timeout = name, path, timeout_sec

    def steps(self, values: Mapping[str, Any]) -> Steps:
        """Ask the executable. ParameterError: it says so; PluginFailed: it did not answer as it should."""
        question = json.dumps({"version": 1, "plugin": self._name, "parameters": _to_json(values)})
        try:
            return steps_in(self._run(question.encode()))
        except NoAnswer as error:
            raise self._failed(str(error)) from None

    def _run(self, question: bytes) -> bytes:
        try:
            code, answer, said = programs.run([self._path], self._timeout, question, max_output=LARGEST)
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}") from error
        except programs.OutputTooLarge:
            raise self._failed(f"answered more than {LARGEST >> 20} MiB") from None
        except programs.TookTooLong as error:
            raise self._failed(f"did not answer within {self._timeout:g} seconds{_survivors(error)}") from error
        if code:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise self._failed(_end(code) + (f": {bare(last)}" if last else ""))
        return answer

    def _failed(self, what: str) -> PluginFailed:
        return PluginFailed(f"the plugin {self._path} {what}")


def _survivors(error: programs.TookTooLong) -> str:
    pids = ", ".join(str(process.pid) for process in error.left)
    return f", and cannot be ended: another user's, or hung in the kernel (pid {pids})" if pids else ""


def _end(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _to_json(value: Any) -> Any:
    """Parameters as JSON; a text that holds a secret is {"text": [...]}."""
    if isinstance(value, tuple):
        return {"text": text_to_json(value)}
    if isinstance(value, Mapping):
        return {key: _to_json(below) for key, below in value.items()}
    return [_to_json(below) for below in value] if isinstance(value, list) else value
