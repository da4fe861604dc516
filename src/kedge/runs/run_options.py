"""What the submitter of a run gave besides the job file, as run.json holds it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kedge import untrusted_values

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class RunOptions(NamedTuple):
    """The options of a run. `parameters` and `env` have the values that were given. `secrets` has the keys of the
    secrets that the job refers to, `more_secrets` those of all others, and `env_from_shell` the names of variables that
    were taken from the submitter's own environment: none of these has values. `engine` are the options of the engine,
    `storages` the folders that were named for storages. A rerun does not take over `hold_on_failure_sec`.
    Paths are absolute."""

    parameters: Mapping[str, str] = _NOTHING
    secrets: tuple[str, ...] = ()
    more_secrets: tuple[str, ...] = ()
    env: Mapping[str, str] = _NOTHING
    env_from_shell: tuple[str, ...] = ()
    workdir: str | None = None
    rules: tuple[str, ...] = ()
    marketplace: str | None = None
    hosts: tuple[str, ...] = ()
    offline: bool = False
    update_lock: tuple[str, ...] = ()
    engine: Mapping[str, Any] = _NOTHING
    storages: Mapping[str, str] = _NOTHING
    hold_on_failure_sec: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The form that `from_json` reads."""
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in self._asdict().items()}

    @classmethod
    def from_json(cls, data: Any) -> RunOptions:
        """The inverse of `to_json`. ValueError if a value has the wrong type."""
        found = untrusted_values.named(cls, data)
        if not untrusted_values.fits(found, cls):
            raise ValueError("`options` has a value of the wrong type")
        return found
