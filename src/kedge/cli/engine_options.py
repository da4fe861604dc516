"""The options of engines, as those of commands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from kedge.cli.job_options import F, pair
from kedge.engines.base import EngineOption
from kedge.engines.registry import BUILT_IN_OPTIONS, engine_names
from kedge.jobs.engine_choice import EngineChoice
from kedge.lazy_modules import ENGINES


def _complete_engine(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in engine_names() if name.startswith(incomplete)]


def _option_of_engine(option: EngineOption) -> Callable[[F], F]:
    """The option of the command line for one that a built-in engine declares."""
    names = (option.flag, option.name)
    if option.kind is bool:
        return click.option(*names, is_flag=True, help=option.help)
    kind: Any = click.Choice(option.choices) if option.choices else click.STRING
    kind = click.IntRange(min=option.least) if option.kind is int else kind
    return click.option(*names, type=kind, metavar=option.metavar or None, help=option.help)


def _option_of_group(group: str) -> Callable[[F], F]:
    """The option that sets those of one engine by their keys."""
    keys = ", ".join(option.key for option in BUILT_IN_OPTIONS if option.group == group and not option.site_only)
    return click.option(
        f"--{group}",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=functools.partial(_complete_key, group),
        help=f"Set an option of the {group} engine: {keys}.",
    )


def _complete_key(group: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    options = (option for option in BUILT_IN_OPTIONS if option.group == group and not option.site_only)
    found = (CompletionItem(f"{option.key}=", help=option.help) for option in options)
    return [item for item in found if item.value.startswith(incomplete)]


_SINGLE = tuple(option for option in BUILT_IN_OPTIONS if not option.group)
_ALONE = tuple(option for option in BUILT_IN_OPTIONS if option.group and option.alone)
_GROUPS = tuple(dict.fromkeys(option.group for option in BUILT_IN_OPTIONS if option.group))
_ENGINE_OPTIONS = (
    click.option(
        "--engine",
        "engine_name",
        metavar="NAME",
        shell_complete=_complete_engine,
        help=f"Where to run: {', '.join(ENGINES)}, or an engine that an installed package brings. "
        "Defaults to the engine of kedge config, and for a rerun to that of the old run.",
    ),
    *map(_option_of_engine, _SINGLE),
    *map(_option_of_group, _GROUPS),
    *(_option_of_engine(option._replace(group="")) for option in _ALONE),
    click.option(
        "--queue",
        metavar="NAME",
        help="The queue that the job waits in: a LocalQueue of Kueue on Kubernetes, a partition on Slurm.",
    ),
    click.option(
        "-o",
        "engine_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set an option of the engine by its name, for engines that are not built in.",
    ),
)


def engine(function: F) -> F:
    """Add the engine's options: the command receives what they name as `choice`. InputError for a bad value."""

    @functools.wraps(function)
    def with_engine(**given: Any) -> Any:
        name, others, queue = given.pop("engine_name"), given.pop("engine_options"), given.pop("queue")
        options = {option.name: given.pop(option.name) for option in _SINGLE}
        named = {option: value for option, value in options.items() if value}
        groups = {group: dict(pair(f"--{group}", text) for text in given.pop(group)) for group in _GROUPS}
        for option in _ALONE:
            if (text := given.pop(option.name)) is not None:
                groups[option.group].setdefault(option.key, text)
        choice = EngineChoice(name, named, dict(pair("-o", text) for text in others), groups, queue)
        return function(choice=choice, **given)

    decorated: Any = with_engine
    for decorate in reversed(_ENGINE_OPTIONS):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]
