"""The engine of a job and its options: what the submitter names, else the job's virtual cluster, else the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from kedge.engines import registry
from kedge.engines.base import Engine
from kedge.errors import InputError
from kedge.plan.model import Plan
from kedge.quick_dataclasses import dataclass
from kedge.settings.table import ENGINE, engine_settings
from kedge.settings.values import DEFAULT, AllSettings, SettingValue


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """What the submitter names: an engine, or None; options of it as values, and further ones as texts by their names.
    An option that is given takes precedence over the settings, even if it is false."""

    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def expected(self, settings: AllSettings) -> str:
        """The name of the engine, as far as it is known before the job is read. UnknownEngine; CannotRun."""
        name, origin = (self.name, DEFAULT) if self.name else settings.get(ENGINE)
        try:
            registry.options_of(name)
        except registry.UnknownEngine as error:
            raise error if origin == DEFAULT else InputError(f"{origin}: {error}") from None
        return name


class ChosenEngine(NamedTuple):
    """The engine that runs a job, and notes about what the settings decided."""

    where: Engine
    notes: tuple[str, ...] = ()


def choose(choice: EngineChoice, plan: Plan, settings: AllSettings) -> ChosenEngine:
    """The engine for a plan. InputError: a wrong option; also the errors of engines.registry."""
    cluster = settings.group("virtual-clusters").get(plan.virtual_cluster, {})
    named = None if choice.name else cluster.get("engine")
    name = choice.name or (named.value if named else choice.expected(settings))
    given = {**choice.options, **registry.read_options(name, choice.texts)}
    known = _options(name, cluster, settings)
    where = registry.make(name, **{option: value.value for option, value in known.items()} | given)
    return ChosenEngine(where, (*_engine_note(choice, plan, named, settings), *_option_notes(known, given)))


def _options(name: str, cluster: Mapping[str, SettingValue], settings: AllSettings) -> dict[str, SettingValue]:
    """The options that the settings set for an engine, by the names of its keywords."""
    found = {}
    for setting in engine_settings(name, registry.options_of(name)):
        value = settings.get(setting)
        if value.origin != DEFAULT:
            found[_keyword(setting.key.rpartition(".")[2])] = value
    if cluster and cluster["engine"].value == name and (options := cluster.get("options")):
        found |= {_keyword(flag): SettingValue(value, options.origin) for flag, value in options.value.items()}
    return found


def _keyword(flag: str) -> str:
    return flag.replace("-", "_")


def _engine_note(choice: EngineChoice, plan: Plan, named: SettingValue | None, settings: AllSettings) -> Iterator[str]:
    if named:
        yield f"virtual cluster {plan.virtual_cluster}: engine {named.value} ({named.origin})"
    elif not choice.name and (usual := settings.get(ENGINE)).origin != DEFAULT:
        yield f"engine {usual.value} ({usual.origin})"


def _option_notes(known: Mapping[str, SettingValue], given: Mapping[str, Any]) -> Iterator[str]:
    for option, value in known.items():
        if option not in given and value.value:
            shown = "" if value.value is True else f" {_shown(value.value)}"
            yield f"--{option.replace('_', '-')}{shown} ({value.origin})"


def _shown(value: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
