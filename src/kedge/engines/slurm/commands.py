"""Runs Slurm's commands with a deadline. Errors quote what the command printed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kedge.errors import CannotRun
from kedge.late_patterns import late_pattern

ANSWER_SEC = 20.0  # for a question
SUBMIT_SEC = 120.0  # sbatch waits that long for a busy slurmctld
_MOST_MESSAGES = 20  # lines
_FOREIGN = ("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_", "SACCT_", "SALLOC_")  # of an allocation, or habits
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})
_ATTEMPT = late_pattern(r"attempt number -?\d+")  # one of many lines; the last one says what is wrong
_SILENT = (
    "unable to contact slurm controller",
    "unable to contact slurm controller daemon",
    "socket timed out",
    "connection refused",
    "connect failure",
    "zero bytes were transmitted or received",
    "slurm controller in standby mode",
    "slurm backup controller in standby mode",
)


class SlurmError(CannotRun):
    """A command of Slurm has failed; the text quotes what it printed."""


class SlurmSilent(SlurmError):
    """Slurm did not answer. That says nothing about any job."""


class SlurmSite(NamedTuple):
    """Where Slurm's commands and its configuration are; None: on PATH, and at the usual place."""

    commands: str | None = None
    conf: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SlurmSite:
        """From the options of the engine, or from what was kept of them. Ignores others."""
        return cls(options.get("commands"), options.get("conf"))

    def program(self, name: str) -> str:
        """The path of one of Slurm's commands, or its name."""
        return os.path.join(self.commands, name) if self.commands else name

    def job_environment(self) -> dict[str, str]:
        """The environment for Slurm's commands that the user's programs inherit: that of this process, without what
        changes the meaning of commands."""
        kept = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_FOREIGN)}
        return kept | ({"SLURM_CONF": self.conf} if self.conf else {})

    def environment(self) -> dict[str, str]:
        """The same for commands whose output is read."""
        return self.job_environment() | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}


def run(
    site: SlurmSite, *argv: str, patience_sec: float = ANSWER_SEC, text: str | None = None,
    say: Callable[[str], object] = lambda line: None, environment: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Run a command to its end and return what it prints; `text` is its input. `say` gets the lines of its messages if
    it succeeds all the same, such as those of the site's plugins. `environment` is for a command that passes it on.
    SlurmError; SlurmSilent."""
    _check_conf(site)
    try:
        done = subprocess.run(
            [site.program(argv[0]), *argv[1:]], input=text or "", capture_output=True, text=True, errors="replace",
            env=environment or site.environment(), timeout=patience_sec, check=False,
            start_new_session=True,  # Ctrl-C in the terminal reaches kedge alone
        )  # fmt: skip
    except FileNotFoundError:
        where = site.commands or "on PATH"
        raise SlurmError(
            f"there is no {argv[0]} {'in ' if site.commands else ''}{where}: Slurm cannot be used from this machine; "
            "use a login node, or set `commands` of the slurm engine to the folder of its commands"
        ) from None
    except OSError as error:
        raise SlurmError(f"{site.program(argv[0])} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired as error:
        raise SlurmSilent(f"{argv[0]} has not answered for {patience_sec:g} s{_meanwhile(argv[0], error)}") from None
    if done.returncode:
        raise _error(argv[0], done.stderr.strip() or done.stdout.strip(), done.returncode)
    for line in filter(str.strip, done.stderr.split("\n")[:_MOST_MESSAGES]):
        words = _words(argv[0], line.strip())
        say(f"{argv[0]}: {''.join(letter if letter.isprintable() else '?' for letter in words)}")
    return done.stdout


def _check_conf(site: SlurmSite) -> None:
    """SlurmError: Slurm's configuration cannot be read. Slurm's commands would try for a minute before they say so."""
    if not (path := site.conf or os.environ.get("SLURM_CONF")):
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.read(descriptor, 1)  # of a folder that fails
        finally:
            os.close(descriptor)
    except OSError as error:
        by = "engines.slurm.conf in the site's file, or SLURM_CONF" if site.conf else "SLURM_CONF"
        raise SlurmError(
            f"Slurm's configuration {path} cannot be read: {error.strerror}; correct {by}, which names it"
        ) from None


def _meanwhile(program: str, error: subprocess.TimeoutExpired) -> str:
    """The last thing that a command has said while it was trying."""
    lines = bytes(error.stderr or b"").decode(errors="replace").split("\n")
    words = [word for line in lines if (word := _words(program, line.strip()))]
    return f" ({words[-1]})" if words else ""


def _words(program: str, line: str) -> str:
    return line.removeprefix(f"{program}: ").removeprefix("error: ").removeprefix("fatal: ")


def _error(program: str, said: str, code: int) -> SlurmError:
    words = (_words(program, line) for line in said.split("\n") if not _ATTEMPT.search(line))
    text = "; ".join(filter(None, words)) or f"exit code {code}"
    kind = SlurmSilent if any(each in text.lower() for each in _SILENT) else SlurmError
    return kind(f"{program}: {text}")
