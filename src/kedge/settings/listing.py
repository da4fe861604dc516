"""Every setting with its value and origin, in the order of the table: what `kedge config` shows."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.engines import registry
from kedge.errors import InputError
from kedge.lazy_modules import ENGINES
from kedge.settings.table import ANY_NAME, ENGINE, GROUPS, MARKETPLACE, SETTINGS, Setting, engine_settings
from kedge.settings.values import AllSettings, Key, SettingValue
from kedge.spec.hidden_lines import without_passwords
from kedge.spec.message_text import quote, show_path
from kedge.spec.suggest import did_you_mean


def listed(settings: AllSettings) -> Iterator[tuple[str, SettingValue]]:
    """Each key with its value, without passwords of addresses; None is a setting without value. Of a group, those of
    its entries. InputError: an environment variable has a bad value; the errors of engines.registry for an engine that
    a variable names."""
    for setting in SETTINGS:
        if ANY_NAME not in setting.key:
            value = settings.get(setting)
            yield setting.key, _shown(value) if isinstance(value.value, str) else value
            if setting == ENGINE:
                yield from ((option.key, settings.get(option)) for option in _engine_settings(settings))
    for group in GROUPS:
        for key, value in settings.from_files.items():
            if key[0] == group:
                yield from _flat(key, value)


def _shown(value: SettingValue) -> SettingValue:
    return value._replace(value=without_passwords(value.value))


def below(settings: AllSettings, key: str) -> dict[str, SettingValue]:
    """The setting of that key, or those of a table. InputError: there is none; the errors of `listed`."""
    everything = dict(listed(settings))
    found = {each: value for each, value in everything.items() if each == key or each.startswith(f"{key}.")}
    if not found:
        known = did_you_mean(key, everything) or "; kedge config lists all settings"
        raise InputError(f"there is no setting {quote(key)}{known}")
    return found


def setting_of(settings: AllSettings, key: str) -> Setting | None:
    """The setting behind a key as `listed` shows it; of an option of a virtual cluster, that of its options."""
    steps = key.split(".")
    for setting in (*SETTINGS, *_engine_settings(settings)):
        pattern = setting.key.split(".")
        longest = len(pattern) + (setting.schema["type"] == "object")
        same = all(known in (step, ANY_NAME) for known, step in zip(pattern, steps, strict=False))
        if same and len(pattern) <= len(steps) <= longest:
            return setting
    return None


def unknown_variables(settings: AllSettings) -> Iterator[tuple[str, str]]:
    """Environment variables that look like settings and are none: each with `; did you mean '…'?`, or nothing."""
    known = [setting.variable_name for setting in (ENGINE, MARKETPLACE, *_engine_settings(settings))]
    for name in settings.environment:
        if name.startswith((ENGINE.variable_name, MARKETPLACE.variable_name)) and name not in known:
            yield name, did_you_mean(name, known)


def _engine_settings(settings: AllSettings) -> Iterator[Setting]:
    """The settings of all engines that the settings name."""
    named = (str(key[1]) for key in settings.from_files if key[0] == "engines")
    for engine in dict.fromkeys((*ENGINES, *named, settings.get(ENGINE).value)):
        yield from engine_settings(engine, registry.options_of(engine))


def _flat(key: Key, value: SettingValue) -> Iterator[tuple[str, SettingValue]]:
    if isinstance(value.value, dict):
        for name, below in value.value.items():
            yield show_path((*key, name)), value._replace(value=below)
    else:
        yield show_path(key), value
