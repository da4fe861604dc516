"""Syntax checks of a job's scripts by `bash -n`, which reads a script without running it.

A syntax error is only a warning: an image may have a newer bash, and a script may exit before the bad line.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kedge.errors import Problem
from kedge.spec.lint.scripts import Script
from kedge.spec.model import JobFileSource

_MAX_SCRIPTS = 8  # each needs a process, and starting one takes up to 2 ms
_MAX_CHARACTERS = 1 << 20  # of a script
_PIPE_BYTES = 4096  # a pipe holds this many bytes before anybody reads from it
_TIMEOUT = 5.0  # seconds for all scripts; slower ones are not reported
_ERROR = rb"/dev/stdin: (?:line )?(\d+): (.*)"
_HERE_DOCUMENT = r"warning: here-document at line (\d+) delimited by end-of-file \(wanted `(.*)'\)"
_UNCLOSED_QUOTE = r"unexpected EOF while looking for matching `(.*)'"
_UNEXPECTED_END = "syntax error: unexpected end of file"


class Reading(NamedTuple):
    """A script that a shell is reading."""

    script: Script
    shell: str
    process: subprocess.Popen[bytes]


def start(scripts: Iterable[Script]) -> list[Reading]:
    """Start shells that read the scripts in the background. The caller must call `finish`."""
    found = list(islice((script for script in scripts if len(script.text) <= _MAX_CHARACTERS), _MAX_SCRIPTS))
    shell = (shutil.which("bash") or shutil.which("sh")) if found else None
    readings: list[Reading] = []
    for script in found if shell else ():
        assert shell
        try:
            readings.append(_started(script, shell))
        except OSError:  # for example too many processes: this check must not fail the command
            break
    return readings


def finish(readings: list[Reading], source: JobFileSource) -> list[Problem]:
    """Wait for all shells; a warning for each script with a syntax error."""
    deadline = time.monotonic() + _TIMEOUT
    return [problem for reading in readings for problem in _finished(reading, deadline, source)]


def _started(script: Script, shell: str) -> Reading:
    options = ["-O", "extglob"] if shell.endswith("bash") and "extglob" in script.text else []
    # An empty environment: bash would read BASH_ENV and import exported functions.
    process = subprocess.Popen(
        [shell, *options, "-n", "/dev/stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"LC_ALL": "C"},
    )
    data = _encoded(script)
    if len(data) <= _PIPE_BYTES and process.stdin:
        with suppress(BrokenPipeError), process.stdin as pipe:  # the shell may have exited already
            pipe.write(data)
        process.stdin = None
    return Reading(script, "bash" if shell.endswith("bash") else "sh", process)


def _encoded(script: Script) -> bytes:
    return script.text.encode("utf-8", "replace")


def _finished(reading: Reading, deadline: float, source: JobFileSource) -> Iterator[Problem]:
    with reading.process as process:
        try:
            data = _encoded(reading.script) if process.stdin else None
            _, stderr = process.communicate(data, max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            return
    found = [(int(number), message.decode(errors="replace")) for number, message in re.findall(_ERROR, stderr)]
    if process.returncode and found:
        number, message = found[0]
        yield reading.script.problem(number, f"{reading.shell} cannot read this script: {_explain(message)}", source)
    for here in filter(None, (re.match(_HERE_DOCUMENT, message) for _, message in found)):
        message = f"this here-document runs to the end of the script: no line consists of only {here[2]!r}"
        yield reading.script.problem(int(here[1]), message, source)


def _explain(message: str) -> str:
    if message.startswith(_UNEXPECTED_END):
        return "it ends while a construct is still open (if, do, case, {, …)"
    if opened := re.match(_UNCLOSED_QUOTE, message):
        return f"the closing {opened[1]!r} is missing"
    requoted = re.sub(r"`(.+?)'(?=$| )", lambda found: repr(found[1]), message)
    return requoted[:1].lower() + requoted[1:]
