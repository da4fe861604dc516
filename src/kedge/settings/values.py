"""The values of all settings: of the site's file, of the user's, of the environment; a later one takes precedence.

What a job and the command line set comes after that, where the value is used. A start without any file reads nothing
and loads nothing more.
"""

from __future__ import annotations

import importlib
import os

from kedge import xdg
from kedge.errors import CannotRun, InputError
from kedge.light.types import Any, Mapping, NamedTuple
from kedge.settings.table import GROUPS, SETTINGS, Setting

SITE_FILE = "/etc/kedge/site.toml"
SITE_VARIABLE = "KEDGE_SITE_FILE"  # another path for it
_ABSENT = (FileNotFoundError, NotADirectoryError)

Key = tuple[str | int, ...]


class Origin(NamedTuple):
    """Where a value comes from: a line of a file (from 1), or an environment variable (line 0), or the default."""

    name: str = "default"
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


class Value(NamedTuple):
    """A value and where it comes from."""

    value: Any
    origin: Origin


DEFAULT = Origin()


class Settings(NamedTuple):
    """All settings of this process: the values that files set, by their keys, and the environment."""

    from_files: Mapping[Key, Value] = {}
    environment: Mapping[str, str] = {}

    def get(self, setting: Setting) -> Value:
        """The value of a setting whose key has no `*`. InputError: its environment variable has a bad value."""
        if setting.variable and (text := self.environment.get(setting.variable_name)):
            return Value(_from_text(setting, text), Origin(setting.variable_name))
        return self.from_files.get(tuple(setting.key.split("."))) or Value(setting.default, DEFAULT)

    def group(self, name: str) -> dict[str, dict[str, Value]]:
        """The tables of one of the GROUPS by their names: each with its values by key."""
        found: dict[str, dict[str, Value]] = {}
        for key, value in self.from_files.items():
            if key[0] == name:
                found.setdefault(str(key[1]), {})[str(key[2])] = value
        return found

    def limit(self, of: str, what: str) -> Value:
        """A limit: of a `job` or of a `task`. Its value is None if the site sets none."""
        (setting,) = (setting for setting in SETTINGS if setting.key == f"limits.{of}.{what}")
        return self.get(setting)


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings for this process, or for another environment. InputError: it holds every problem of the files."""
    given = os.environ if environment is None else environment
    found: dict[Key, Value] = {}
    problems: list[Any] = []
    for path, is_site in files(given):
        try:
            found = _over(found, _read(path, is_site))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)
    return Settings(found, given)


def files(environment: Mapping[str, str]) -> tuple[tuple[str, bool], ...]:
    """The paths of the site's file (True) and of the user's (False), whether they exist or not. InputError: the
    environment names another site's file although there is one that this user cannot change."""
    try:
        user = ((os.path.join(xdg.folder(xdg.CONFIG, environment), "kedge", "config.toml"), False),)
    except CannotRun:  # a user without a home folder has no settings
        return ((_site_file(environment), True),)
    return ((_site_file(environment), True), *user)


def _site_file(environment: Mapping[str, str]) -> str:
    other = environment.get(SITE_VARIABLE)
    if not other:
        return SITE_FILE
    if os.path.lexists(SITE_FILE) and not os.access(SITE_FILE, os.W_OK):
        raise InputError(f"{SITE_VARIABLE} cannot replace {SITE_FILE}, which this user must not change; unset it")
    return os.path.abspath(other)


def _read(path: str, is_site: bool) -> dict[Key, Value]:
    try:
        found = os.stat(path)
    except _ABSENT:
        return {}
    except OSError:
        if not is_site:  # a folder that this user cannot enter, such as that of another user, holds none of theirs
            return {}
        state: object = None
    else:
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
    values: dict[Key, Value] = importlib.import_module("kedge.settings.files").read(path, is_site, state)
    return values


def _over(earlier: Mapping[Key, Value], later: Mapping[Key, Value]) -> dict[Key, Value]:
    """The values of both; of an entry of a group, only those of the later file that has it."""
    replaced = {key[:2] for key in later if key[0] in GROUPS}
    return {**{key: value for key, value in earlier.items() if key[:2] not in replaced}, **later}


def _from_text(setting: Setting, text: str) -> Any:
    return importlib.import_module("kedge.settings.variables").read(setting, text)
