"""Failures that users of OpenPAI's runtime reported, with the right behaviour. Here they run through the whole init
phase, with an API server and a registry of the test. Parts of them are tested elsewhere:

- a registry that answers 401, without credentials, or 429, or not at all: test_image_checker.py
- a plugin whose dependency breaks: test_task_file.py
- an API server that answers "Unauthorized": test_barrier.py
- a termination message that cannot be made short enough: tests/diagnose/exit_spec/test_termination.py
- a task role with an underscore in its name: test_env_generator.py, test_task_file.py
- a git server that answers 429 to many tasks: tests/runtime/actions/test_git.py
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import re2
import yaml

import kedge
from kedge.testing.raw_server import RawServer, serving
from kedge.testing.wait import wait_until

from .api_servers import Api, serving_api, status
from .framework_files import FIRST_HOST, FIRST_UID, SECOND_HOST, SECOND_UID, VARIABLES, framework, port_annotation, role
from .framework_files import status as role_status
from .phases import START, environment

RUNTIME = Path(kedge.__file__).parent / "runtime"
SITE = str(Path(re2.__file__).parents[1])
JOB = """\
protocolVersion: 2
name: siaimes
type: job
jobRetryCount: 0
prerequisites:
  - type: dockerimage
    uri: '{registry}/siaimes/pytorch1.10.0:v1.0.0'
    name: docker_image_0
taskRoles:
  taskrole: &role
    instances: 1
    completion:
      minFailedInstances: 1
    taskRetryCount: 0
    dockerImage: docker_image_0
    resourcePerInstance:
      gpu: 1
      cpu: 6
      memoryMB: 73994
    commands:
      - env
  taskrole_1: *role
defaults:
  virtualCluster: k80
extras:
  com.microsoft.pai.runtimeplugin:
    - plugin: ssh
      parameters:
        jobssh: true
        userssh:
          type: custom
          value: ''
    - plugin: teamwise_storage
      parameters:
        storageConfigNames:
          - share
  hivedScheduler:
    taskRoles:
      taskrole:
        skuNum: 1
        skuType: gpu-machine-k80
      taskrole_1:
        skuNum: 1
        skuType: gpu-machine-k80
"""
FOUND = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def api() -> Iterator[Api]:
    with serving_api() as server:
        yield server


@pytest.fixture
def registry() -> Iterator[RawServer]:
    """Has every image."""
    with serving(FOUND) as server:
        yield server


def stored(config: str) -> dict[str, Any]:
    """The framework of a job with the roles taskrole and taskrole_1, whose tasks are placed."""
    ports = port_annotation({"ssh": 1, "http": 1})
    statuses = [role_status("taskrole", (FIRST_UID, FIRST_HOST)), role_status("taskrole1", (SECOND_UID, SECOND_HOST))]
    return framework([role("taskrole", ports), role("taskrole1", ports)], statuses, config)


def pod(api: Api, name: str, uid: str) -> dict[str, str]:
    """The variables of the init container of a task."""
    own = {"FC_TASKROLE_NAME": name, "FC_TASK_INDEX": "0", "FC_POD_UID": uid}
    return {**VARIABLES, **own, "KUBE_APISERVER_ADDRESS": api.url, "USER_CMD": "env", "HOME": "/nowhere"}


def init(work: Path, variables: dict[str, str]) -> str:
    """Run an init phase that succeeds, and return its log."""
    command = [sys.executable, "-c", START]
    done = subprocess.run(
        command, env=environment(work, **variables), capture_output=True, text=True, cwd="/", timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("name", "uid", "own"), [("taskrole", FIRST_UID, "taskrole"), ("taskrole1", SECOND_UID, "taskrole_1")]
)
def test_a_role_with_an_underscore(name: str, uid: str, own: str, api: Api, registry: RawServer, work: Path) -> None:
    """KeyError: 'taskrole1', because Kubernetes has another name for it."""
    api.answers = [stored(JOB.format(registry=f"127.0.0.1:{registry.port}"))]
    log = init(work, pod(api, name, uid))
    assert "BarrierSucceeded: All Tasks are ready" in log
    variables = (work / "runtime.d/runtime_env.sh").read_text()
    for spelling in ("taskrole_1", "taskrole1"):
        assert f"export PAI_HOST_IP_{spelling}_0='{SECOND_HOST}'\n" in variables
    assert json.loads((work / "runtime.d/kedge-task.json").read_text())["role"] == own


def test_an_api_server_that_refuses_the_service_account(api: Api, work: Path) -> None:
    """The log repeated "Unauthorized" every ten seconds, and nothing named what to configure. It still repeats, because
    an administrator may mend it meanwhile."""
    api.answers = [status(401, "Unauthorized")]
    variables = environment(work, **pod(api, "taskrole", FIRST_UID))
    with subprocess.Popen([sys.executable, "-c", START], env=variables, stderr=subprocess.DEVNULL, cwd="/") as process:
        log = work / "logs" / FIRST_UID / "init.log"
        wait_until(lambda: log.exists() and "kubectl create rolebinding" in log.read_text(), 60)
        text = log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert "Failed to get Framework object from ApiServer: Unauthorized\n" in text
    assert "the request had no credentials" in text
    assert "get, list and watch on frameworks.frameworkcontroller.microsoft.com in the namespace default" in text
    assert (work / "logs" / FIRST_UID / "barrier.log").read_text() in log.read_text()


def test_a_summary_that_was_too_long(api: Api, registry: RawServer, work: Path, tmp_path: Path) -> None:
    """ "failed to truncate the exit info", for logs that cannot be cut at any byte."""
    api.answers = [stored(JOB.format(registry=f"127.0.0.1:{registry.port}"))]
    command = "for n in $(seq 200); do printf '错误%.0s' $(seq 200); printf '\\377\\n'; done; kill -SEGV $$"
    variables = pod(api, "taskrole", FIRST_UID) | {"USER_CMD": command}
    init(work, variables)
    message = tmp_path / "termination-log"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(RUNTIME), str(work / "runtime.d/kedge-task.json"), "--site", SITE],
        env=environment(work, **variables, PAI_TERMINATION_LOG=str(message)), capture_output=True, timeout=60,
        cwd=tmp_path,
    )  # fmt: skip
    data = message.read_bytes()
    assert len(data) <= 4096
    lines = data.decode().splitlines()
    assert (lines[0], lines[-1]) == ("[PAI_RUNTIME_ERROR_START]", "[PAI_RUNTIME_ERROR_END]")
    told = yaml.safe_load("\n".join(lines[1:-1]))
    assert (told["exitCode"], told["originUserExitCode"]) == (done.returncode, 139)
    assert told["errorLogs"]["user"].rstrip().endswith("错误\ufffd")
