"""A bundle as a folder, as an archive and as an image; the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kedge.bundle import build, export
from kedge.bundle.build import Bundle
from kedge.contract import REPORT_FILE, SPEC_FILE
from kedge.errors import CannotRun, InputError

from .conftest import Run, podman, task_spec


def kedge(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "kedge", *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def runs(path: Path, tmp_path: Path) -> bool:
    """Whether a task succeeds under the bundle in a folder, started by its script."""
    folder = tmp_path / "attempt"
    folder.mkdir()
    spec = task_spec("true")._replace(folder=str(folder), workdir=str(folder))
    (folder / SPEC_FILE).write_text(json.dumps(spec.to_json()))
    subprocess.run([path / "runtime", folder / SPEC_FILE], check=True)
    return bool(json.loads((folder / REPORT_FILE).read_text())["exit_code"] == 0)


def planned(folder: Path, command: str) -> dict[str, Any]:
    """The TaskSpec from `kedge plan`, with paths in a container, as in docs/bundle.md."""
    prerequisites = [{"name": "i", "type": "dockerimage", "uri": "busybox"}]
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0}
    roles = {"worker": {"dockerImage": "i", "resourcePerInstance": resources, "commands": [command]}}
    job = {"protocolVersion": 2, "name": "j", "type": "job", "prerequisites": prerequisites, "taskRoles": roles}
    (folder / "job.yaml").write_text(json.dumps(job))
    spec: dict[str, Any] = json.loads(kedge("plan", "--task", "worker:0", "--json", str(folder / "job.yaml")))
    spec["logs"]["console"] = True
    return spec | {"folder": "/task/out", "workdir": "/task/out/work", "peers_file": ""}


def test_a_folder(bundle: Bundle, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    export.folder(bundle.path, target)
    assert build.opened(target).digest == bundle.digest
    export.folder(bundle.path, target)  # in place of the one that is there
    assert build.opened(target).digest == bundle.digest
    assert runs(target, tmp_path)


def test_nothing_else_is_overwritten(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "file").touch()
    for name in ("precious", "file"):
        with pytest.raises(InputError, match="exists and is not a bundle"):
            export.folder(bundle.path, tmp_path / name)
        with pytest.raises(InputError, match="exists and is not a bundle"):
            export.image(bundle.path, tmp_path / name, "x:1")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "file", "precious"]


def test_a_target_that_is_not_writable(bundle: Bundle) -> None:
    for write in (export.folder, export.archive):
        with pytest.raises(CannotRun, match=r"cannot be written to /proc/bundle: No such file or directory$"):
            write(bundle.path, Path("/proc/bundle"))


@pytest.mark.parametrize("name", ["bundle.tar", "bundle.tar.gz"])
def test_an_archive(name: str, bundle: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    export.folder(bundle.path, copy)
    export.archive(bundle.path, tmp_path / name)
    export.archive(copy, tmp_path / f"other-{name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"other-{name}").read_bytes()
    with tarfile.open(tmp_path / name) as archive:
        assert {(member.uid, member.gid, member.mtime) for member in archive} == {(0, 0, 0)}
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-C", tmp_path / "unpacked", "-xf", tmp_path / name], check=True)
    assert runs(tmp_path / "unpacked" / "kedge", tmp_path)


def test_the_layout_of_an_image_is_valid_and_reproducible(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in ("one", "two"):
        export.image(bundle.path, tmp_path / name, "kedge-runtime:1")
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    index = json.loads((tmp_path / "one" / "index.json").read_text())
    image = tmp_path / "one" / "blobs" / index["manifests"][0]["digest"].replace(":", "/")
    told = json.loads(image.read_text())
    assert len(told["layers"]) == 2
    config = json.loads((tmp_path / "one" / "blobs" / told["config"]["digest"].replace(":", "/")).read_text())
    assert config["config"]["Labels"] == told["annotations"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in told["annotations"].items()}
    assert labels["title"] == "kedge runtime"
    assert labels["version"] == bundle.head["kedge"]
    assert {"MIT", "Python-2.0", "Apache-2.0"} <= set(labels["licenses"].split(" AND "))
    assert labels["created"] == config["created"] == "2023-11-14T22:13:20Z"


@pytest.mark.containers
def test_an_image_brings_the_bundle_to_where_containers_find_it(
    bundle: Bundle, busybox: str, run: Run, tmp_path: Path
) -> None:
    """As the init container of a pod; then another container starts it by its script."""
    export.image(bundle.path, tmp_path / "layout", "kedge-runtime:1")
    image = podman("pull", "-q", f"oci:{tmp_path}/layout").stdout.strip()
    shared = tmp_path / "shared"
    shared.mkdir()
    mount = ("-v", f"{shared}:/usr/local/pai")
    try:
        for _ in range(2):
            podman("run", "--rm", "--network", "none", *mount, image)
        told = podman("run", "--rm", "--network", "none", image, "/proc", check=False)
    finally:
        podman("rmi", image)
    assert (told.returncode, told.stderr.splitlines()) == (4, [told.stderr.strip()])
    assert build.opened(shared / "kedge").digest == bundle.digest
    (tmp_path / "task").mkdir(mode=0o777)
    mounts = (*mount, "-v", f"{tmp_path}/task:/task")
    (tmp_path / "task" / SPEC_FILE).write_text(json.dumps(planned(tmp_path, "echo hello")))
    start = ("/usr/local/pai/runtime", f"/task/{SPEC_FILE}")
    assert podman("run", "--rm", "--network", "none", *mounts, busybox, *start).stdout == "hello\n"


def test_the_command(tmp_path: Path) -> None:
    told = json.loads(kedge("bundle", "--layers", "core,net", "-o", str(tmp_path / "b"), "--json"))
    assert told["path"] == str(tmp_path / "b")
    assert set(told["layers"]) == {"core", "net"}
    assert told["digest"] == f"sha256:{build.opened(tmp_path / 'b').digest}"
    shown = kedge("bundle", "--layers", "core")
    assert "core" in shown
    assert "sha256:" in shown
    path = Path(shown.splitlines()[-1])
    assert os.path.exists(path / "runtime")


def test_the_command_refuses_unknown_layers() -> None:
    assert "there is no layer 'web'" in kedge("bundle", "--layers", "web", code=2)
