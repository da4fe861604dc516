"""A plugin that is an executable: `kedge-plugin-NAME` on PATH, with JSON on its stdin and stdout. It runs on the
submitter's machine, once for each task role that uses it."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kedge import programs
from kedge.contract import text_to_json
from kedge.plugins.base import PluginFailed, Steps
from kedge.resolve.plugin_answer import MAX_ANSWER_BYTES, InvalidAnswer, steps_in
from kedge.spec.message_text import bare

PREFIX = "kedge-plugin-"
TIMEOUT_SEC = 30.0


class Executable:
    """The plugin in one executable, which checks its parameters itself."""

    parameters = None

    def __init__(self, name: str, path: str, timeout_sec: float = TIMEOUT_SEC) -> None:
        self._name, self._path, self._timeout = name, path, timeout_sec

    def steps(self, values: Mapping[str, Any]) -> Steps:
        """Run the executable. ParameterError: it reports one; PluginFailed: it fails or gives an invalid answer."""
        request = json.dumps({"version": 1, "plugin": self._name, "parameters": _to_json(values)})
        try:
            return steps_in(self._run(request.encode()))
        except InvalidAnswer as error:
            raise self._failed(str(error)) from None

    def _run(self, request: bytes) -> bytes:
        try:
            code, answer, stderr = programs.run([self._path], self._timeout, request, max_output=MAX_ANSWER_BYTES)
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}") from error
        except programs.OutputTooLarge:
            raise self._failed(f"answered with more than {MAX_ANSWER_BYTES >> 20} MiB") from None
        except programs.TookTooLong as error:
            raise self._failed(f"did not answer within {self._timeout:g} seconds{_survivors(error)}") from error
        if code:
            last_line = stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise self._failed(_end(code) + (f": {bare(last_line)}" if last_line else ""))
        return answer

    def _failed(self, what: str) -> PluginFailed:
        return PluginFailed(f"the plugin {self._path} {what}")


def _survivors(error: programs.TookTooLong) -> str:
    pids = ", ".join(str(process.pid) for process in error.left)
    return f", and cannot be killed: it belongs to another user or hangs in the kernel (pid {pids})" if pids else ""


def _end(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def _to_json(value: Any) -> Any:
    """Parameters as JSON; a string with a secret becomes {"text": [...]}."""
    if isinstance(value, tuple):
        return {"text": text_to_json(value)}
    if isinstance(value, Mapping):
        return {key: _to_json(below) for key, below in value.items()}
    return [_to_json(below) for below in value] if isinstance(value, list) else value
