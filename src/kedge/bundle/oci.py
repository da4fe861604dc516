"""A bundle as an image: a folder in the image layout of OCI (image-spec 1.1), which podman, skopeo and others read.

Each layer of the bundle becomes a layer of the image. With the layers for the init phase and a shell it is the complete
image of the runtime (tree.py), whose containers run the init phase. Otherwise a container copies the bundle into the
folder given as its argument, see install_program.py.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kedge.bundle import manifest, stubs, tar, tree
from kedge.bundle.layers import CORE, INIT, SHELL
from kedge.contract import PAI_HOME

_TYPE = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # Go's names
_PLACE = f"/{tar.TOP}"  # of a bundle alone
_PATH = f"{tree.BUNDLE}/bin:/usr/local/bin:/bin"


class _Blob(NamedTuple):
    """A blob of the image. `kind` is the end of its media type."""

    kind: str
    data: bytes

    def descriptor(self) -> dict[str, Any]:
        digest = hashlib.sha256(self.data).hexdigest()
        return {"mediaType": f"{_TYPE}.{self.kind}", "digest": f"sha256:{digest}", "size": len(self.data)}


def write(bundle: Path, folder: Path, tag: str) -> str:
    """Write the layout into an empty folder and return the image's digest. OSError if that fails."""
    head, _ = manifest.read(bundle)
    top = tree.BUNDLE if _is_complete(head) else _PLACE
    plain = [_archive(bundle, layer, top) for layer in head["layers"]]
    if _is_complete(head):
        plain.append(tree.archive(bundle, (entry.path for entry in manifest.entries(bundle))))
    layers = [_Blob("layer.v1.tar+gzip", _compressed(data)) for data in plain]
    config = _Blob("config.v1+json", _json(_config(head, plain)))
    image = _Blob("manifest.v1+json", _json(_manifest(head, config, layers)))
    for blob in (*layers, config, image):
        _put(folder, blob)
    described = image.descriptor() | {"annotations": {"org.opencontainers.image.ref.name": tag}}
    index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [described]}
    (folder / "index.json").write_bytes(_json(index))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(described["digest"])


def _is_complete(head: Mapping[str, Any]) -> bool:
    return {INIT, SHELL} <= set(head["layers"])


def _archive(bundle: Path, layer: str, top: str) -> bytes:
    names = [entry.path for entry in manifest.entries(bundle) if entry.layer == layer]
    file = io.BytesIO()
    tar.add(bundle, file, [manifest.NAME, *names] if layer == CORE else names, top.lstrip("/"))
    return file.getvalue()


def _compressed(data: bytes) -> bytes:
    file = io.BytesIO()
    with tar.compressed(file) as inner:
        inner.write(data)
    return file.getvalue()


def _config(head: Mapping[str, Any], plain: list[bytes]) -> dict[str, Any]:
    complete = _is_complete(head)
    return {
        "architecture": _ARCHITECTURES.get(head["machine"], head["machine"]),
        "os": "linux",
        **_created(),
        "config": {**(_init_start() if complete else _install_start(head)), "Labels": _labels(head)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in plain]},
        "history": [
            {"created_by": f"kedge bundle: {layer}"} for layer in (*head["layers"], *(["tree"] if complete else []))
        ],
    }


def _init_start() -> dict[str, Any]:
    """As OpenPAI's image: a command and no entry point, so that `podman run IMAGE sh` gives a shell."""
    return {"Cmd": [f"{tree.HOME}/init"], "Env": [f"PATH={_PATH}"]}


def _install_start(head: Mapping[str, Any]) -> dict[str, Any]:
    start = stubs.command(_PLACE, head["interpreter"], head["loader"])
    return {"Entrypoint": [*start, f"{_PLACE}/install.py"], "Cmd": [PAI_HOME]}


def _labels(head: Mapping[str, Any]) -> dict[str, str]:
    """Labels of the image, with the names that OCI defines (image-spec, annotations.md)."""
    labels = {
        "title": "kedge runtime",
        "description": "The runtime of kedge with a Python of its own, which copies itself into a pod",
        "version": head["kedge"],
        "licenses": " AND ".join(f"({one})" if " OR " in one else one for one in _licences(head)),
        **_created(),
    }
    return {f"org.opencontainers.image.{name}": value for name, value in labels.items()}


def _licences(head: Mapping[str, Any]) -> list[str]:
    return sorted({file["licence"] for file in head["files"]})


def _created() -> dict[str, str]:
    """The time in SOURCE_DATE_EPOCH, so that the same bundle gives the same image; no time without that variable."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not seconds.isdecimal():
        return {}
    return {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds)))}


def _manifest(head: Mapping[str, Any], config: _Blob, layers: list[_Blob]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": config.descriptor(),
        "layers": [layer.descriptor() for layer in layers],
        "annotations": _labels(head),
    }


def _put(folder: Path, blob: _Blob) -> None:
    path = folder / "blobs" / blob.descriptor()["digest"].replace(":", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(blob.data)


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
