"""What is known of outputs that are in a cluster and not on this machine: RUN/cluster/outputs.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kedge.own_files import clear
from kedge.runs.atomic_files import write_json
from kedge.runs.folder import Run
from kedge.untrusted import read_json
from kedge.untrusted_values import fits

_FILE = "outputs.json"
OUTPUTS_CLAIM = "outputs_claim"  # in RUN/cluster/job.json: the volume of the cluster that has them; "": none
_LARGEST = 256 << 20  # bytes


class OutputFile(NamedTuple):
    """A regular file, or a link, by its path below its folder; the size is in bytes."""

    path: str
    size: int
    is_link: bool


def files(known: Any) -> Iterator[OutputFile]:
    """The files of a list, without what is damaged."""
    for each in known if isinstance(known, list) else ():
        if (
            isinstance(each, list)
            and len(each) == len(OutputFile._fields)
            and fits(made := OutputFile(*each), OutputFile)
        ):
            yield made


def read(run: Run) -> dict[str, Any]:
    """The lists of files by their folders, such as `attempt-0/worker-0/output`: [path, size, is_link] each."""
    if not run.cluster.exists:
        return {}
    try:
        found = read_json(run.cluster.folder, _FILE, _LARGEST)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_missing(run: Run) -> bool:
    """Whether outputs are on a volume of the cluster, and nobody has looked which."""
    if not run.cluster.exists or (run.cluster.folder / _FILE).exists():
        return False
    return bool(run.cluster.object(run.cluster.job).get(OUTPUTS_CLAIM))


def write(run: Run, lists: Mapping[str, Sequence[OutputFile]]) -> None:
    """Keep what is in these folders, instead of all that was known. DiskFull."""
    write_json(run.cluster.folder / _FILE, {key: list(map(list, files)) for key, files in lists.items()}, synced=False)


def remove(run: Run, path: str) -> None:
    """Forget the list of this folder, which is on this machine now; with an empty path those of all folders."""
    with suppress(OSError):
        if not path:
            clear(run.cluster.folder / _FILE)
        elif path in (known := read(run)):
            write_json(run.cluster.folder / _FILE, {key: known[key] for key in known if key != path}, synced=False)
