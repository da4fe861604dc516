"""Images for the nodes of a test cluster."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .addresses import NODES
from .cluster import DEADLINE, environment

if TYPE_CHECKING:
    from .own_cluster import OwnCluster


def pause(file: Path) -> Path:
    """An image for the containers that hold the namespaces of pods: busybox that sleeps."""
    busybox = shutil.which("busybox")
    assert busybox, "no busybox (Debian: apt-get install busybox-static)"
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(Path(busybox).resolve(), "busybox")
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/busybox", "sleep", "2147483647"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": ["localhost/pause:1"], "Layers": ["layer.tar"]}]
    with tarfile.open(file, "w") as tar:
        for name, data in (
            ("layer.tar", layer.getvalue()),
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return file


def load(cluster: OwnCluster, file: Path) -> None:
    """Give both nodes the images of an archive."""
    started = []
    for node in NODES:
        argv = ["ctr", f"--address={cluster.folder}/{node}/containerd.sock", "--namespace=k8s.io", "images", "import"]
        started.append(
            subprocess.Popen(
                [*argv, str(file)],
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    for process in started:
        output = process.communicate(timeout=DEADLINE)[0]
        assert process.returncode == 0, output


def load_from_podman(cluster: OwnCluster, name: str, folder: Path) -> None:
    """Give both nodes an image that podman has."""
    file = folder / "image.tar"
    file.unlink(missing_ok=True)
    subprocess.run(["podman", "save", "--quiet", "--output", file, name], check=True, capture_output=True)
    load(cluster, file)
    file.unlink()


def load_once(cluster: OwnCluster, name: str) -> None:
    """Give both nodes an image that podman has, unless another process has done so."""
    mark = cluster.folder / "images" / name.replace("/", ":")
    mark.parent.mkdir(exist_ok=True)
    with locked(mark.with_name("lock")):
        if not mark.exists():
            load_from_podman(cluster, name, mark.parent)
            mark.touch()


def load_runtime(cluster: OwnCluster, make: Callable[[], Path]) -> None:
    """Give both nodes the image of the runtime, which is made once for all processes."""
    mark = cluster.folder / "images" / "runtime"
    with locked(mark.with_name("lock")):
        if not mark.exists():
            load(cluster, make())
            mark.touch()


@contextlib.contextmanager
def locked(file: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock."""
    with file.open("a") as lock:
        fcntl.flock(lock, kind)
        yield
