"""Options and arguments that several commands share, and their shell completion."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from kedge import jobs
from kedge.contract import RUNTIME_LOG, STREAMS
from kedge.engines.base import EngineOption
from kedge.engines.registry import BUILT_IN_OPTIONS, engine_names, read_options
from kedge.errors import InputError
from kedge.lazy_modules import ENGINES
from kedge.resolve.model import Inputs
from kedge.resolve.secrets import read_given
from kedge.runs import status

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
    for decorate in reversed((click.argument("file", type=click.Path(path_type=str)), *_INPUT_OPTIONS)):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


_INPUT_OPTIONS = (
    click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="Set a parameter."),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME=VALUE|@FILE|env:VAR",
        help="Set a secret from a value, a file or an environment variable.",
    ),
    click.option(
        "--workdir",
        type=click.Path(path_type=str),
        help="Copy this folder once per job; all tasks start in the copy.",
    ),
    click.option(
        "--rules",
        multiple=True,
        metavar="FILE",
        help="Add failure rules (TOML), or use this OpenPAI exit spec (YAML).",
    ),
    click.option("--marketplace", metavar="DIR|URL", help="Base of marketplace:// names (or set KEDGE_MARKETPLACE)."),
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


def _complete_engine(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in engine_names() if name.startswith(incomplete)]


def _option_of_engine(option: EngineOption) -> Callable[[F], F]:
    """The option of the command line for one that a built-in engine declares."""
    names = (option.flag, option.name)
    if option.kind is bool:
        return click.option(*names, is_flag=True, help=option.help)
    if option.kind is dict:
        return click.option(*names, multiple=True, metavar="NAME=FOLDER", help=option.help)
    kind: Any = click.Choice(option.choices) if option.choices else click.STRING
    kind = click.IntRange(min=option.least) if option.kind is int else kind
    return click.option(*names, type=kind, metavar=option.metavar or None, help=option.help)


_ENGINE_OPTIONS = (
    click.option(
        "--engine",
        "engine_name",
        metavar="NAME",
        default="local",
        show_default=True,
        shell_complete=_complete_engine,
        help=f"Where to run: {', '.join(ENGINES)}, or an engine that an installed package brings.",
    ),
    *map(_option_of_engine, BUILT_IN_OPTIONS),
    click.option(
        "-o",
        "engine_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set an option of the engine by its name, for engines that are not built in.",
    ),
)


def engine(function: F) -> F:
    """Add the engine's options: the command receives the engine as `where`. InputError for an option that this engine
    does not have."""

    @functools.wraps(function)
    def with_engine(**given: Any) -> Any:
        name, others = given.pop("engine_name"), given.pop("engine_options")
        options = {option.name: given.pop(option.name) for option in BUILT_IN_OPTIONS}
        for option in (option for option in BUILT_IN_OPTIONS if option.kind is dict):
            pairs = [_pair(option.flag, text) for text in options[option.name]]
            options[option.name] = {key: _folder(option.flag, value) for key, value in pairs}
        options |= read_options(name, dict(_pair("-o", text) for text in others))
        return function(where=jobs.engine(name, **options), **given)

    decorated: Any = with_engine
    for decorate in reversed(_ENGINE_OPTIONS):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


def _folder(option: str, text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isdir(path):
        raise InputError(f"{option}: there is no folder {path}")
    return path


_VARIABLE_PREFIX = "env:"
_INPUT_NAMES = ("params", "secrets", "workdir", "rules", "marketplace", "hosts", "offline", "update_lock")


def _inputs(params: tuple[str, ...], secrets: tuple[str, ...], **others: Any) -> Inputs:
    user, given = jobs.user_name(), [_pair("--secret", text) for text in secrets]
    values = {name: read_given(name, value) for name, value in given}
    for _, value in given:
        if value.startswith(_VARIABLE_PREFIX):  # plugins, the controller and tasks must not inherit it
            os.environ.pop(value.removeprefix(_VARIABLE_PREFIX), None)
    return Inputs(user=user, parameters=dict(_pair("-p", text) for text in params), secrets=values, **others)


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        shown = option if option == "--secret" else f"{option} {text}"  # the text may be the bare secret
        ways = ", NAME=@FILE or NAME=env:VARIABLE" if option == "--secret" else ""
        raise InputError(f"{shown}: write it as NAME=VALUE{ways}")
    return name, value


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in jobs.run_ids() if name.startswith(incomplete)]


def _complete_task(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Written as `worker-3`: bash ends words at colons and would complete nothing after `worker:`."""
    try:
        tasks = status.read(jobs.find(ctx.params["job"])).tasks
    except InputError:
        return []
    return [CompletionItem(name) for t in tasks if (name := f"{t.role}-{t.index}").startswith(incomplete)]


job = click.argument("job", shell_complete=complete_job)
task = click.argument("task", required=False, shell_complete=_complete_task)
STREAM_NAMES = {"all": STREAMS[0], "stdout": STREAMS[1], "stderr": STREAMS[2], "runtime": RUNTIME_LOG}
