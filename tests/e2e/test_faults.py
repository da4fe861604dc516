"""After a fault of the controller itself, nothing of the job runs on."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kedge import processes
from kedge.bundle import build
from kedge.engines.base import Task, Update
from kedge.engines.container import leftovers
from kedge.engines.container.api import connection
from kedge.engines.container.api.connection import Connection
from kedge.engines.container.backend import ContainerBackend
from kedge.engines.container.images.images import Images
from kedge.engines.container.placement import ContainerPlaces, Given
from kedge.engines.container.rendering.container_spec import JOB
from kedge.engines.local.backend import LocalBackend
from kedge.engines.local.placement import LocalPlaces
from kedge.jobs.preparation import prepare
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs
from kedge.runs.folder import Run
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge

TASKS = (Task("worker", 0), Task("worker", 1))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path / f"run-{os.urandom(4).hex()}")
    made.path.mkdir(0o700)
    yield made
    processes.kill(lambda: processes.of_job(made.id))


def planned(kedge: Kedge) -> Plan:
    return prepare(str(kedge.job("sleep 1000", roles={"worker": {"instances": 2}})), Inputs(user="me")).plan


def start(backend: LocalBackend | ContainerBackend) -> None:
    """Start both tasks, and wait until they run."""
    backend.place(0)
    for task in TASKS:
        backend.start(task, 0, 0, ())
    heard: list[Update] = []
    wait_until(lambda: heard.extend(backend.poll()) or len(heard) == len(TASKS), TIMEOUT)


def test_local_tasks_end(kedge: Kedge, run: Run) -> None:
    backend = LocalBackend(
        run, LocalPlaces(planned(kedge), run, None, []), 1024, lambda *_, **__: None, lambda: None, 1
    )
    start(backend)
    assert processes.of_job(run.id)
    backend.close()
    assert not processes.of_job(run.id)


def test_containers_end(in_containers: Callable[[str], Kedge], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    kedge = in_containers("busybox")
    monkeypatch.setenv("XDG_CACHE_HOME", kedge.environment["XDG_CACHE_HOME"])
    plan, bundle = planned(kedge), build.ensure()
    with Connection(connection.address()) as connected, ExitStack() as stack:
        client, facts = connected.client, connected.client.facts()
        stack.callback(leftovers.remove, client, run.id)
        places = ContainerPlaces(plan, run, Given(facts, bundle, None, [], False, (), None, {}), None, None)
        threads = threading.active_count()
        backend = ContainerBackend(
            plan, run, client, Images(client, facts.architecture, {}, print), places, lambda *_, **__: None, True,
            connected.restore,
        )  # fmt: skip
        assert threading.active_count() == threads  # they start with the first attempt
        start(backend)
        killed, left = (seen.name for seen in client.containers(f"{JOB}={run.id}"))
        client.signal(killed, signal.SIGKILL)
        assert select.select([backend], [], [], TIMEOUT)[0]  # its end is told, and not taken any more
        backend.close()
        wait_until(lambda: not any(seen.running for seen in client.containers(f"{JOB}={run.id}")), TIMEOUT)
        state = client.state(left)
        assert state
        assert state.exit_code == 128 + signal.SIGKILL


@pytest.mark.parametrize("command", ["mkfifo $PAI_LOG_DIR/report.json.partial", "mkdir $PAI_LOG_DIR/report.json"])
def test_what_a_task_puts_in_place_of_its_report_is_replaced(on_engine: Kedge, command: str) -> None:
    on_engine("run", on_engine.job(command))
    assert (on_engine.task() / "report.json").is_file()
