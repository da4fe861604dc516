"""The variables of the programs that read a framework."""

from __future__ import annotations

from kedge.dropin.cluster.framework_request import FrameworkName
from kedge.light.types import Mapping, NamedTuple

_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")


class BadSetting(ValueError):
    """A variable is missing or has a value that is not allowed. It is wrong for every attempt."""


class BarrierSettings(NamedTuple):
    """Times are in seconds."""

    framework: FrameworkName
    interval: float
    timeout: float


def barrier_settings(environment: Mapping[str, str]) -> BarrierSettings:
    """What a barrier waits for, and how long. BadSetting."""
    return BarrierSettings(
        framework_name(environment),
        _seconds(environment, "BARRIER_CHECK_INTERVAL_SEC", 10, 5, None),
        _seconds(environment, "BARRIER_CHECK_TIMEOUT_SEC", 600, 60, 1200),
    )


def framework_name(environment: Mapping[str, str]) -> FrameworkName:
    """The framework of this pod. BadSetting."""
    namespace = environment.get("FC_FRAMEWORK_NAMESPACE") or "default"
    name = environment.get("FC_FRAMEWORK_NAME") or ""
    if not name:
        raise BadSetting("FC_FRAMEWORK_NAME is not set; FrameworkController sets it in every pod of a framework")
    for variable, value in (("FC_FRAMEWORK_NAMESPACE", namespace), ("FC_FRAMEWORK_NAME", name)):
        if not _IN_NAMES.issuperset(value):
            raise BadSetting(f"{variable} is {value!r}, which is not a valid name")
    return FrameworkName(namespace, name)


def _seconds(environment: Mapping[str, str], variable: str, default: int, least: int, most: int | None) -> float:
    value = environment.get(variable) or str(default)
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1
    if number < least or (most is not None and number > most):
        limits = f"from {least} to {most}" if most else f"of at least {least}"
        raise BadSetting(f"{variable} is {value!r}; it must be a number of seconds {limits}")
    return float(number)
