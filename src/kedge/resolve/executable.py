"""A plugin that is an executable: `kedge-plugin-NAME` on PATH, JSON on its stdin and stdout. It runs where the job is
submitted, once for each task role that uses it."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kedge import programs
from kedge.contract import Text, text_from_json, text_to_json
from kedge.plugins.base import Action, Callback, File, ParameterError, PluginFailed, Steps, Wrong, lines

PREFIX = "kedge-plugin-"
TIMEOUT_SEC = 30.0
_KEYS = frozenset({"callbacks", "files", "environment", "notices", "errors"})


class Executable:
    """The plugin behind one executable. It checks its parameters itself."""

    parameters = None

    def __init__(self, name: str, path: str, timeout_sec: float = TIMEOUT_SEC) -> None:
        self._name, self._path, self._timeout = name, path, timeout_sec

    def steps(self, values: Mapping[str, Any]) -> Steps:
        """Ask the executable. ParameterError: it says so; PluginFailed: it did not answer as it should."""
        question = json.dumps({"version": 1, "plugin": self._name, "parameters": _to_json(values)})
        answer = self._parsed(self._run(question.encode()))
        try:
            if wrong := answer.get("errors"):
                raise ParameterError(*(_wrong(**item) for item in wrong))
            return _steps(answer)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise self._failed(f"answered what is no result of a plugin ({_why(error)})") from error

    def _run(self, question: bytes) -> bytes:
        try:
            code, answer, said = programs.run([self._path], self._timeout, question)
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}") from error
        except programs.TookTooLong as error:
            raise self._failed(f"did not answer within {self._timeout:g} seconds{_survivors(error)}") from error
        if code:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise self._failed(_end(code) + (f": {last}" if last else ""))
        return answer

    def _parsed(self, answer: bytes) -> dict[str, Any]:
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise self._failed(
                f"answered no JSON ({error})" if answer.strip() else "ended without an answer"
            ) from error
        if not isinstance(value, dict):
            raise self._failed("answered JSON that is no object")
        if unknown := sorted(value.keys() - _KEYS):
            raise self._failed(f"answered with unknown keys: {', '.join(unknown)}")
        return value

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


def _text(value: Any) -> Text:
    if isinstance(value, str):
        return (value,)
    return text_from_json(value["text"])


def _steps(answer: Mapping[str, Any]) -> Steps:
    return Steps(
        callbacks=tuple(_callback(**item) for item in answer.get("callbacks", ())),
        files=tuple(_file(**item) for item in answer.get("files", ())),
        environment=dict(answer.get("environment", {})),
        notices=tuple(str(notice) for notice in answer.get("notices", ())),
    )


def _wrong(message: str, path: list[str | int] | None = None) -> Wrong:
    return Wrong(str(message), tuple(path or ()))


def _callback(event: str, commands: list[Any] | None = None, action: dict[str, Any] | None = None) -> Callback:
    return Callback(event, lines(_text(line) for line in commands or ()), Action(**action) if action else None)


def _file(path: str, content: Any, executable: bool = False) -> File:
    return File(path, _text(content), executable)


def _why(error: Exception) -> str:
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
