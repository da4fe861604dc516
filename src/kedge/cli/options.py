"""Options and arguments that several commands share, and what completes them."""

from __future__ import annotations

import functools
import getpass
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from kedge import jobs
from kedge.contract import RUNTIME_LOG, STREAMS
from kedge.engines.registry import ENGINES
from kedge.errors import InputError
from kedge.resolve.model import Inputs
from kedge.resolve.secrets import read_given
from kedge.runs import status

F = TypeVar("F", bound=Callable[..., Any])


def job_file(function: F) -> F:
    """FILE, `-` for stdin, and what a submitter adds to it: the command gets `file` and `inputs`. InputError for a bad
    value."""

    @functools.wraps(function)
    def with_inputs(**given: Any) -> Any:
        taken = {name: given.pop(name) for name in _TAKEN}
        if given["file"] == "-" and sys.stdin.isatty():
            click.echo("reading the job from the terminal until Ctrl-D", err=True)
        return function(inputs=_inputs(**taken), **given)

    decorated: Any = with_inputs
    for decorate in reversed((click.argument("file", type=click.Path(path_type=str)), *_OPTIONS)):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


_OPTIONS = (
    click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="Set a parameter."),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME=VALUE|@FILE|env:VAR",
        help="Set a secret: its value, a file that holds it, or a variable that does.",
    ),
    click.option(
        "--workdir",
        type=click.Path(path_type=str),
        help="A folder that is copied once per job; all tasks start in the copy.",
    ),
    click.option(
        "--rules",
        multiple=True,
        metavar="FILE",
        help="Own rules for causes of failures (TOML), or an OpenPAI exit spec (YAML).",
    ),
    click.option("--marketplace", metavar="DIR|URL", help="Where marketplace:// leads (also KEDGE_MARKETPLACE)."),
    click.option(
        "--allow-host", "hosts", multiple=True, metavar="HOST", help="Ask no other hosts than these for prerequisites."
    ),
    click.option("--offline", is_flag=True, help="Take prerequisites from the lock file and the cache only."),
    click.option(
        "--update-lock",
        multiple=True,
        metavar="NAME|all",
        help="Accept that this prerequisite or image has changed since the lock file was written.",
    ),
)
_ENGINE_OPTIONS = (
    click.option(
        "--engine", type=click.Choice(list(ENGINES)), default="local", show_default=True, help="Where to run."
    ),
    click.option(
        "--allow-fewer-gpus", is_flag=True, help="Start although there are fewer GPUs than the job asks for, or none."
    ),
    click.option(
        "--network",
        type=click.Choice(["job", "host"]),
        help="Containers: one of the job's own, or this machine's.",
    ),
    click.option("--keep", is_flag=True, help="Containers: keep those that have ended, to look at them."),
    click.option(
        "--storage",
        "storage",
        multiple=True,
        metavar="NAME=FOLDER",
        help="Containers: the folder of this machine that is the storage NAME.",
    ),
    click.option("--user", metavar="UID[:GID]", help="Containers: who runs the tasks, in place of the image's user."),
    click.option(
        "--userns",
        metavar="MODE",
        help="Containers: the engine's user namespace, as keep-id of an ordinary user's Podman.",
    ),
    click.option(
        "--pids-limit",
        type=click.IntRange(min=16),
        metavar="N",
        help="Containers: how many processes and threads a task may have (32768).",
    ),
)
_ENGINE_TAKEN = ("engine", "allow_fewer_gpus", "network", "keep", "storage", "user", "userns", "pids_limit")


def engine(function: F) -> F:
    """Where to run, and how: the command gets `where`, the engine. InputError for an option that this one lacks."""

    @functools.wraps(function)
    def with_engine(**given: Any) -> Any:
        name, *values = (given.pop(option) for option in _ENGINE_TAKEN)
        options = dict(zip(_ENGINE_TAKEN[1:], values, strict=True))
        folders = [_pair("--storage", text) for text in options["storage"]]
        options["storage"] = {key: _folder(value) for key, value in folders}
        return function(where=jobs.engine(name, **options), **given)

    decorated: Any = with_engine
    for decorate in reversed(_ENGINE_OPTIONS):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


def _folder(text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isdir(path):
        raise InputError(f"--storage: there is no folder {path}")
    return path


_VARIABLE = "env:"
_TAKEN = ("params", "secrets", "workdir", "rules", "marketplace", "hosts", "offline", "update_lock")


def _inputs(params: tuple[str, ...], secrets: tuple[str, ...], **others: Any) -> Inputs:
    user, given = user_name(), [_pair("--secret", text) for text in secrets]
    values = {name: read_given(name, value) for name, value in given}
    for _, value in given:
        if value.startswith(_VARIABLE):  # not for what this process starts: plugins, the controller, tasks
            os.environ.pop(value.removeprefix(_VARIABLE), None)
    return Inputs(user=user, parameters=dict(_pair("-p", text) for text in params), secrets=values, **others)


def user_name() -> str:
    """The user's name; the number of one without a name, as in many containers."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # until and from Python 3.13
        return str(os.getuid())
    return name.encode(errors="replace").decode()


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        shown = option if option == "--secret" else f"{option} {text}"  # it may be the value alone
        ways = ", NAME=@FILE or NAME=env:VARIABLE" if option == "--secret" else ""
        raise InputError(f"{shown}: write it as NAME=VALUE{ways}")
    return name, value


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in jobs.run_ids() if name.startswith(incomplete)]


def _complete_task(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """As `worker-3`: to bash a colon ends a word, and it would complete nothing after `worker:`."""
    try:
        tasks = status.read(jobs.find(ctx.params["job"])).tasks
    except InputError:
        return []
    return [CompletionItem(name) for t in tasks if (name := f"{t.role}-{t.index}").startswith(incomplete)]


job = click.argument("job", shell_complete=complete_job)
task = click.argument("task", required=False, shell_complete=_complete_task)
STREAM_NAMES = {"all": STREAMS[0], "stdout": STREAMS[1], "stderr": STREAMS[2], "runtime": RUNTIME_LOG}
