"""kedge as a user starts it, on this machine or in containers, and fixtures for that."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.forked import Captured

from kedge.testing.command import TIMEOUT, Kedge

__all__ = ["EXAMPLES", "TIMEOUT", "Kedge", "kedge", "processes_of"]

EXAMPLES = Path(__file__).parents[2] / "examples"
_TOOL = ["podman" if shutil.which("podman") else "docker"]


class Loaded(Kedge):
    """A command that a test waits for is forked from a process that has loaded kedge already (tests/faults/forked.py).

    `start` executes a new interpreter, and so does a command whose interpreter gets settings of its own.
    """

    def execute(self, args: tuple[object, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        changed = dict(environment.items() ^ os.environ.items())
        if any(name.startswith(("PYTHON", "LD_", "LC_", "LANG", "TZ")) for name in changed):
            return super().execute(args, environment)
        argv = self.argv(args)
        command = Captured(argv[3:], self.folder, environment)
        try:
            return subprocess.CompletedProcess(argv, *command.finish(TIMEOUT))
        except subprocess.TimeoutExpired:
            command.kill()
            raise


@pytest.fixture
def kedge(tmp_path: Path) -> Iterator[Kedge]:
    command = Loaded(tmp_path)
    yield command
    command.close()


class InContainers(Loaded):
    """Jobs in containers of one image."""

    def __init__(self, folder: Path, image: str, cache: Path) -> None:
        super().__init__(folder, "container", image=image)
        self.environment["XDG_CACHE_HOME"] = str(cache)  # the runtime's bundle is built once for all tests

    def leftovers(self) -> list[str]:
        found = super().leftovers()
        for run in self.runs():
            label = ("--filter", f"label=kedge.job={run.name}", "--format", "{{.Name}}")
            found += tool("ps", "--all", *label[:-1], "{{.Names}}") + tool("network", "ls", *label)
        return found


def tool(*args: str) -> list[str]:
    """The lines that podman or docker prints."""
    return subprocess.run([*_TOOL, *args], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this test run share."""
    return tmp_path_factory.getbasetemp().parent


@pytest.fixture(scope="session")
def image(shared: Path) -> Callable[[str], str]:
    """Builds an image of examples/images, once per machine, and returns its name."""
    if not shutil.which("podman") and not shutil.which("docker"):
        pytest.skip("containers need podman (Debian: apt-get install podman) or docker")
    if not shutil.which("apt-get"):
        pytest.skip("the images for tests are made of Debian packages, and there is no apt-get")

    @functools.cache
    def make(name: str) -> str:
        with (shared / "images.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            subprocess.run([EXAMPLES / "images" / "build", name], check=True)
        return f"localhost/kedge/{name}:1"

    network = f"kedge-trial-{os.getpid()}"
    try:
        tool("network", "create", network)
        tool("run", "--rm", "--network", network, make("busybox"), "true")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this user cannot start containers in a network here: {error.stderr.strip()}")
    finally:
        subprocess.run([*_TOOL, "network", "rm", network], capture_output=True, check=False)
    return make


@pytest.fixture
def in_containers(tmp_path: Path, image: Callable[[str], str], shared: Path) -> Iterator[Callable[[str], Kedge]]:
    """Makes a kedge whose jobs run in containers of an image of examples/images."""
    commands = []

    def make(name: str) -> Kedge:
        commands.append(InContainers(tmp_path, image(name), shared / "cache"))
        return commands[-1]

    yield make
    for command in commands:
        command.close()


@pytest.fixture(params=["local", "container"])
def on_engine(request: pytest.FixtureRequest) -> Kedge:
    """kedge with each engine. The container image has only busybox."""
    if request.param == "local":
        return request.getfixturevalue("kedge")  # type: ignore[no-any-return]
    return request.getfixturevalue("in_containers")("busybox")  # type: ignore[no-any-return]


@pytest.fixture
def stubs(kedge: Kedge) -> dict[str, str]:
    """Variables that put stubs in place of missing programs and of repositories on github.com."""
    repository = kedge.folder / "github.com" / "ieee8023" / "covid-chestxray-dataset.git"
    repository.mkdir(parents=True)
    (repository / "metadata.csv").write_text("patientid\n")
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for argv in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "x")):
        subprocess.run(["git", *argv], cwd=repository, check=True)
    (kedge.folder / "bin").mkdir()
    for name in ("apt", "wget", "pai_copy"):
        stub = kedge.folder / "bin" / name
        stub.write_text(f'#!/bin/sh\necho "{name} $*"\n')
        stub.chmod(0o755)
    return {
        "PATH": f"{kedge.folder}/bin:{kedge.environment['PATH']}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{kedge.folder}/github.com/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }


@pytest.fixture(params=["local", "container"])
def equipped(request: pytest.FixtureRequest) -> Iterator[tuple[Kedge, dict[str, str]]]:
    """A kedge whose tasks have the stubs, and their variables; none in containers, as the image has the programs."""
    stubs = request.getfixturevalue("stubs")
    if request.param == "local":
        yield request.getfixturevalue("kedge"), stubs
        return
    kedge = request.getfixturevalue("in_containers")("git")
    box = f"kedge-{os.urandom(4).hex()}"
    tool("create", "--name", box, kedge.image, "true")
    tool("cp", str(kedge.folder / "bin"), f"{box}:/stubs")
    tool("cp", str(kedge.folder / "github.com"), f"{box}:/github.com")
    variables = {key: value.replace(str(kedge.folder), "") for key, value in stubs.items()}
    variables["PATH"] = "/stubs:/usr/sbin:/usr/bin"
    changes = [word for key, value in variables.items() for word in ("--change", f"ENV {key}={value}")]
    kedge.image = f"localhost/kedge/test-{box}:1"
    tool("commit", *changes, box, kedge.image)
    tool("rm", box)
    yield kedge, {}
    tool("rmi", "--force", kedge.image)


@pytest.fixture
def derived(image: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Makes a variant of the busybox image by options of `podman import`."""
    made = []

    def make(*options: str) -> str:
        name, box, tar = (
            f"localhost/kedge/test-{os.urandom(4).hex()}:1",
            f"kedge-{os.urandom(4).hex()}",
            tmp_path / "tar",
        )
        tool("create", "--name", box, image("busybox"), "true")
        tool("export", "--output", str(tar), box)
        tool("rm", box)
        made.append(tool("import", *options, str(tar), name)[-1])
        return name

    yield make
    for image in made:  # by its id: a test may have removed its name
        tool("rmi", "--force", image)


def need_own_service() -> None:
    """Skip where kedge uses an engine that is already running."""
    if any(Path(path).exists() for path in ("/var/run/docker.sock", "/run/podman/podman.sock")):
        pytest.skip("there is an engine that is not kedge's own")


def report(kedge: Kedge) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((kedge.only_run() / "report.json").read_text())
    return found


def message(kedge: Kedge) -> str:
    """The cause of the only task's end."""
    return str(next(e["message"] for e in kedge.events() if e["event"] == "task-completed"))


def processes_of(marker: str) -> list[int]:
    """The processes whose command line contains `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
