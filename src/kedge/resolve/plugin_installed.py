"""A plugin of an installed package, in the entry point group `kedge.plugins`."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import EntryPoint
from typing import Any

from kedge import entry_points
from kedge.plugins.base import Parameter, ParameterError, Plugin, PluginFailed, Steps, checked

GROUP = "kedge.plugins"
_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # see cli.stop_requests


def installed() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of all plugins of installed packages, by name."""
    return entry_points.by_name(GROUP)


class Installed:
    """The plugin behind an entry point. Any failure in it becomes a PluginFailed of one line, even `sys.exit` (only
    `os._exit` cannot be caught). Its prints go to stderr."""

    def __init__(self, points: tuple[EntryPoint, ...]) -> None:
        self._name = points[0].name
        self._package = entry_points.packages(points)
        if len({point.value for point in points}) > 1:
            raise PluginFailed(f"several packages have a plugin {self._name}: {self._package}; uninstall all but one")
        with self._guarded("cannot be loaded"):
            loaded = points[0].load()
            self._plugin: Plugin = loaded() if isinstance(loaded, type) else loaded
            self.parameters = self._table()

    def steps(self, values: Mapping[str, Any]) -> Steps:
        with self._guarded("failed"):
            steps = self._plugin.steps(values)
            if isinstance(steps, Steps):
                return checked(steps)
        raise PluginFailed(f"the plugin {self._name} ({self._package}) returned {type(steps).__name__}, not Steps")

    def _table(self) -> tuple[Parameter, ...] | None:
        table = getattr(self._plugin, "parameters", ())
        if table is None:
            return None
        listed = tuple(table)
        if not all(isinstance(parameter, Parameter) for parameter in listed):
            raise PluginFailed(f"the plugin {self._name} ({self._package}) has parameters that are not a Parameter")
        return tuple(parameter._replace(read=self._reader(parameter)) for parameter in listed)

    def _reader(self, parameter: Parameter) -> Callable[[object], Any]:
        def read(value: object) -> Any:
            with self._guarded(f"failed on its parameter {parameter.name!r}"):
                return parameter.read(value)

        return read

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Turns any error in the plugin's code into PluginFailed, except an interrupt by the user."""
        with _interrupts() as interrupted, redirect_stdout(sys.stderr):
            try:
                yield
            except (ParameterError, PluginFailed):
                raise
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and interrupted:
                    raise
                raise self._failed(what, error) from error

    def _failed(self, what: str, error: BaseException) -> PluginFailed:
        failure = entry_points.failure(error)
        return PluginFailed(f"the plugin {self._name} ({self._package}) {what}: {failure}")


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collects the signals that raise KeyboardInterrupt in the meantime, because any code can raise it itself."""
    received: list[int] = []
    before: dict[int, Callable[[int, Any], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        before |= {number: found for number in _INTERRUPTING if callable(found := signal.getsignal(number))}

    def handler(number: int, frame: Any) -> None:
        received.append(number)
        before[number](number, frame)

    for number in before:
        signal.signal(number, handler)
    try:
        yield received
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
