"""Files of the run folder in the decision log: lines between those of events, which a second driver makes files of.

They are what it cannot go on without: the peers that tasks were started with, and the reports by which a job's failure
is judged. Logs and outputs are not among them: agents that are still there send theirs again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from kedge.own_files import clear
from kedge.runs.atomic_files import write_json
from kedge.runs.folder import Run
from kedge.untrusted import parse

_FILE = "kedge-file"
_START = f'{{"{_FILE}":'


def line(path: str, value: Any) -> str:
    """The line of a JSON file, whose path is relative to the run folder."""
    return json.dumps({_FILE: path, "value": value}) + "\n"


def parted(text: str) -> tuple[str, dict[str, Any]]:
    """The lines of events in a log, and the files, by path: of each the latest."""
    events, files = [], {}
    for each in text.splitlines(keepends=True):
        if not each.startswith(_START):
            events.append(each)
            continue
        with suppress(ValueError, KeyError, TypeError):
            found = parse(each.encode())
            files[str(found[_FILE])] = found["value"]
    return "".join(events), files


def restore(run: Run, files: Mapping[str, Any]) -> None:
    """Make the files that are not there. DiskFull."""
    for path, value in files.items():
        place = _inside(run, path)
        if place is None or place.exists():
            continue
        with suppress(OSError):
            if not place.parent.is_dir():
                clear(place.parent)
                place.parent.mkdir(parents=True)
            write_json(place, value, mode=0o644, synced=False)


def _inside(run: Run, path: str) -> Path | None:
    """Where in the run folder a file is; None if it is not there."""
    parts = PurePosixPath(path).parts
    plain = parts and all(part not in ("..", "/") for part in parts)
    return run.path.joinpath(*parts) if plain else None
