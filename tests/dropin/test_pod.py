"""A whole pod in real containers: its init container and the user's container, from the image of the runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import framework_files
from .api_servers import serving_api
from .runtime_images import IN_CONTAINERS, podman
from .test_phase import IN_THE_POD, IN_THE_TEXT

pytestmark = IN_CONTAINERS
_IMAGES = Path(__file__).parents[2] / "examples" / "images" / "build"
RUNTIME_CONFIG = """\
commands: ["ls  -al",  "echo hi"]
runtimePlugin:
- plugin: ssh
  parameters:
    jobssh: true
- plugin: teamwise_storage
  parameters:
    storageConfigNames:
    - confignfs
"""
# The pod of the interface's description, with the indentation mended and folders of the host for Secret and ConfigMap.
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: default
spec:
  hostNetwork: true
  restartPolicy: Never
  initContainers:
  - name: init
    image: {image}
    env:
{variables}
    - name: RUNTIME_CONFIG
      value: |-
{runtime_config}
    - name: INIT_CONFIG
      value: |-
{init_config}
    volumeMounts:
    - name: pai-vol
      mountPath: '/usr/local/pai'
    - name: 'job-secrets'
      mountPath: '/usr/local/pai/config/secrets.yaml'
    - name: 'job-exit-spec'
      mountPath: '/usr/local/pai/config/runtime-exit-spec.yaml'
  containers:
  - name: app
    image: {user_image}
    command: ['/usr/local/pai/runtime']
    volumeMounts:
    - name: pai-vol
      mountPath: '/usr/local/pai'
    - name: 'job-secrets'
      mountPath: '/usr/local/pai/config/secrets.yaml'
    - name: 'job-exit-spec'
      mountPath: '/usr/local/pai/config/runtime-exit-spec.yaml'
  volumes:
  - name: pai-vol
    emptyDir: {{}}
  - name: 'job-secrets'
    hostPath: {{path: {folder}/secrets.yaml}}
  - name: 'job-exit-spec'
    hostPath: {{path: {folder}/runtime-exit-spec.yaml}}
"""


@pytest.fixture(scope="session")
def framework_server() -> Iterator[dict[str, str]]:
    """The variables of the first task of a framework that an API server has."""
    with serving_api() as api:
        api.answers = [framework_files.checked_example()]
        nowhere = {"PAI_IMAGE_MIRRORS": "docker.io=http://127.0.0.1:1"}  # the check of the image passes at once
        yield framework_files.VARIABLES | nowhere | {"KUBE_APISERVER_ADDRESS": api.url}


@pytest.fixture(scope="session")
def user_image() -> str:
    """An image with a shell and no Python."""
    done = subprocess.run([_IMAGES, "busybox"], capture_output=True, text=True, env=os.environ | {"TOOL": "podman"})
    if done.returncode:
        pytest.skip(f"the image cannot be made here: {done.stderr.strip()}")
    return "localhost/kedge/busybox:1"


@pytest.mark.skipif(not shutil.which("catatonit"), reason="catatonit is not installed, which podman needs for a pod")
def test_the_pod_of_the_interface_runs_as_printed(
    runtime_image: str, user_image: str, framework_server: dict[str, str], tmp_path: Path
) -> None:
    name = f"kedge-test-{os.getpid()}"
    for file, text in (("secrets.yaml", "token: s3cret\n"), ("runtime-exit-spec.yaml", "[]\n")):
        (tmp_path / file).write_text(text)
    lines = [f"    - {{name: {key}, value: '{value}'}}" for key, value in framework_server.items()]
    described = POD.format(
        name=name, image=runtime_image, user_image=user_image, folder=tmp_path, variables="\n".join(lines),
        runtime_config=textwrap.indent(RUNTIME_CONFIG, " " * 8), init_config=textwrap.indent(IN_THE_POD, " " * 8),
    )  # fmt: skip
    (tmp_path / "pod.yaml").write_text(described)
    try:
        played = podman("kube", "play", tmp_path / "pod.yaml", check=False)
        init = podman("logs", f"{name}-init", check=False)
        assert played.returncode == 0, played.stderr + init.stdout + init.stderr
        podman("wait", f"{name}-app")
        app = podman("logs", f"{name}-app")
    finally:
        podman("pod", "rm", "-f", name, check=False)
    assert app.stdout.splitlines()[-1] == "hi", app.stderr


@pytest.mark.parametrize("plugins", [None, IN_THE_TEXT])
def test_a_task_of_a_framework(
    runtime_image: str, user_image: str, framework_server: dict[str, str], tmp_path: Path, plugins: str | None
) -> None:
    """From the API server to the task's output, by the built-in list and by the list that the description prints."""
    pai = tmp_path / "pai"
    pai.mkdir()
    variables = framework_server | ({"INIT_CONFIG": plugins} if plugins else {})
    variables |= {"USER_CMD": "echo $PAI_HOST_IP_taskrole_0 $PAI_CURRENT_CONTAINER_PORT; exit 3"}
    given = [word for key, value in variables.items() for word in ("-e", f"{key}={value}")]
    pod = ("run", "--rm", "--network", "host", "-v", f"{pai}:/usr/local/pai")
    init = podman(*pod, *given, runtime_image, check=False)
    log = (pai / "logs" / framework_files.FIRST_UID / "init.log").read_text()
    assert init.returncode == 0, log
    termination = tmp_path / "termination-log"
    termination.touch()
    mounted = ("-v", f"{termination}:/tmp/pai-termination-log")  # as Kubernetes does
    task = podman(*pod, *mounted, user_image, "/usr/local/pai/runtime", check=False)
    assert task.returncode == 255
    assert termination.read_text().startswith("[PAI_RUNTIME_ERROR_START]\nexitCode: 255\noriginUserExitCode: 3\n")
    assert task.stdout.split()[0] == framework_files.FIRST_HOST
    logs = pai / "logs" / framework_files.FIRST_UID
    assert "[INFO] USER COMMAND START" in (logs / "runtime.log").read_text()
    assert (logs / "user-stdout" / "current").read_text() == task.stdout
    assert (logs / "pai-termination-log").read_text() == termination.read_text()
