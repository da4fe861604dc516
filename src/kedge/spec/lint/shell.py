"""What a shell says about the scripts of a job: `bash -n` reads a script and runs nothing of it.

What it refuses is a warning: the bash of an image may be a newer one, and a script may end before the line.
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

_MOST = 8  # scripts; each is a process, and starting one takes up to 2 ms
_LONGEST = 1 << 20  # characters of a script
_FITS = 4096  # bytes; a pipe takes them although nobody reads yet
_PATIENCE = 5.0  # seconds for all of them; what takes longer is not told
_ERROR = rb"/dev/stdin: (?:line )?(\d+): (.*)"
_HERE = r"warning: here-document at line (\d+) delimited by end-of-file \(wanted `(.*)'\)"
_OPENED = r"unexpected EOF while looking for matching `(.*)'"
_END = "syntax error: unexpected end of file"


class Reading(NamedTuple):
    """A script that a shell reads just now."""

    script: Script
    shell: str
    process: subprocess.Popen[bytes]


def start(scripts: Iterable[Script]) -> list[Reading]:
    """Let a shell read the scripts, while the caller does something else; `finish` must follow."""
    found = list(islice((script for script in scripts if len(script.text) <= _LONGEST), _MOST))
    shell = (shutil.which("bash") or shutil.which("sh")) if found else None
    readings: list[Reading] = []
    for script in found if shell else ():
        assert shell
        try:
            readings.append(_started(script, shell))
        except OSError:  # too many processes, or the like: the check is no reason to fail
            break
    return readings


def finish(readings: list[Reading], source: JobFileSource) -> list[Problem]:
    """Wait until all is read; a warning for each script that is refused."""
    deadline = time.monotonic() + _PATIENCE
    return [problem for reading in readings for problem in _finished(reading, deadline, source)]


def _started(script: Script, shell: str) -> Reading:
    options = ["-O", "extglob"] if shell.endswith("bash") and "extglob" in script.text else []
    # Nothing of the environment: BASH_ENV would be read, and exported functions.
    process = subprocess.Popen(
        [shell, *options, "-n", "/dev/stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"LC_ALL": "C"},
    )
    data = _encoded(script)
    if len(data) <= _FITS and process.stdin:
        with suppress(BrokenPipeError), process.stdin as pipe:  # it may have ended already
            pipe.write(data)
        process.stdin = None
    return Reading(script, "bash" if shell.endswith("bash") else "sh", process)


def _encoded(script: Script) -> bytes:
    return script.text.encode("utf-8", "replace")


def _finished(reading: Reading, deadline: float, source: JobFileSource) -> Iterator[Problem]:
    with reading.process as process:
        try:
            data = _encoded(reading.script) if process.stdin else None
            _, said = process.communicate(data, max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            return
    found = [(int(number), message.decode(errors="replace")) for number, message in re.findall(_ERROR, said)]
    if process.returncode and found:
        number, message = found[0]
        yield reading.script.problem(number, f"{reading.shell} cannot read this script: {_in_words(message)}", source)
    for here in filter(None, (re.match(_HERE, message) for _, message in found)):
        message = f"the here-document that starts here goes on to the end of the script: no line is only {here[2]!r}"
        yield reading.script.problem(int(here[1]), message, source)


def _in_words(message: str) -> str:
    if message.startswith(_END):
        return "it ends while something is still open (if, do, case, {, …)"
    if opened := re.match(_OPENED, message):
        return f"no {opened[1]!r} closes what starts here"
    said = re.sub(r"`(.+?)'(?=$| )", lambda found: repr(found[1]), message)
    return said[:1].lower() + said[1:]
