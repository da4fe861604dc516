"""The image of the runtime in real containers: what it holds, and images that a site builds on it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kedge.bundle import manifest
from kedge.bundle.build import Bundle

from .runtime_images import IN_CONTAINERS, podman
from .test_phase import spec

pytestmark = IN_CONTAINERS
PAI = "/usr/local/pai"
HOME = "/opt/kube-runtime"


class Done(NamedTuple):
    """A container that has ended. `pai` is the volume that was mounted at /usr/local/pai."""

    code: int
    output: str
    pai: Path

    @property
    def log(self) -> str:
        return (self.pai / "logs" / "pod-1" / "init.log").read_text()


RunImage = Callable[..., Done]


@pytest.fixture
def site_image(runtime_image: str, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Builds an image from a Containerfile's second line, and the files beside it."""
    names = []

    def built(line: str, **files: str) -> str:
        folder = tmp_path / f"site-{len(names)}"
        folder.mkdir()
        (folder / "Containerfile").write_text(f"FROM {runtime_image}\n{line}\n")
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        names.append(f"localhost/kedge-test/site-{os.getpid()}-{len(names)}:1")
        podman("build", "-q", "-t", names[-1], folder)
        return names[-1]

    yield built
    for name in names:
        podman("rmi", "-f", name)


@pytest.fixture
def run(tmp_path: Path) -> RunImage:
    """Runs an init container, as a pod does it."""

    def started(name: str, *command: str, options: tuple[str, ...] = (), **variables: str) -> Done:
        pai = tmp_path / "pai"
        pai.mkdir(exist_ok=True)
        given = [
            word for name, value in ({"FC_POD_UID": "pod-1"} | variables).items() for word in ("-e", f"{name}={value}")
        ]
        mount = ("-v", f"{pai}:{PAI}")
        done = podman("run", "--rm", "--network", "none", *mount, *given, *options, name, *command, check=False)
        return Done(done.returncode, done.stdout + done.stderr, pai)

    return started


def test_a_containerfile_of_two_lines(site_image: Callable[..., str], run: RunImage) -> None:
    """The file runs by itself, under the path that the interface's description gives, and under its misprint."""
    script = '#!/bin/sh\necho "site: $0 in $PWD" | tee "$PAI_RUNTIME_DIR/made"\n'
    done = run(site_image(f"COPY my.sh {PAI}/init.d/", **{"my.sh": script}))
    assert done.code == 0
    expected = f"site: {PAI}/init.d/my.sh in {PAI}"
    assert done.log.splitlines()[-1] == done.output.splitlines()[-1] == expected
    assert (done.pai / "runtime.d" / "made").read_text() == f"{expected}\n"
    misprint = run(site_image("COPY src /user/local/pai/init.d", src="#!/bin/sh\necho misprint; exit 4\n"))
    assert misprint.code == 1
    assert misprint.log.splitlines()[-2] == "misprint"
    assert misprint.log.endswith("child process is src, exit code is 4\n")


def test_a_site_replaces_a_program_of_kedge(site_image: Callable[..., str], run: RunImage) -> None:
    changed = site_image(f"COPY imageChecker.py {PAI}/init.d/", **{"imageChecker.py": "#!/bin/sh\nexit 1\n"})
    done = run(changed, INIT_CONFIG=spec({"command": "imageChecker.py"}))
    assert done.code == 254
    assert "child process is DOCKER_IMAGE_CHECKER, exit code is 1" in done.log


def test_the_image_brings_sh_and_python(runtime_image: str, run: RunImage) -> None:
    commands = (
        {"command": "python3 --version && /usr/bin/python3 --version && /usr/bin/env python3 --version"},
        {"command": "set -o pipefail; ls /bin | grep -c . ; busybox | head -1; id -un; cd /tmp && mktemp x.XXXXXX"},
    )
    done = run(runtime_image, INIT_CONFIG=spec(*commands, {"command": "python portChecker.py none; test $? != 127"}))
    assert done.code == 0, done.log
    assert done.log.count("Python 3.") == 3
    assert "root" in done.log.splitlines()
    assert podman("run", "--rm", "--network", "none", runtime_image, "sh", "-c", "echo $((6 * 7))").stdout == "42\n"


def test_a_restart_and_other_volumes_below_the_work_folder(runtime_image: str, run: RunImage, tmp_path: Path) -> None:
    """Everything but logs and mounts is made anew, and no harmless error is logged."""
    for folder in ("secrets", "config", "extension"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text(folder)
    pai = tmp_path / "pai"
    (pai / "logs" / "pod-1").mkdir(parents=True)
    (pai / "logs" / "pod-1" / "runtime.log").write_text("before")
    (pai / "stale" / "deep").mkdir(parents=True)
    (pai / "runtime.d").mkdir()
    (pai / "runtime.d" / "kedge-task.json").write_text("{}")
    mounts = [
        word
        for folder, place in (
            ("secrets", "secrets"),
            ("config", "config/inner"),
            ("extension", "user-extension-secrets"),
        )
        for word in ("-v", f"{tmp_path / folder}:{PAI}/{place}:ro")
    ]
    for _ in range(2):
        done = run(runtime_image, options=tuple(mounts))
        assert done.code == 0
    assert not [line for line in done.log.splitlines() if " - INFO - " not in line]
    assert not (pai / "stale").exists()
    assert not (pai / "runtime.d" / "kedge-task.json").exists()
    assert len(list((pai / "logs" / "pod-1").glob("prelog_*/runtime.log"))) == 1
    assert {path.name for path in pai.iterdir()} == {
        "init", "runtime", "init.d", "runtime.d", "plugins", "kedge", "logs", "secrets", "config",
        "user-extension-secrets",
    }  # fmt: skip


def test_a_pod_that_does_not_run_as_root(runtime_image: str, run: RunImage, tmp_path: Path) -> None:
    """The init container must have the same user, as a `runAsUser` of the pod gives it."""
    alone = ("--user", "1000:1000")
    assert run(runtime_image, RUNTIME_CONFIG="commands: [id -u]").code == 0
    refused = run(runtime_image, f"{PAI}/runtime", options=alone)
    assert refused.code == 1
    assert f"this user cannot write to {PAI}/runtime.d: mount the volume writable" in refused.output
    shutil.rmtree(tmp_path / "pai")
    (tmp_path / "pai").mkdir()
    (tmp_path / "pai").chmod(0o777)  # as Kubernetes makes an empty volume
    assert run(runtime_image, options=alone, RUNTIME_CONFIG="commands: [id -u]").code == 0
    both = run(runtime_image, f"{PAI}/runtime", options=alone)
    assert both.code == 0
    assert "1000" in both.output.splitlines()


def test_the_volume_has_what_a_task_needs_and_no_more(complete: Bundle, runtime_image: str, run: RunImage) -> None:
    done = run(runtime_image)
    entries = manifest.entries(complete.path)
    copied = {path.relative_to(done.pai / "kedge") for path in (done.pai / "kedge").rglob("*") if path.is_file()}
    assert copied == {Path("MANIFEST.json"), *(Path(e.path) for e in entries if e.layer not in ("init", "shell"))}
    for entry in entries:
        if Path(entry.path) in copied:
            file = done.pai / "kedge" / entry.path
            assert file.read_bytes() == (complete.path / entry.path).read_bytes()
            assert file.stat().st_mode == (complete.path / entry.path).stat().st_mode
    missing = run(runtime_image, f"{PAI}/runtime")
    assert missing.code == 1
    assert missing.output.startswith(
        f"kedge runtime: the init phase has written no {PAI}/runtime.d/kedge-task.json: see"
    )
    task = json.dumps({"not": "a task"})
    (done.pai / "runtime.d" / "kedge-task.json").write_text(task)
    failed = run(runtime_image, f"{PAI}/runtime")
    assert failed.code == 1
    assert f"{PAI}/runtime.d/kedge-task.json is not a task specification" in failed.output
    assert "cannot write" not in failed.output


def test_where_the_shell_is_from_is_in_the_manifest(complete: Bundle) -> None:
    (entry,) = (each for each in manifest.entries(complete.path) if each.path == "shell/busybox")
    assert entry.licence == "GPL-2.0-only"
    if shutil.which("dpkg-query"):
        assert entry.origin.startswith("Debian busybox-static ")
        assert ", source package busybox " in entry.origin
        assert (complete.path / "licences" / "busybox-static" / "copyright").is_file()
        assert (complete.path / "licences" / "busybox-static" / "GPL-2").is_file()


def image_config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(podman("image", "inspect", name).stdout)[0]
    return found


def test_the_image_starts_the_init_phase_by_its_command(runtime_image: str) -> None:
    found = image_config(runtime_image)
    assert found["Config"]["Cmd"] == [f"{HOME}/init"]
    assert not found["Config"].get("Entrypoint")
    assert "GPL-2.0-only" in found["Labels"]["org.opencontainers.image.licenses"]
