"""The values of all settings: of the site's file, of the user's, of the environment; a later one takes precedence.

What a job and the command line set comes after that, where the value is used. A start without any file reads nothing
and loads nothing more.
"""

from __future__ import annotations

import importlib
import os

from kedge import xdg
from kedge.errors import CannotRun, InputError
from kedge.light.types import Any, Mapping, MappingProxyType, NamedTuple
from kedge.settings.table import GROUPS, SETTINGS, STORAGES, Setting

SITE_FILE = "/etc/kedge/site.toml"
SITE_VARIABLE, USER_VARIABLE = "KEDGE_SITE_FILE", "KEDGE_CONFIG_FILE"  # other paths for the site's file and the user's
_ABSENT = (FileNotFoundError, NotADirectoryError)

Key = tuple[str | int, ...]


class SettingOrigin(NamedTuple):
    """Where a value comes from: a line of a file (from 1), or an environment variable (line 0), or the default."""

    name: str = "default"
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


class SettingValue(NamedTuple):
    """A value and where it comes from."""

    value: Any
    origin: SettingOrigin


DEFAULT = SettingOrigin()
NONE: Mapping[Any, Any] = MappingProxyType({})


class AllSettings(NamedTuple):
    """All settings of this process: the values that files set, by their keys, and the environment. `of_user` are the
    keys that the user's file sets."""

    from_files: Mapping[Key, SettingValue] = NONE
    environment: Mapping[str, str] = NONE
    of_user: frozenset[Key] = frozenset()

    def get(self, setting: Setting) -> SettingValue:
        """The value of a setting whose key has no `*`. InputError: its environment variable has a bad value, or there
        is one although no variable may set it: it must not be overlooked."""
        if text := self.environment.get(setting.variable_name):
            if not setting.variable:
                raise InputError(f"{setting.variable_name}: {_not_by_variable(setting, self.environment)}")
            return SettingValue(_from_text(setting, text), SettingOrigin(setting.variable_name))
        return self.from_files.get(tuple(setting.key.split("."))) or SettingValue(setting.default, DEFAULT)

    def group(self, name: str) -> dict[str, dict[str, SettingValue]]:
        """The tables of one of the GROUPS by their names: each with its values by key."""
        found: dict[str, dict[str, SettingValue]] = {}
        for key, value in self.from_files.items():
            if key[0] == name:
                found.setdefault(str(key[1]), {})[str(key[2])] = value
        return found

    def limit(self, of: str, what: str) -> SettingValue:
        """A limit: of a `job` or of a `task`. Its value is None if the site sets none."""
        (setting,) = (setting for setting in SETTINGS if setting.key == f"limits.{of}.{what}")
        return self.get(setting)


def load(environment: Mapping[str, str] | None = None) -> AllSettings:
    """The settings for this process, or for another environment. InputError: it holds every problem of the files."""
    given = os.environ if environment is None else environment
    found: dict[Key, SettingValue] = {}
    users: frozenset[Key] = frozenset()
    problems: list[Any] = []
    for path, is_site in files(given):
        try:
            later = _read(path, is_site)
            problems += _renamed(found, later)
            found, users = _over(found, later), frozenset() if is_site else frozenset(later)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)
    return AllSettings(found, given, users)


def files(environment: Mapping[str, str]) -> tuple[tuple[str, bool], ...]:
    """The paths of the site's file (True) and of the user's (False), whether they exist or not; without those that are
    set aside. InputError: a variable names a file that does not exist, or another site's file although there is one
    that this user cannot change."""
    found = ((_site_file(environment), True), (_user_file(environment), False))
    return tuple((path, is_site) for path, is_site in found if path != os.devnull)


def _site_file(environment: Mapping[str, str]) -> str:
    other = _named(SITE_VARIABLE, environment)
    if other and os.path.lexists(SITE_FILE) and not os.access(SITE_FILE, os.W_OK):
        raise InputError(f"{SITE_VARIABLE} cannot replace {SITE_FILE}, which this user must not change; unset it")
    return other or SITE_FILE


def _user_file(environment: Mapping[str, str]) -> str:
    if other := _named(USER_VARIABLE, environment):
        return other
    try:
        return os.path.join(xdg.folder(xdg.CONFIG, environment), "kedge", "config.toml")
    except CannotRun:  # a user without a home folder has no settings
        return os.devnull


def _named(variable: str, environment: Mapping[str, str]) -> str | None:
    if not (path := environment.get(variable)):
        return None
    if not os.path.lexists(path):
        raise InputError(f"{variable}: there is no file {path}; unset it, or set it to {os.devnull} for no settings")
    return os.path.abspath(path)


def _read(path: str, is_site: bool) -> dict[Key, SettingValue]:
    try:
        found = os.stat(path)
    except OSError as error:
        linked = os.path.islink(path)  # to nothing: a file system is not mounted, so limits must not vanish unnoticed
        if isinstance(error, _ABSENT) and not linked:
            return {}
        if (
            not is_site and not linked
        ):  # a folder that this user cannot enter, such as that of another user, holds none of theirs
            return {}
        state: object = None
    else:
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
    values: dict[Key, SettingValue] = importlib.import_module("kedge.settings.files").read(path, is_site, state)
    return values


def _over(earlier: Mapping[Key, SettingValue], later: Mapping[Key, SettingValue]) -> dict[Key, SettingValue]:
    """The values of both; of an entry of a group, only those of the later file that has it."""
    replaced = {key[:2] for key in later if key[0] in GROUPS}
    return {**{key: value for key, value in earlier.items() if key[:2] not in replaced}, **later}


def _renamed(site: Mapping[Key, SettingValue], user: Mapping[Key, SettingValue]) -> list[str]:
    """The problems of storages of the user that have the name of one of the site: jobs must get the site's."""
    names = {key[1]: value.origin for key, value in site.items() if key[0] == STORAGES}
    own = {key[1]: value.origin for key, value in user.items() if key[0] == STORAGES}
    return [
        f"{origin}: storages.{name}: the site has a storage of this name ({names[name]}); choose another name"
        for name, origin in own.items()
        if name in names
    ]


def _not_by_variable(setting: Setting, environment: Mapping[str, str]) -> str:
    if setting.site_only:
        return f"only the site's file ({_site_file(environment)}) may set {setting.key}; unset the variable"
    others = ", ".join(("a file of settings", *setting.also_set_by))
    return f"no variable can set {setting.key}; unset it, and use {others}"


def _from_text(setting: Setting, text: str) -> Any:
    return importlib.import_module("kedge.settings.variables").read(setting, text)
