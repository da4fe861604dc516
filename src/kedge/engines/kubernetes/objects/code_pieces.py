"""The code of a job as ConfigMaps, which the init container of each pod mounts and puts together."""

from __future__ import annotations

from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.labels import ObjectOwner, metadata
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.objects.run_objects import encoded
from kedge.light.types import Any

LARGEST_PIECE = 900 << 10  # bytes
LARGEST_CODE = 8 << 20  # bytes of the archive; more burdens etcd
ARCHIVE = "code.tar.gz"  # what is larger, in the folder of the run on a volume


def code_pieces(owner: ObjectOwner, archive: bytes) -> tuple[dict[str, Any], ...]:
    """The ConfigMaps that hold a tar.gz of the code, of at most LARGEST_CODE bytes. The names of their keys are in the
    order of the pieces."""
    count = piece_count(len(archive))
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(owner, RunNames(owner.name).code(number), labels.CODE),
            "binaryData": {key(number): encoded(archive[number * LARGEST_PIECE : (number + 1) * LARGEST_PIECE])},
            "immutable": True,
        }
        for number in range(count)
    )


def piece_count(size: int) -> int:
    """The number of ConfigMaps that an archive of `size` bytes needs. ValueError: it is too large for them."""
    if size > LARGEST_CODE:
        raise ValueError(f"{size} bytes of code are too many for ConfigMaps")
    return -(-size // LARGEST_PIECE)


def folder(name: str) -> str:
    """The folder of a run on the volume with its code, which has ARCHIVE alone."""
    return f"{name}.code"


def key(number: int) -> str:
    """The key of a piece in its ConfigMap, and the name of its file in the pod."""
    return f"code.tar.gz.{number:02d}"


def volume(name: str, count: int) -> dict[str, Any]:
    """The volume `code` with all pieces of the run `name`."""
    names = RunNames(name)
    sources = [{"configMap": {"name": names.code(number)}} for number in range(count)]
    return {"name": "code", "projected": {"sources": sources}}
