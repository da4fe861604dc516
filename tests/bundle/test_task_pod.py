"""The pod of a task in real containers of two images: the supervisor as the user of the task's, the agent and what
prepares the pod as another one without any privilege."""

from __future__ import annotations

import json
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.agent.conftest import TASK
from tests.runtime.agent.pod_rig import LIMIT, PodUnderTest
from tests.runtime.agent.test_prepare_pod import MEMBERS, write_pieces

from kedge.bundle import build, export, layers
from kedge.contract import LOADER_VARIABLES
from kedge.engines.kubernetes.objects import pod_paths
from kedge.link import pod_folders
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders
from kedge.testing.wait import wait_until

from .conftest import IN_CONTAINERS, podman

pytestmark = IN_CONTAINERS

# What the level *restricted* of the Pod Security Standards demands, and a read-only root.
OWN = (
    "--user", "65532:65532", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only",
    "--read-only-tmpfs=false",
)  # fmt: skip
SECRETS = {"texts": {"token": "hidden-value"}, "document": {"token": "hidden-value"}}
SHELL = ("/bin/sh", "-c")


class ContainerPod(PodUnderTest):
    """The containers share the host's network, and folders of it as volumes."""

    image = task_image = ""
    user = "0:0"
    task_options: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.name = f"kedge-test-{uuid.uuid4().hex[:8]}"
        for path in (pod_folders.PAI, pod_folders.SECRETS, pod_folders.AGENT_FOLDER, "/kedge/token", "/kedge/code"):
            self.path(path).mkdir(parents=True, exist_ok=True)
            self.path(path).chmod(0o777)  # as the kubelet makes them

    def volumes(self, *paths: str) -> list[str]:
        return [word for path in paths for word in ("-v", f"{self.path(path)}:{path}")]

    def prepare_with(self, *options: str) -> str:
        argv = ("run", "--rm", "--network", "none", *OWN, *self.volumes(pod_folders.PAI, "/kedge/code"), self.image)
        return podman(*argv, *pod_paths.PREPARE_COMMAND, *options).stdout

    def start(self, variables: dict[str, str] | None = None, **orders: Any) -> None:
        line = AgentOrders(
            ["127.0.0.1"], self.server.port, self.keys.certificate, self.run_id, pod_folders.ADDRESS_FILE,
            self.attempt, "worker", [], LIMIT,
        )._replace(**orders).line()  # fmt: skip
        self.path(pod_folders.TOKEN_FILE).write_text(task_token(self.keys, self.attempt, *TASK))
        told = {pod_paths.ORDERS_VARIABLE: line.decode().strip(), pod_paths.NODE_VARIABLE: "n7"}
        variables_of = [word for name, value in told.items() for word in ("-e", f"{name}={value}")]
        volumes = self.volumes(pod_folders.PAI, pod_folders.SECRETS, pod_folders.AGENT_FOLDER, "/kedge/token")
        argv = ["run", "-d", "--name", f"{self.name}-agent", "--network", "host", *OWN, *variables_of, *volumes]
        podman(*argv, self.image, *pod_paths.AGENT_COMMAND, "0")

    def start_supervisor(self) -> None:
        volumes = self.volumes(pod_folders.PAI, pod_folders.SECRETS)
        argv = ["run", "-d", "--name", f"{self.name}-app", "--network", "host", "--user", self.user]
        argv += ["--entrypoint", "", *self.task_options, *volumes]
        podman(*argv, self.task_image, *pod_paths.SUPERVISOR_COMMAND)

    def task_folder(self, task_attempt: int = 0) -> Path:
        return self.path(f"{pod_folders.LOGS}/11111111-2222")

    def wait_for_output(self, text: str) -> None:
        path = self.task_folder() / "user-stdout" / "current"
        wait_until(lambda: path.exists() and text in path.read_text(), what=text)

    def exit_code(self, container: str) -> int:
        return int(podman("wait", f"{self.name}-{container}").stdout)

    def close(self) -> None:
        super().close()
        for container in ("app", "agent"):
            podman("rm", "-f", "-t", "0", f"{self.name}-{container}", check=False)


@pytest.fixture(scope="module")
def runtime_image(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    layout = tmp_path_factory.mktemp("runtime") / "layout"
    export.image(build.ensure(layers.available()).path, layout, "kedge-runtime:test")
    name = f"localhost/kedge-test/pod-runtime-{os.getpid()}:1"
    podman("tag", podman("pull", "-q", f"oci:{layout}").stdout.strip(), name)
    yield name
    podman("rmi", "-f", name)


@pytest.fixture
def pod(runtime_image: str, busybox: str, tmp_path: Path) -> Iterator[ContainerPod]:
    found = ContainerPod(tmp_path)
    found.image, found.task_image = runtime_image, busybox
    yield found
    found.close()


def begun(pod: ContainerPod, command: str, **spec: Any) -> None:
    pod.prepare_with()
    pod.start_supervisor()
    pod.start()
    pod.run(command, **spec)


@pytest.mark.parametrize("user", ["0:0", "1000:1000", "65532:65532"])
@pytest.mark.parametrize("masked", [True, False])
def test_a_task_as_any_user(pod: ContainerPod, user: str, masked: bool) -> None:
    pod.user = user
    command = "id -u; cat /usr/local/pai/secrets/values.json; echo made > $KEDGE_OUTPUT_DIR/x; exit 3"
    begun(pod, command, secrets=SECRETS, mask=masked)
    end = pod.ended()
    assert (end["report"]["user_exit_code"], end["text"]) == (3, "")
    uid, secret = pod.files()["user-stdout/current"].decode().splitlines()
    assert (uid, "hidden-value" in secret) == (user.split(":")[0], not masked)
    assert pod.files()["output/x"] == b"made\n"
    assert json.loads(pod.files()["report.json"]) == end["report"]
    assert os.listdir(pod.path(pod_folders.SECRETS)) == []
    pod.send("finish")
    assert (pod.exit_code("app"), pod.exit_code("agent")) == (255, 0)
    printed = podman("logs", f"{pod.name}-app")
    assert uid in printed.stdout.split()


@pytest.mark.parametrize("options", [(), ("--shares-code",)])
def test_a_task_with_code(pod: ContainerPod, options: tuple[str, ...]) -> None:
    pod.user = "1000:1000"
    write_pieces(pod.path(pod_folders.CODE_PIECES), MEMBERS)
    pod.prepare_with("--code", "train", *options)
    pod.start_supervisor()
    pod.start()
    folder = "/run/code/train" if options else "/run/tasks/0/code/train"
    pod.run(
        "pwd; cat inner/x.py; touch new || echo ' read-only'", workdir=folder, code=None if options else "/run/code"
    )
    assert pod.ended()["report"]["exit_code"] == 0
    lines = pod.files()["user-stdout/current"].decode().splitlines()
    assert lines == [f"{pod_folders.SCRIPTS}/train", "x read-only" if options else "x"]


def test_the_whole_container_of_the_task_is_killed(pod: ContainerPod) -> None:
    """As when the kernel kills all of a control group."""
    begun(pod, "echo last words; sleep 1000")
    pod.wait_for_output("last words")
    podman("kill", "--signal", "KILL", f"{pod.name}-app")
    end = pod.ended()
    assert (end["report"], end["code"], end["text"]) == (None, None, "")
    assert pod.files()["user-stdout/current"] == b"last words\n"
    pod.send("finish")
    assert pod.exit_code("agent") == 0


def test_what_the_image_sets_for_its_loader_is_the_task_s_own(pod: ContainerPod) -> None:
    given = {name: "/nowhere.so" if name.startswith("LD_") else "glibc.x=1" for name in LOADER_VARIABLES}
    given |= {"LD_LIBRARY_PATH": "/nowhere", "PYTHONHOME": "/nowhere"}
    given.pop("LD_DEBUG")
    pod.task_options = tuple(word for name, value in given.items() for word in ("-e", f"{name}={value}"))
    begun(pod, "env")
    assert pod.ended()["report"]["exit_code"] == 0
    printed = pod.files()["user-stdout/current"].decode().splitlines()
    assert {f"{name}={value}" for name, value in given.items()} <= {*printed}


def test_a_program_joins_the_task(pod: ContainerPod) -> None:
    begun(pod, "export_me=1; echo ready; sleep 1000", environment={"FROM_THE_JOB": "yes"})
    pod.wait_for_output("ready")
    done = podman("exec", f"{pod.name}-app", *pod_paths.JOIN_COMMAND, *SHELL, "echo $FROM_THE_JOB; exit 7", check=False)
    assert (done.returncode, done.stdout) == (7, "yes\n")
    pod.control("kill")
    assert pod.ended()["report"] is None


def test_what_goes_wrong_is_told_to_the_cluster(pod: ContainerPod) -> None:
    log = pod.folder / "termination-log"
    log.touch()
    log.chmod(0o666)
    volume = (*OWN, "--rm", "-v", f"{log}:/dev/termination-log")
    done = podman("run", *volume, pod.image, *pod_paths.PREPARE_COMMAND, check=False)
    assert (done.returncode, done.stderr) == (1, log.read_text())
    assert done.stderr.startswith("kedge: the pod of the task cannot be prepared: /usr/local/pai/kedge")
    assert "Traceback" not in done.stderr
    done = podman("run", *volume, pod.image, *pod_paths.AGENT_COMMAND, "0", check=False)
    assert done.returncode == 2
    assert "the variable KEDGE_AGENT_ORDERS, which holds the orders of the agent, is not set" in done.stderr


@pytest.mark.parametrize("name", ["serve-run", "controller"])
def test_the_programs_of_the_driver_start(pod: ContainerPod, name: str) -> None:
    done = podman("run", "--rm", *OWN, pod.image, f"{pod_paths.IMAGE_BUNDLE}/{name}", check=False)
    assert done.stderr.startswith("usage: ")
    assert done.returncode == 2


def test_the_driver_is_the_controller_with_an_argument(pod: ContainerPod) -> None:
    shown = podman("run", "--rm", pod.image, "tail", "-n", "1", f"{pod_paths.IMAGE_BUNDLE}/driver").stdout
    assert '"$here/site/kedge/controller.pyc" --driver "$@"' in shown


def test_a_pod_holds_only_what_its_task_needs(pod: ContainerPod) -> None:
    pod.prepare_with()
    bundle = pod.path(pod_folders.BUNDLE)
    assert not (bundle / "driver").exists()
    assert not (bundle / "init").exists()
    assert stat.S_IMODE((bundle / "runtime").stat().st_mode) == 0o755
