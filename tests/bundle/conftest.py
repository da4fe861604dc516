"""The runtime's bundle in real containers: several kinds of images, and tasks that run in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kedge import contract
from kedge.bundle import build
from kedge.bundle.build import Bundle
from kedge.contract import Step, TaskSpec

ROOT = "/usr/local/pai/kedge"
TASK = "/task"
PODMAN = shutil.which("podman")
_MACHINES = ("x86_64", "aarch64")
_IMAGES = Path(__file__).parents[2] / "examples" / "images" / "build"
# Debian's releases by what their C library is to this machine's, which is that of the bundle.
RELEASES = {"older": "bullseye", "newer": "trixie"}

IN_CONTAINERS = [
    pytest.mark.containers,
    pytest.mark.skipif(not PODMAN, reason="there is no podman to run containers with"),
]


class Done(NamedTuple):
    """The results of a task in a container. `said` is the output of the container itself."""

    code: int
    said: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / contract.REPORT_FILE).read_text())
        return found

    @property
    def output(self) -> str:
        return (self.folder / contract.USER_ALL / contract.CURRENT).read_text()

    @property
    def log(self) -> str:
        return (self.folder / contract.RUNTIME_LOG).read_text()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a command printed with `env`."""
        return dict(line.split("=", 1) for line in self.output.splitlines() if "=" in line)


Run = Callable[..., Done]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache that all processes of the tests share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def bundle(cache: Path) -> Bundle:
    """Core and net, as the container engine uses them."""
    return build.ensure()


@pytest.fixture(scope="session")
def no_net(cache: Path) -> Bundle:
    """The core alone."""
    return build.ensure(("core",))


def task_spec(command: str, *steps: Step, **changes: Any) -> TaskSpec:
    """A task whose folder is /task."""
    spec = TaskSpec(
        user="me", job="test", job_id="me~test", role="worker", task_index=0, job_attempt=0, task_attempt=0,
        uid="11111111-2222", folder=TASK, workdir=f"{TASK}/work", environment={}, command=(command,), steps=steps,
        host="127.0.0.1", ports={"ssh": [22022], "http": [8080]}, peers_file="",
    )  # fmt: skip
    return spec._replace(**changes)


@pytest.fixture
def run(bundle: Bundle, tmp_path: Path) -> Run:
    """Runs a task in a container of an image, started without a shell; `options` are podman's."""

    def started(image: str, spec: TaskSpec, *options: str, start: tuple[str, ...] | None = None) -> Done:
        folder = tmp_path / "task"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # tasks may run as any user
        (folder / contract.SPEC_FILE).write_text(json.dumps(spec.to_json()))
        mounts = ("-v", f"{bundle.path}:{ROOT}:ro", "-v", f"{folder}:{TASK}")
        argv = start or (*build.command(bundle, ROOT), f"{TASK}/{contract.SPEC_FILE}")
        network = () if "--network" in options else ("--network", "none")
        done = podman("run", "--rm", *network, *mounts, *options, image, *argv, check=False)
        return Done(done.returncode, done.stdout + done.stderr, folder)

    return started


def podman(*arguments: str, check: bool = True, **popen: Any) -> subprocess.CompletedProcess[str]:
    assert PODMAN
    done = subprocess.run([PODMAN, *arguments], capture_output=True, text=True, check=False, timeout=600, **popen)
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="session")
def busybox() -> str:
    return _project_image("busybox")


@pytest.fixture(scope="session")
def debian() -> str:
    return _project_image("debian")


@pytest.fixture(scope="session")
def no_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with nothing in it."""
    yield from _image("none", tmp_path_factory.mktemp("none"))


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """busybox without a /tmp, an /etc or a home."""
    root = tmp_path_factory.mktemp("bare")
    _add_busybox(root)
    yield from _image("bare", root)


@pytest.fixture(scope="session")
def musl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image whose only dynamic loader is musl's; its program `hello` needs it."""
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no gcc to make a program for musl with")
    root = tmp_path_factory.mktemp("musl")
    _add_busybox(root)
    _unpack(root, "musl")
    loader = next(root.glob("lib/ld-musl-*.so.1"))
    libc = next(root.glob("lib/*-musl/libc.so"))
    source = root / "hello.c"
    source.write_text('void _exit(int); int puts(const char *); int fflush(void *);'
                      'void _start(void) { puts("hello from musl"); fflush(0); _exit(0); }')  # fmt: skip
    subprocess.run(
        [compiler, "-nostdlib", "-fno-stack-protector", f"-Wl,--dynamic-linker=/lib/{loader.name}", "-o",
         root / "bin" / "hello", source, f"-L{libc.parent}", "-l:libc.so"], check=True,
    )  # fmt: skip
    yield from _image("musl", root)


@pytest.fixture(scope="session", params=sorted(RELEASES))
def other_libc(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with dash and the C library of another release of Debian."""
    root = tmp_path_factory.mktemp(request.param)
    _unpack(root, "libc6", "dash", release=RELEASES[request.param])
    for name in ("bin", "lib", "lib64"):
        if (root / "usr" / name).is_dir() and not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    if not (root / "bin" / "sh").exists():
        (root / "bin" / "sh").symlink_to("dash")
    yield from _image(request.param, root)


def _project_image(name: str) -> str:
    if os.uname().machine not in _MACHINES or not shutil.which("apt-get"):
        pytest.skip("images are made of Debian's packages, and there is no apt-get")
    done = subprocess.run([_IMAGES, name], capture_output=True, text=True, env=os.environ | {"TOOL": "podman"})
    if done.returncode:
        pytest.skip(f"the image {name} cannot be made here: {done.stderr.strip()}")
    return f"localhost/kedge/{name}:1"


def _image(name: str, root: Path) -> Iterator[str]:
    if not PODMAN:
        pytest.skip("there is no podman")
    tag = f"localhost/kedge-test/{name}-{os.getpid()}:1"
    for folder in ("proc", "dev", "sys", "task", ROOT.lstrip("/")):
        (root / folder).mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(
        [PODMAN, "import", "-q", "--change", "ENV PATH=/bin", "-", tag],
        input=archive,
        stdout=subprocess.PIPE,
        check=True,
    )
    yield tag
    podman("rmi", tag)


def _add_busybox(root: Path) -> None:
    _unpack(root, "busybox-static")
    program = next(path for path in (root / "bin" / "busybox", root / "usr" / "bin" / "busybox") if path.exists())
    (root / "bin").mkdir(exist_ok=True)
    if program.parent != root / "bin":
        program.rename(root / "bin" / "busybox")
    shutil.rmtree(root / "usr")
    names = subprocess.run([root / "bin" / "busybox", "--list"], capture_output=True, text=True, check=True).stdout
    for name in names.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")


def _unpack(root: Path, *packages: str, release: str | None = None) -> None:
    """The files of Debian packages; the test is skipped if they are not available."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("there is no apt-get to get Debian's packages with")
    work = Path(tempfile.mkdtemp(dir=root.parent))
    options = _other_release(work, release) if release else ()
    done = subprocess.run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", *options, "download", *packages],
        capture_output=True, text=True, cwd=work,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"Debian's packages are not available: {done.stderr.strip()}")
    for package in work.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)


def _other_release(work: Path, release: str) -> tuple[str, ...]:
    """apt's options for another release than this machine's."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    (work / "sources.list").write_text(f"deb {key} http://deb.debian.org/debian {release} main\n")
    options = (
        "-o", f"Dir::Etc::sourcelist={work}/sources.list", "-o", "Dir::Etc::sourceparts=-",
        "-o", "Dir::State::status=/dev/null", "-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}/cache",
    )  # fmt: skip
    done = subprocess.run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", *options, "update"], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"Debian's release {release} is not available: {done.stderr.strip()}")
    return options
