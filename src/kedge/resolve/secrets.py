"""The values of a job's secrets, from the file and from the submitter, in the forms that tasks need."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kedge.errors import InputError
from kedge.masking import SHORTEST
from kedge.resolve.model import Inputs, Secrets
from kedge.spec.message_text import show_path
from kedge.spec.model import Job, Path

LARGEST = 1 << 20  # bytes of a file; what Kubernetes takes for a secret, too
_PIPE_SEC = 10.0  # time for a pipe's writer to finish


def read_given(name: str, source: str) -> str:
    """The value of a secret that the submitter gives as text, `@FILE` or `env:VARIABLE`. InputError shows only the
    secret's name, because a value may look like a file or a variable."""
    if source.startswith("@"):
        try:
            text = _read(source[1:]).decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"--secret {name}: the file after '@' is not UTF-8 text; encode it as base64") from None
        except (OSError, ValueError) as error:
            why = (isinstance(error, OSError) and error.strerror) or str(error)
            raise InputError(f"--secret {name}: the file after '@' cannot be read: {why}") from None
        return text.removesuffix("\n")
    if source.startswith("env:"):
        try:
            return os.environ[source[4:]]
        except (KeyError, UnicodeEncodeError):
            raise InputError(f"--secret {name}: the variable after 'env:' is not set") from None
    return source


def _read(path: str) -> bytes:
    """The content of a regular file or a pipe, which may come from the shell's `<(command)`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise ValueError("it is a directory" if stat.S_ISDIR(mode) else "it is a device, not a file")
        return _read_all(descriptor, stat.S_ISFIFO(mode))
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, is_pipe: bool) -> bytes:
    data, deadline = b"", time.monotonic() + _PIPE_SEC
    while piece := _piece(descriptor, LARGEST + 1 - len(data), deadline):
        data += piece
        if len(data) > LARGEST:
            raise ValueError(f"it holds more than {LARGEST >> 20} MiB, which is the most for a secret")
    if is_pipe and not data:
        raise ValueError("it is a pipe to which nobody writes")
    return data


def _piece(descriptor: int, size: int, deadline: float) -> bytes:
    """What is there, or comes before the deadline; empty at the end."""
    while True:
        try:
            return os.read(descriptor, size)
        except BlockingIOError:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                message = f"it is a pipe whose writer has not finished within {_PIPE_SEC:.0f} seconds"
                raise ValueError(message) from None


def collect(job: Job, inputs: Inputs, referred: Mapping[str, str]) -> Secrets:
    """All secrets; a given one replaces the file's secret of the same name. `referred` has texts by SecretRef key.
    InputError: a secret cannot be written into a script."""
    document = {**(job.secrets if isinstance(job.secrets, Mapping) else {}), **inputs.secrets}
    texts = {show_path(path): text for path, text in _scalars(document, (), job)}
    for name, text in texts.items():
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"the secret {name} is not UTF-8 text without NUL; encode it as base64")
    return Secrets(document, {**texts, **referred})


def unmasked(secrets: Secrets) -> tuple[str, ...]:
    """A warning about the secrets whose values are too short to be masked, if there are any."""
    short = sorted(key for key, text in secrets.texts.items() if 0 < len(text.encode()) < SHORTEST)
    if not short:
        return ()
    names = ", ".join(short)
    return (f"not masked in logs, because their values have fewer than {SHORTEST} characters: secrets {names}",)


def _scalars(value: Any, path: Path, job: Job) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _scalars(below, (*path, key), job)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _scalars(below, (*path, index), job)
    elif isinstance(value, str):
        yield path, value
    elif value is not None:
        mark = job.source.marks.get(("secrets", *path))
        yield path, (mark.scalar if mark and mark.scalar is not None else str(value))
