"""The arguments of commands on a job file: FILE and what the submitter adds to it."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from kedge.errors import InputError
from kedge.jobs.user import user_name
from kedge.resolve import given_environment
from kedge.resolve.model import Inputs
from kedge.resolve.secrets import read_given

F = TypeVar("F", bound=Callable[..., Any])


def job_file(function: F) -> F:
    """Add FILE (`-` for stdin) and the submitter's options: the command receives `file` and `inputs`. InputError for a
    bad value."""

    @functools.wraps(function)
    def with_inputs(**given: Any) -> Any:
        submitted = {name: given.pop(name) for name in _INPUT_NAMES}
        if given["file"] == "-" and sys.stdin.isatty():
            click.echo("reading the job from the terminal until Ctrl-D", err=True)
        return function(inputs=_inputs(**submitted), **given)

    decorated: Any = with_inputs
    file = click.argument("file", type=click.Path(path_type=str))
    for decorate in reversed((file, *_VALUE_OPTIONS, *_INPUT_OPTIONS)):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


def values(function: F) -> F:
    """Add the options that give values to a job: the command receives them as `changes`. InputError for a bad value."""

    @functools.wraps(function)
    def with_values(**given: Any) -> Any:
        submitted = {name: given.pop(name) for name in _VALUE_NAMES}
        return function(changes=_inputs(**submitted), **given)

    decorated: Any = with_values
    for decorate in reversed(_VALUE_OPTIONS):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


_VALUE_OPTIONS = (
    click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="Set a parameter."),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME=VALUE|@FILE|env:VAR",
        help="Set a secret from a value, a file or an environment variable.",
    ),
    click.option(
        "--env",
        "env",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Set an environment variable of all tasks; NAME alone takes its value from your shell, as a secret.",
    ),
    click.option(
        "--env-file",
        "env_files",
        multiple=True,
        metavar="FILE",
        help="Set environment variables from lines NAME=VALUE or NAME of a file.",
    ),
    click.option(
        "--storage",
        "storages",
        multiple=True,
        metavar="NAME=FOLDER",
        help="Use this folder of your own as the storage NAME.",
    ),
    click.option(
        "--hold-on-failure",
        "hold",
        metavar="TIME",
        help="Keep the first task that fails alive for so long, such as 30m; kedge release ends that.",
    ),
)
_INPUT_OPTIONS = (
    click.option(
        "--workdir",
        type=click.Path(path_type=str),
        help="Copy this folder; every task starts in a copy of its own.",
    ),
    click.option(
        "--rules",
        multiple=True,
        metavar="FILE",
        help="Add failure rules (TOML), or use this OpenPAI exit spec (YAML).",
    ),
    click.option(
        "--marketplace", metavar="DIR|URL|NAME", help="Base of marketplace:// names (or set KEDGE_MARKETPLACE)."
    ),
    click.option(
        "--allow-host", "hosts", multiple=True, metavar="HOST", help="Fetch prerequisites from these hosts only."
    ),
    click.option("--offline", is_flag=True, help="Use only the lock file and the cache for prerequisites."),
    click.option(
        "--update-lock",
        multiple=True,
        metavar="NAME|all",
        help="Accept a prerequisite or image that has changed since it was locked.",
    ),
)


_VARIABLE_PREFIX = "env:"
_NEEDED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "TERM", "LD_LIBRARY_PATH", "SSH_AUTH_SOCK",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "DOCKER_HOST", "CONTAINER_HOST",
})  # fmt: skip
_VALUE_NAMES = ("params", "secrets", "env", "env_files", "storages", "hold")
_INPUT_NAMES = (*_VALUE_NAMES, "workdir", "rules", "marketplace", "hosts", "offline", "update_lock")


def _inputs(
    params: tuple[str, ...], secrets: tuple[str, ...], env: tuple[str, ...], env_files: tuple[str, ...],
    storages: tuple[str, ...], hold: str | None, **others: Any,
) -> Inputs:  # fmt: skip
    user, given = user_name(), [pair("--secret", text) for text in secrets]
    values = {name: read_given(name, value) for name, value in given}
    variables = given_environment.read(env, env_files, os.environ)
    plain, secret, notes = variables
    forget([*(text.removeprefix(_VARIABLE_PREFIX) for _, text in given if text.startswith(_VARIABLE_PREFIX)), *secret])
    parameters = dict(pair("-p", text) for text in params)
    folders = dict(pair("--storage", text, "NAME=FOLDER") for text in storages)
    if empty := [name for name, folder in folders.items() if not folder]:
        raise InputError(f"--storage {empty[0]}=: write it as NAME=FOLDER")
    others["hold_on_failure_sec"] = None if hold is None else _duration("--hold-on-failure", hold)
    return Inputs(user, parameters, values, env=plain, taken_env=secret, notes=notes, storages=folders, **others)


def forget(names: Iterable[str]) -> None:
    """Remove variables with secrets from this process, so that no plugin, controller or supervisor inherits them. Those
    that kedge itself, git or Podman need to work are kept."""
    for name in names:
        if name not in _NEEDED and not name.lower().endswith("_proxy") and not name.startswith(("LC_", "XDG_")):
            os.environ.pop(name, None)


def _duration(option: str, text: str) -> float:
    """The seconds of a duration that is longer than none. InputError."""
    units = importlib.import_module("kedge.spec.units")  # slow to load, and seldom needed
    try:
        found: float = units.seconds(text)
    except ValueError as error:
        raise InputError(f"{option} {text}: {error}") from None
    if found <= 0:
        raise InputError(f"{option} {text}: it must be longer than 0")
    return found


def pair(option: str, text: str, form: str = "NAME=VALUE") -> tuple[str, str]:
    """The name and the value in NAME=VALUE. InputError names the `form`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        shown = option if option == "--secret" else f"{option} {text}"  # the text may be the bare secret
        ways = ", NAME=@FILE or NAME=env:VARIABLE" if option == "--secret" else ""
        raise InputError(f"{shown}: write it as {form}{ways}")
    return name, value
