"""The engine of a job and its options: what the submitter names, else the job file, else its virtual cluster, else the
settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from kedge import __version__
from kedge.engines import registry
from kedge.engines.base import Engine
from kedge.errors import InputError
from kedge.jobs.preparation import PreparedJob
from kedge.plan.model import Plan
from kedge.quick_dataclasses import dataclass
from kedge.settings.table import ENGINE, REGISTRY, engine_settings
from kedge.settings.values import DEFAULT, AllSettings, SettingValue, files, load
from kedge.spec.model import Job
from kedge.spec.tolerant import mapping

_UNSET = SettingValue(None, DEFAULT)
RUNTIME_IMAGE = f"kedge-runtime:{__version__}"  # its name in the site's registry
_FIXED = "fixed"  # the option with the names of those that only the site sets


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """What the submitter names: an engine, or None; options of it as values, and further ones as texts by their names.
    An option that is given takes precedence over the settings, even if it is false. `groups` are texts by the name of
    the engine that they are for, and then by the option's key. `queue` is that option of the engine by which jobs wait
    in a queue, whatever its name."""

    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    queue: str | None = None

    def expected(self, settings: AllSettings) -> str:
        """The name of the engine, as far as it is known before the job is read. UnknownEngine; CannotRun."""
        name, origin = (self.name, DEFAULT) if self.name else settings.get(ENGINE)
        try:
            registry.options_of(name)
        except registry.UnknownEngine as error:
            raise error if origin == DEFAULT else InputError(f"{origin}: {error}") from None
        return name

    @staticmethod
    def settings_of(name: str) -> dict[str, Any]:
        """What the settings say about the options of an engine, by the names of its keywords. InputError."""
        return {option: value.value for option, value in _options(name, {}, load()).items()}


class ChosenEngine(NamedTuple):
    """The engine that runs a job, and notes about what the settings decided."""

    where: Engine
    notes: tuple[str, ...] = ()


def choose(choice: EngineChoice, prepared: PreparedJob) -> ChosenEngine:
    """The engine for a job. InputError: a wrong option; also the errors of engines.registry."""
    plan, settings = prepared.plan, prepared.settings
    cluster = settings.group("virtual-clusters").get(plan.virtual_cluster, {})
    named = None if choice.name else cluster.get("engine")
    name = choice.name or (named.value if named else choice.expected(settings))
    known = _options(name, cluster, settings)
    in_file, given = _of_job(name, prepared.job), _given(name, choice)
    _check_fixed(name, known, prepared, in_file, given)
    where = registry.make(name, **{option: value.value for option, value in known.items()} | in_file | given)
    notes = _option_notes(name, known, in_file | given)
    return ChosenEngine(where, (*_engine_note(choice, plan, named, settings), *notes))


def _given(name: str, choice: EngineChoice) -> dict[str, Any]:
    """The options that the submitter gives. InputError."""
    if others := [group for group, texts in choice.groups.items() if texts and group != name]:
        raise InputError(
            f"--{others[0]} is for the {others[0]} engine, and this job runs on {name}: add --engine {others[0]}"
        )
    texts = {_keyword(key): text for key, text in choice.groups.get(name, {}).items()}
    return {**choice.options, **registry.read_options(name, {**choice.texts, **texts, **_queue(name, choice, texts)})}


def _queue(name: str, choice: EngineChoice, texts: Mapping[str, str]) -> dict[str, str]:
    """The option of the engine that `--queue` sets. InputError."""
    if choice.queue is None:
        return {}
    option = next((option for option in registry.options_of(name) if option.is_queue), None)
    if option is None:
        raise InputError(f"--queue: the {name} engine has no queues: leave it out, or name another engine (--engine)")
    if texts.get(option.name, choice.queue) != choice.queue:
        raise InputError(
            f"--queue {choice.queue} and {option.flag}={texts[option.name]} disagree: leave one of them out"
        )
    return {option.name: choice.queue}


def _of_job(name: str, job: Job) -> dict[str, Any]:
    """The options in the job file: those in the `extras` of the engine's name, which its schema has checked."""
    groups = {option.name: option for option in registry.options_of(name) if option.group}
    found = {_keyword(key): value for key, value in mapping(job.extras.get(name)).items()} if groups else {}
    return {option: value if isinstance(value, bool) else str(value) for option, value in found.items()}


def _check_fixed(
    name: str, known: Mapping[str, SettingValue], prepared: PreparedJob, in_file: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:  # fmt: skip
    """InputError for an option that somebody else than the site sets although the site forbids that."""
    fixed = known.get(_FIXED)
    for option in fixed.value if fixed else ():
        usual = known.get(option, _UNSET)
        value, origin = usual.value, usual.origin
        why = f"only the site sets {option} ({fixed.origin if fixed else ''})"
        if in_file.get(option) and in_file[option] != value:
            raise InputError(prepared.job.source.problem(("extras", name, option), f"{why}; remove it", key=True))
        if given.get(option) and given[option] != value:
            raise InputError(f"--{name} {option}={given[option]}: {why}; leave it out")
        if origin != DEFAULT and (origin.name, True) not in files(prepared.settings.environment):
            raise InputError(f"{origin}: engines.{name}.{option}: {why}; remove it")


def _options(name: str, cluster: Mapping[str, SettingValue], settings: AllSettings) -> dict[str, SettingValue]:
    """The options that the settings set for an engine, by the names of its keywords."""
    found = {}
    for setting in engine_settings(name, registry.options_of(name)):
        value = settings.get(setting)
        if value.origin != DEFAULT:
            found[_keyword(setting.key.rpartition(".")[2])] = value
    if _has_image(name) and "image" not in found and (registry_of_site := settings.get(REGISTRY)).value:
        image = f"{registry_of_site.value.rstrip('/')}/{RUNTIME_IMAGE}"
        found["image"] = SettingValue(image, registry_of_site.origin)
    if cluster and cluster["engine"].value == name and (options := cluster.get("options")):
        found |= {_keyword(flag): SettingValue(value, options.origin) for flag, value in options.value.items()}
    return found


def _has_image(name: str) -> bool:
    """Whether the engine of that name takes the image of the runtime."""
    return any(option.name == "image" and option.site_only for option in registry.options_of(name))


def _keyword(flag: str) -> str:
    return flag.replace("-", "_")


def _engine_note(choice: EngineChoice, plan: Plan, named: SettingValue | None, settings: AllSettings) -> Iterator[str]:
    if named:
        yield f"virtual cluster {plan.virtual_cluster}: engine {named.value} ({named.origin})"
    elif not choice.name and (usual := settings.get(ENGINE)).origin != DEFAULT:
        yield f"engine {usual.value} ({usual.origin})"


def _option_notes(name: str, known: Mapping[str, SettingValue], given: Mapping[str, Any]) -> Iterator[str]:
    """What the settings set. What only the site can set is not for the submitter."""
    for option in registry.options_of(name):
        value = known.get(option.name)
        if value and value.value and not option.site_only and option.name not in given:
            equals = "=" if option.group else " "
            shown = "" if value.value is True and not option.group else f"{equals}{_shown(value.value)}"
            yield f"{option.flag}{shown} ({value.origin})"


def _shown(value: Any) -> str:
    if value is True:
        return "true"
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
