"""Container images: pulled once, by the digest in the lock file, from registries that fail in every way."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kedge.engines.container.api import connection
from kedge.engines.container.api.connection import Connection
from kedge.engines.container.images.images import Cancelled, ImageProblem, Images
from kedge.jobs.preparation import prepare
from kedge.plan.model import RolePlan
from kedge.resolve.model import Inputs
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge, message, need_own_service, report, tool
from .registry import PASSWORD, USER, Registry

NO_RETRY = {"kedge": {"retry": {"maxTransient": 0}}}


@pytest.fixture
def kedge(in_containers: Callable[[str], Kedge]) -> Kedge:
    return in_containers("busybox")


@pytest.fixture
def registry(kedge: Kedge, tmp_path: Path) -> Iterator[Registry]:
    """A registry that kedge's podman service accepts without TLS."""
    need_own_service()
    served = Registry(tmp_path, kedge.image)
    settings = tmp_path / "registries.conf"
    settings.write_text(f'[[registry]]\nlocation = "{served.address}"\ninsecure = true\n')
    kedge.environment["CONTAINERS_REGISTRIES_CONF"] = str(settings)
    kedge.image = served.name
    yield served
    served.shutdown()
    served.server_close()
    tool("rmi", "--force", served.name)


def private(kedge: Kedge, password: str) -> Path:
    """A job of three tasks with the image of the registry."""
    auth = {"username": USER, "password": "<% $secrets.password %>", "registryuri": kedge.image.partition("/")[0]}
    image = {"name": "private", "type": "dockerimage", "uri": kedge.image, "auth": auth}
    role = {"instances": 3, "dockerImage": "private"}
    return kedge.job(
        "true", roles={"worker": role}, prerequisites=[image], secrets={"password": password}, extras=NO_RETRY
    )


def test_an_image_is_pulled_once_with_the_jobs_password(kedge: Kedge, registry: Registry) -> None:
    done = kedge("run", private(kedge, PASSWORD))
    assert registry.manifests == 1
    assert done.stderr.count(f"pulling the image {registry.name}") == 1
    assert f"pulled the image {registry.name} in" in done.stderr


def test_a_job_can_be_stopped_while_a_registry_does_not_answer(kedge: Kedge, registry: Registry) -> None:
    registry.silent.set()
    process = kedge.start("run", private(kedge, PASSWORD))
    wait_until(lambda: registry.manifests, TIMEOUT)
    process.send_signal(signal.SIGINT)
    kedge.finish(process, 130)
    registry.silent.clear()
    assert {task["state"] for task in report(kedge)["tasks"]} == {"stopped"}
    assert not kedge.leftovers()


def test_ends_are_reported_while_a_registry_does_not_answer(kedge: Kedge, registry: Registry) -> None:
    registry.silent.set()
    there = {"name": "there", "type": "dockerimage", "uri": "localhost/kedge/busybox:1"}
    auth = {"username": USER, "password": "<% $secrets.password %>", "registryuri": registry.address}
    images = [there, {"name": "private", "type": "dockerimage", "uri": registry.name, "auth": auth}]
    goes_on = {"minSucceededInstances": -1}
    roles = {
        "quick": {"dockerImage": "there", "completion": goes_on},
        "waiting": {"instances": 6, "dockerImage": "private"},
    }
    extras = {**NO_RETRY, "gangAllocation": False}
    job = kedge.job("true", roles=roles, prerequisites=images, secrets={"password": PASSWORD}, extras=extras)
    process = kedge.start("run", job)
    wait_until(lambda: registry.manifests and "task-completed" in str(kedge.events()), TIMEOUT)
    process.send_signal(signal.SIGINT)
    kedge.finish(process, 130)
    registry.silent.clear()
    assert not kedge.leftovers()


def test_a_wrong_password_for_an_image_is_reported_but_not_shown(kedge: Kedge, registry: Registry) -> None:
    done = kedge("run", private(kedge, "wrong-password"), code=1)
    assert report(kedge)["tasks"][0]["pai_code"] == 254
    assert "cannot be pulled" in message(kedge)
    assert "wrong-password" not in done.stdout + done.stderr


def test_a_transient_refusal_of_a_registry_is_retried(kedge: Kedge, registry: Registry) -> None:
    """Podman itself tries five times, with the pauses that the registry asks for."""
    registry.private, registry.refusals, registry.refusal = False, 6, (429, {"Retry-After": "1"})
    again = {"kedge": {"retry": {"maxTransient": 1, "backoffSec": 0.1}}}
    kedge("run", kedge.job("true", roles={"worker": {"instances": 3}}, extras=again))
    assert registry.refusals == 0
    (why,) = (event["why"] for event in kedge.events() if event["event"] == "job-retrying")
    assert why == "network_transient is transient"


# Pinned images.


def test_a_locked_image_is_pulled_by_its_digest_even_if_its_tag_has_moved(
    kedge: Kedge, registry: Registry, derived: Callable[..., str]
) -> None:
    registry.private = False
    registry.tag(derived("--message", "first"))
    first = registry.digest
    job = kedge.job("true")
    kedge("lock", job)
    assert json.loads(job.with_suffix(".lock").read_text())["images"] == {registry.name: {"value": f"sha256:{first}"}}
    registry.tag(derived("--change", "USER 1234"))
    for said in (f"pulling the image {registry.name.removesuffix(':1')}@sha256:{first}", ""):
        done = kedge("run", job)
        assert said in done.stderr
    assert "pulling" not in done.stderr
    plan = json.loads(kedge("plan", job, "--json").stdout)
    assert plan["roles"][0]["imagePin"] == f"sha256:{first}"

    tool("pull", "--quiet", "--tls-verify=false", registry.name)
    done = kedge("run", job, code=2)
    told = f"the image {registry.name} has changed since it was locked: it was sha256:{first}, and the one here is"
    assert f"{told} sha256:" in done.stderr
    assert f"; accept the change with --update-lock {registry.name}" in done.stderr
    kedge("run", job, "--update-lock", "image")
    pins = json.loads(job.with_suffix(".lock").read_text())["images"]
    assert pins == {registry.name: {"value": f"sha256:{registry.digest}"}}
    kedge("run", job)
    refused = kedge("run", job, "--update-lock", "other", code=2).stderr
    assert "--update-lock other: the job uses nothing of that name" in refused


def test_an_image_that_is_in_no_registry_is_locked_by_its_id(kedge: Kedge, derived: Callable[..., str]) -> None:
    kedge.image = derived()
    job = kedge.job("true")
    kedge("lock", job)
    (here,) = tool("inspect", "--format", "{{.Id}}", kedge.image)
    assert json.loads(job.with_suffix(".lock").read_text())["images"][kedge.image]["value"] == f"id:sha256:{here}"
    kedge("run", job)
    tool("tag", derived("--change", "USER 1234"), kedge.image)
    assert "has changed since it was locked" in kedge("run", job, code=2).stderr
    tool("rmi", "--force", here)
    tool("untag", kedge.image)
    assert "exists only on the machine where 'kedge lock' ran" in kedge("run", job, code=1).stdout


# A job's images, requested by several threads.


@pytest.fixture
def asking(kedge: Kedge, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", kedge.environment["CONTAINERS_REGISTRIES_CONF"])
    registry.private = False
    role = prepare(str(kedge.job("true")), Inputs(user="me")).plan.roles[0]
    with Connection(connection.PODMAN) as connected:
        yield Asking(connected, role)


class Asking:
    """Images of one role; `said` holds the messages to the user."""

    def __init__(self, connected: Connection, role: RolePlan) -> None:
        self.role, self.said = role, list[str]()
        architecture = connected.client.facts().architecture
        self.images = Images(connected.client, architecture, {}, self.said.append, patience_sec=2.0)

    def at_once(self, retry: int = 0) -> list[BaseException | None]:
        """The error that each of eight tasks got."""
        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(self.images.get, self.role, retry) for _ in range(8)]
        return [future.exception() for future in asked]


def test_a_failed_pull_fails_for_all_tasks(asking: Asking, registry: Registry) -> None:
    registry.refusals, registry.refusal = 1000, (404, {})
    for retry in (0, 1):
        errors = asking.at_once(retry)
        assert {type(error) for error in errors} == {ImageProblem}
        assert "cannot be pulled" in str(errors[-1])
        assert registry.manifests == len([said for said in asking.said if said.startswith("pulling")]) == retry + 1
    registry.refusals = registry.manifests = 0
    asking.images.resume()
    assert asking.at_once() == [None] * 8
    assert registry.manifests > 0  # a busy Podman may ask twice
    assert len([said for said in asking.said if said.startswith("pulling")]) == 3


def test_a_pull_from_a_silent_registry_ends_at_its_time_limit(asking: Asking, registry: Registry) -> None:
    registry.silent.set()
    errors = asking.at_once()
    registry.silent.clear()
    assert {str(error) for error in errors} == {
        f"the image {registry.name} cannot be pulled: no progress for 2 s. "
        "The registry does not answer, or cannot be reached"
    }
    assert [error.cause for error in errors if isinstance(error, ImageProblem)] == ["network_transient"] * 8
    assert f"pulling the image {registry.name}: no progress for 1 s; giving up at 2 s" in asking.said


def test_after_a_stop_nothing_is_pulled(asking: Asking, registry: Registry) -> None:
    asking.images.cancel()
    assert {type(error) for error in asking.at_once()} == {Cancelled}
    assert registry.manifests == 0
    assert not asking.said
