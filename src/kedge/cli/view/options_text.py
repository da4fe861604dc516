"""Prints the options of a run for people, as they are written on the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from kedge.cli.view.answer import rows
from kedge.cli.view.wording import limit_texts
from kedge.contract import duration_text
from kedge.engines import registry
from kedge.engines.base import EngineOption
from kedge.errors import KedgeError
from kedge.runs.folder import RunInfo
from kedge.runs.run_limits import RunLimits
from kedge.runs.run_options import RunOptions
from kedge.terminal_text import one_line, shortened


def print_options(info: RunInfo) -> None:
    """Print which run this one repeats, its options, and the secrets that it needs again."""
    rows("Rerun of", [f"{info.rerun_of}{' --with-job-dir' * info.with_job_dir}"] if info.rerun_of else [])
    try:
        options = RunOptions.from_json(info.options)
    except ValueError as error:
        rows("Options", [f"unknown: {error}"])
        return
    words = [*engine_words(info.engine, options.engine), *_given(options)]
    rows("Options", filter(None, [shlex.join(words)]))
    rows("Secrets", filter(None, [", ".join(options.secrets)]))


def print_limits(limits: RunLimits) -> None:
    """Print the time limits of a run."""
    lines = [f"{duration_text(limits.run_sec)} for the whole run"] if limits.run_sec else []
    for role in limits.roles:
        texts = limit_texts(role.task_sec, role.attempt_sec, role.warn_before_sec)
        lines += [f"{one_line(role.role)}: {text}" for text in texts]
    rows("Limits", lines)


def _given(options: RunOptions) -> Iterator[str]:
    for flag, values in (("-p", options.parameters), ("--env", options.env)):
        for name, value in values.items():
            yield from (flag, shortened(f"{name}={value}"))
    yield from storage_words(options.storages)
    lists = {
        "--env": options.env_from_shell,
        "--workdir": filter(None, [options.workdir]),
        "--rules": options.rules,
        "--marketplace": filter(None, [options.marketplace]),
        "--allow-host": options.hosts,
        "--update-lock": options.update_lock,
    }
    yield from (word for flag, values in lists.items() for value in values for word in (flag, value))
    yield from ["--offline"] * options.offline
    if options.hold_on_failure_sec:
        yield from ("--hold-on-failure", f"{options.hold_on_failure_sec:g}s")


def storage_words(storages: Mapping[str, str]) -> Iterator[str]:
    """The options of `kedge run` for these folders of storages."""
    for name, folder in storages.items():
        yield from ("--storage", f"{name}={folder}")


def engine_words(name: str, options: Mapping[str, Any]) -> Iterator[str]:
    """The options of `kedge run` for an engine with these options."""
    yield from ["--engine", name] if name != "local" else []
    given = {option: value for option, value in options.items() if value}
    declared = _declared(name) if given else {}
    for option, value in given.items():
        known = declared.get(option)
        if known and (known.site_only or value == known.default):
            continue
        if known and known.group:
            yield from (f"--{known.group}", f"{known.key}={'yes' if value is True else value}")
        else:
            yield from _words(f"--{option.replace('_', '-')}", value)


def _words(flag: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (word for key, folder in value.items() for word in (flag, f"{key}={folder}"))
    else:
        yield from [flag] if value is True else [flag, str(value)]


def _declared(name: str) -> Mapping[str, EngineOption]:
    """An engine's options by name; none if it is not installed here."""
    try:
        return {option.name: option for option in registry.options_of(name)}
    except KedgeError:
        return {}
