"""The image of the runtime as one file, for the nodes of a test cluster and for podman: `python -m tests.runtime_image`
prints its path. It is written once for each content, into the user's cache."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

from kedge import xdg
from kedge.bundle import build, export, layers

NAME = "localhost/kedge/runtime:1"
_KEPT = 3  # files: each change of kedge makes another one, of 25 MB


def archive(name: str = NAME) -> Path:
    """A tar file of an OCI layout, in which the image has this name: `ctr -n k8s.io images import FILE` and
    `podman load -i FILE` take it."""
    bundle = build.ensure(layers.choose(layers.LAYERS))
    folder = Path(xdg.cache("test-images", os.environ))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"runtime-{bundle.digest[:16]}.tar"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            layout, partial = Path(temporary, "layout"), Path(temporary, "image.tar")
            export.image(bundle.path, layout, name)
            with tarfile.open(partial, "w") as file:
                file.add(layout, ".")
            partial.rename(path)
    path.touch()
    for old in sorted(folder.glob("runtime-*.tar"), key=lambda each: each.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    print(archive())
