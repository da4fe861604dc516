"""Reports of task attempts whose supervisors could not write one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kedge.contract import CANNOT_START, COMMAND_KILLED, PERHAPS_MEMORY, RUNTIME_ERROR
from kedge.engines.base import Task
from kedge.engines.container.api.engine_answers import ContainerState, EngineRefused
from kedge.engines.container.ends import failures
from kedge.engines.container.ends.failures import KnownFacts
from kedge.engines.container.ends.memory_kills import MemoryKill
from kedge.engines.container.images.images import ImageProblem
from kedge.engines.controller.reports import Launch


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(Task("w", 0), str(tmp_path), 0, 0, time.time_ns())


ENDED_BY_KILL = ContainerState(137, False, "", "")
WATCHED = KnownFacts(96 << 20, None, watched=True)
SMALL = KnownFacts(4 << 20, None, watched=True, up=False)
KILL = MemoryKill(0.0, 96 << 20, own_limit=True)


@pytest.mark.parametrize(
    ("state", "known", "code", "reason", "text"),
    [
        (None, WATCHED, -101, RUNTIME_ERROR, "removed from outside"),
        (ContainerState(137, True, "", ""), WATCHED, -1200, COMMAND_KILLED, "more memory than its memoryMB of 96"),
        (ENDED_BY_KILL, WATCHED._replace(kill=KILL), -1200, COMMAND_KILLED, "which used 96 MiB"),
        (
            ENDED_BY_KILL,
            WATCHED._replace(kill=KILL._replace(own_limit=False)), -1200, COMMAND_KILLED, "machine ran out of memory",
        ),
        (ENDED_BY_KILL, SMALL, -1200, COMMAND_KILLED, "memoryMB of 4 is less than the 8 that the runtime"),
        (ENDED_BY_KILL, WATCHED, 137, RUNTIME_ERROR, "killed from outside (signal 9)"),
        (ENDED_BY_KILL, KnownFacts(96 << 20), 137, PERHAPS_MEMORY, "perhaps because it needed more memory"),
        (ENDED_BY_KILL, KnownFacts(), 137, PERHAPS_MEMORY, "perhaps because this machine ran out"),
        (ContainerState(143, False, "", ""), KnownFacts(), 143, RUNTIME_ERROR, "killed from outside (signal 15)"),
        (ENDED_BY_KILL, KnownFacts(killed=True), 137, COMMAND_KILLED, "stopped by KILL"),
        (None, KnownFacts(killed=True), 137, COMMAND_KILLED, "stopped by KILL"),
        (ContainerState(1, False, "", "kedge runtime: no spec"), WATCHED, 1, RUNTIME_ERROR, "kedge runtime: no spec"),
        (ContainerState(127, False, "failed", ""), WATCHED, 1, RUNTIME_ERROR, "exit code 127 and no report: failed"),
    ],
)  # fmt: skip
def test_a_container_without_a_report(
    launch: Launch, state: ContainerState | None, known: KnownFacts, code: int, reason: str, text: str
) -> None:
    report = failures.of_container(launch, state, known)
    assert (report.exit_code, report.reason) == (code, reason)
    assert text in report.message
    assert report.stopped_by == ("KILL" if known.killed else None)


def test_lack_of_memory_is_a_sure_cause(launch: Launch) -> None:
    diagnosis = failures.of_container(launch, ContainerState(137, True, "", ""), WATCHED).diagnosis
    assert diagnosis is not None
    found = diagnosis["cause"], diagnosis["confidence"], diagnosis["behavior"]
    assert found == ("host_oom_kill", "sure", "permanent")


@pytest.mark.parametrize("said", ["runc start x failed: exit status 1", "cannot start a container that has stopped"])
def test_a_start_with_too_little_memory_is_a_lack_of_memory_whatever_the_engine_says(launch: Launch, said: str) -> None:
    report = failures.of_problem(launch, EngineRefused(said, 500), 4 << 20)
    assert report.diagnosis is not None
    assert (report.exit_code, report.diagnosis["cause"]) == (-1200, "host_oom_kill")
    assert "memoryMB of 4 is less than the 8 that the runtime needs" in report.message
    assert said in report.message


def test_an_image_problem_is_an_error_of_the_job_and_logged(launch: Launch) -> None:
    report = failures.of_problem(launch, ImageProblem("the image x cannot be pulled: manifest unknown"))
    assert (report.exit_code, report.reason) == (254, CANNOT_START)
    assert (Path(launch.folder) / "engine.log").read_text().endswith("manifest unknown\n")


def test_a_user_missing_in_the_image_is_an_error_of_the_job_and_quoted(launch: Launch) -> None:
    message = "unable to find user trainer: no matching entries in passwd file"
    report = failures.of_problem(launch, EngineRefused(message, 500))
    assert (report.exit_code, report.reason) == (254, CANNOT_START)
    assert report.diagnosis is not None
    assert report.diagnosis["cause"] == "container_failure"
    assert message in report.diagnosis["evidence"][0]["text"]


def test_if_a_network_cannot_be_made_the_advice_is_network_host(launch: Launch) -> None:
    report = failures.of_problem(launch, EngineRefused("slirp4netns failed: /dev/net/tun", 500))
    assert report.exit_code == -1201
    assert "--network host" in report.message
    assert report.diagnosis is not None
    assert report.diagnosis["remedy"] == ("Use --network host to run it without a network of the job's own.",)


@pytest.mark.parametrize(
    "message",
    [
        "runc: runc create failed: unable to start container process: unable to setup user: invalid argument",
        "container create: keep-id requires additional UIDs or GIDs defined in /etc/subuid and /etc/subgid",
        "container create: creating container storage: could not find enough available IDs",
        "fill out specgen: unrecognized namespace mode bogus passed",
    ],
)
def test_if_ids_are_unavailable_the_advice_names_the_options(launch: Launch, message: str) -> None:
    report = failures.of_problem(launch, EngineRefused(message, 500))
    assert "--userns" in report.message
    assert report.diagnosis is not None
    assert "--userns" in report.diagnosis["remedy"][0]
    assert "docker run" not in str(report.diagnosis)


@pytest.mark.parametrize(
    "message",
    ["runc: unable to set memory limit to 1048576 (current usage: 2695168)", "Minimum memory limit allowed is 6MB"],
)
def test_if_the_memory_limit_is_too_low_the_advice_names_its_key(launch: Launch, message: str) -> None:
    report = failures.of_problem(launch, EngineRefused(message, 500))
    assert report.exit_code == failures.NOT_STARTED
    assert message in report.message
    assert "memoryMB is less than a container needs" in report.message
    assert report.diagnosis is not None
    assert (report.diagnosis["cause"], report.diagnosis["behavior"]) == ("bad_config", "permanent")


def test_the_engine_log_is_not_written_through_a_link_of_a_task(launch: Launch, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (tmp_path / "other").write_text("precious")
    (folder / "engine.log").symlink_to("../other")
    failures.of_problem(launch._replace(folder=str(folder)), EngineRefused("no", 500))
    assert (tmp_path / "other").read_text() == "precious"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host", "network_unreachable"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", "network_transient"),
    ],
)
def test_a_network_failure_of_a_pull_has_remedies_for_images(launch: Launch, message: str, cause: str) -> None:
    diagnosis = failures.of_problem(launch, ImageProblem(f"the image x cannot be pulled: {message}")).diagnosis
    assert diagnosis is not None
    assert diagnosis["cause"] == cause
    assert "registry" in diagnosis["meaning"]
    assert "load" in diagnosis["remedy"][-1]
