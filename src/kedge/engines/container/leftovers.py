"""Stops and removes what is left of a run in the container engine: containers, networks
and volumes, found by their label."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from kedge.engines.container import ownership
from kedge.engines.container.api import connection
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.connection import Connection
from kedge.engines.container.api.engine_answers import EngineGone, EngineRefused
from kedge.engines.container.rendering import container_spec
from kedge.errors import CannotRun
from kedge.runs.atomic_files import write_json
from kedge.runs.folder import ENGINE_FILE, Run
from kedge.untrusted import read_json

_WORKERS = 4
_LARGEST = 1 << 16  # bytes
_PATIENCE_SEC = 15.0  # beyond the grace period, for supervisors to end and write their reports
_PAUSE_SEC = 0.1
_MOST_ROUNDS = 3  # the engine may still be making what was requested just before


def note_engine(run: Run, address: str) -> None:
    """Record which engine a run uses."""
    write_json(run.path / ENGINE_FILE, {"address": address})


def engine_of(run: Run) -> str:
    """The address of a run's engine; that of the current engine if it is unknown or its socket is gone. CannotRun if
    there is none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = str(read_json(run.path, ENGINE_FILE, _LARGEST)["address"])
        if found == connection.PODMAN or os.path.exists(found.removeprefix("unix://")):
            return found
    return connection.address()


def remove(client: Client, run_id: str) -> None:
    """Remove every container, network and volume of a run, even those that the engine is still making. CannotRun names
    what is left."""
    label = f"{container_spec.JOB}={run_id}"
    for _ in range(_MOST_ROUNDS):
        containers = [seen.name for seen in client.containers(label)]
        errors = _each(client.remove, containers)
        networks = client.networks(label)
        errors |= _each(client.remove_network, networks)
        volumes = client.volumes(label)
        errors |= _each(client.remove_volume, volumes)
        if not containers and not networks and not volumes:
            return
    left = [*(seen.name for seen in client.containers(label)), *client.networks(label), *client.volumes(label)]
    if left:
        reasons = (f"{name} ({errors.get(name) or 'new'})" for name in left)
        raise CannotRun("these cannot be removed: " + "; ".join(reasons))


def _each(do: Callable[[str], None], names: Sequence[str]) -> dict[str, str]:
    """Call `do` with every name; returns the errors by name, empty for those that worked. EngineGone."""

    def error_of(name: str) -> str:
        try:
            do(name)
        except EngineRefused as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(_WORKERS) as pool:
        return dict(zip(names, pool.map(error_of, names), strict=True))


def forget(run: Run) -> None:
    """Remove the kept containers of a run, and make this user the owner of the files that they wrote."""
    if not os.path.lexists(run.path / ENGINE_FILE):
        return
    with Connection(engine_of(run)) as connected:
        remove(connected.client, run.id)
        if not ownership.all_ours(run.path):
            ownership.give_back(connected.client, run)


def end(run: Run, kill: bool) -> None:
    """End every container of a lost run, by its stop ladder or (`kill`) at once, and remove it. CannotRun names what is
    or may be left."""
    if not os.path.lexists(run.path / ENGINE_FILE):
        return  # it was lost before it requested any
    try:
        with Connection(engine_of(run)) as connected:
            if not kill:
                _stop(connected.client, run)
            remove(connected.client, run.id)
    except EngineGone as error:
        raise CannotRun(f"{run.id} is not stopped; its containers may still be running: {error}") from error
    except CannotRun as error:
        raise CannotRun(f"{run.id} is not stopped: {error}") from error


def _stop(client: Client, run: Run) -> None:
    """Ask all supervisors to stop their tasks, and wait for their end."""
    running = _running(client, run)
    for number in (signal.SIGTERM, signal.SIGCONT):  # they may be suspended
        _each(partial(_signal, client, number), running)  # errors do not matter: all are removed later
    end = time.monotonic() + run.stop_grace_sec() + _PATIENCE_SEC
    while _running(client, run) and time.monotonic() < end:
        time.sleep(_PAUSE_SEC)


def _signal(client: Client, number: int, name: str) -> None:
    client.signal(name, number)


def _running(client: Client, run: Run) -> list[str]:
    return [seen.name for seen in client.containers(f"{container_spec.JOB}={run.id}") if seen.running]
