"""Plugins of a site or of an older runtime image: a folder `plugins/NAME` with a `desc.yaml` that names a program. The
program gets the configuration (YAML text), and the paths of the two scripts that it may write."""

from __future__ import annotations

import os

from kedge import user_files
from kedge.contract import TASK_STARTS, TASK_SUCCEEDS, Callback, SecretRef, Text
from kedge.dropin.program import InitContext
from kedge.dropin.task import documents
from kedge.dropin.task.documents import InvalidDocument
from kedge.dropin.task.secret_values import JobSecrets
from kedge.dropin.task.task_source import PluginUse
from kedge.light import json
from kedge.light.types import Any, Iterator, Mapping, NamedTuple, Sequence
from kedge.masking import MASKED, SHORTEST_LINE
from kedge.own_files import clear

DESCRIPTION = "desc.yaml"
_PROGRAM = "init-script"
_SCRIPTS = (("pre", TASK_STARTS), ("post", TASK_SUCCEEDS))
_LONGEST_ARGUMENT = 131_072 - 1  # bytes; execve(2) takes no longer one
_LARGEST = 4 << 20  # bytes of a script
_LONGEST_LINE = 1 << 20  # bytes of the output of a program


class FailedPlugin(Exception):
    """A plugin cannot do its work. The message is one line."""


class FolderPlugin(NamedTuple):
    """A plugin in a folder."""

    name: str
    program: str


def find(name: str, work: str) -> FolderPlugin | None:
    """The plugin with a name; None if there is no folder for it. FailedPlugin if its description is wrong."""
    folder = f"{work}/plugins/{name}"
    if "/" in name or name.startswith(".") or not os.path.isdir(folder):
        return None
    try:
        value = documents.read(f"{folder}/{DESCRIPTION}").value
    except OSError as error:
        raise FailedPlugin(f"{folder}/{DESCRIPTION} cannot be read: {error.strerror}") from None
    except InvalidDocument as error:
        raise FailedPlugin(str(error)) from None
    program = value.get(_PROGRAM) if isinstance(value, dict) else None
    if not isinstance(program, str) or not program:
        raise FailedPlugin(f"{folder}/{DESCRIPTION} does not name a program: {_PROGRAM} is missing")
    return FolderPlugin(name, os.path.join(folder, program))


def run(
    plugin: FolderPlugin, use: PluginUse, number: int, parameters: Mapping[str, Any], secrets: JobSecrets,
    context: InitContext,
) -> tuple[Callback, ...]:  # fmt: skip
    """Run the program, and return what its scripts do. FailedPlugin."""
    files = [f"{context.paths.runtime_d}/plugin_{kind}{number}.sh" for kind, _ in _SCRIPTS]
    for file in files:
        clear(file)
    code, last = _start([plugin.program, _configuration(use, parameters, secrets), *files], secrets, context)
    if code:
        raise FailedPlugin(f"failed to run {plugin.program}, error code is {code}" + (f": {last}" if last else ""))
    scripts = [(event, _script(file)) for file, (_, event) in zip(files, _SCRIPTS, strict=True)]
    found = tuple(Callback(event, _hidden(text, secrets.texts)) for event, text in scripts if text)
    for file in files:
        clear(file)  # the supervisor writes it, with the values of secrets
    return found


def _configuration(use: PluginUse, parameters: Mapping[str, Any], secrets: JobSecrets) -> str:
    """What OpenPAI's plugins get, as JSON, which is also YAML. They need the values of secrets."""
    value: dict[str, Any] = {
        "plugin": f"com.microsoft.pai.runtimeplugin.{use.plugin}",
        "parameters": _revealed(parameters, secrets.texts),
        "failurePolicy": use.policy,
        "user_extension": dict(secrets.extension) or None,
    }
    if secrets.token is not None:
        value["application_token"] = secrets.token
    text = json.dumps(value)
    if len(text) > _LONGEST_ARGUMENT:
        raise FailedPlugin(f"its configuration has {len(text)} bytes; an argument of a program has at most 131071")
    return text


def _start(words: Sequence[str], secrets: JobSecrets, context: InitContext) -> tuple[int, str]:
    """The exit code of a program, and the last line of its output. All lines go to the log, without secrets."""
    from kedge.dropin.child import run_program

    output = _MaskedOutput(context, set(_never_shown(secrets)))
    code = run_program(words, context.environment, output)  # type: ignore[arg-type]  # what it uses of a log
    return code, output.finish()


def _never_shown(secrets: JobSecrets) -> Iterator[str]:
    """What the log must not show: secrets of the job; of the user's own, such as private keys, what is long enough not
    to turn up by chance. A text of several lines appears line by line."""
    for text in secrets.texts.values():
        yield from [text] if text and "\n" not in text else _long_lines(text)
    yield from _long_lines(secrets.token or "")
    yield from _lines_in(secrets.extension)


def _lines_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _long_lines(value)
    elif isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _lines_in(below)


def _long_lines(text: str) -> list[str]:
    return [line for each in text.splitlines() if len(line := each.strip()) >= SHORTEST_LINE]


class _MaskedOutput:
    """Takes a program's output for the log, line by line; the rest of a very long line is dropped."""

    def __init__(self, context: InitContext, secrets: set[str]) -> None:
        self._log = context.log
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._rest = b""
        self._last = ""

    def write(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LONGEST_LINE]
        for line in lines:
            self._show(line[:_LONGEST_LINE])

    def error(self, message: str) -> None:
        self._last = message

    def finish(self) -> str:
        if self._rest:
            self._show(self._rest)
        return self._last

    def _show(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        for secret in self._secrets:
            text = text.replace(secret, MASKED)
        self._last = text.strip() or self._last
        self._log.info(text)


def _script(path: str) -> str:
    try:
        return user_files.read(path, _LARGEST).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise FailedPlugin(f"{path} cannot be used: {error.strerror}") from None


def _revealed(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, tuple):
        return "".join(part if isinstance(part, str) else secrets[part.key] for part in value)
    if isinstance(value, dict):
        return {key: _revealed(below, secrets) for key, below in value.items()}
    return [_revealed(below, secrets) for below in value] if isinstance(value, list) else value


def _hidden(text: str, secrets: Mapping[str, str]) -> Text:
    """The text with placeholders in place of the values of secrets, which must not be in the TaskSpec."""
    parts: list[str | SecretRef] = [text]
    for key, value in sorted(secrets.items(), key=lambda item: -len(item[1])):
        if value:
            reference = SecretRef(key, f"<% $secrets.{key} %>")
            parts = [found for part in parts for found in _split(part, value, reference)]
    return tuple(part for part in parts if part != "")


def _split(part: str | SecretRef, value: str, reference: SecretRef) -> Iterator[str | SecretRef]:
    if not isinstance(part, str):
        yield part
        return
    first, *others = part.split(value)
    yield first
    for other in others:
        yield reference
        yield other
