"""What else is in the decision log: lines between those of events, with facts that a second driver must know.

files     of the run folder: the reports by which a job's failure is judged
pods      that were created: one that is not there any more was deleted, and is not created again
requests  of the owner that were taken up

Logs and outputs are not among them: agents that are still there send theirs again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any

from kedge.own_files import clear
from kedge.quick_dataclasses import dataclass
from kedge.runs.atomic_files import write_json
from kedge.runs.folder import Run
from kedge.untrusted import parse

_START = '{"kedge-'
_FILE, _POD, _REQUEST = "kedge-file", "kedge-pod", "kedge-request"


@dataclass(slots=True)
class LogParts:
    """`events` are the lines of events, `files` the values of JSON files by their paths in the run folder, of each the
    latest; `pods` the names of pods, `requests` ids."""

    events: str = ""
    files: dict[str, Any] = field(default_factory=dict)
    pods: set[str] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)


def file_line(path: str, value: Any) -> str:
    """The line of a JSON file, whose path is relative to the run folder."""
    return json.dumps({_FILE: path, "value": value}) + "\n"


def pod_line(name: str) -> str:
    """The line of a pod that was created."""
    return json.dumps({_POD: name}) + "\n"


def request_line(identity: str) -> str:
    """The line of a request that was taken up."""
    return json.dumps({_REQUEST: identity}) + "\n"


def parted(text: str) -> LogParts:
    """The parts of a log."""
    events, found = [], LogParts()
    for line in text.splitlines(keepends=True):
        if not line.startswith(_START):
            events.append(line)
            continue
        with suppress(ValueError, KeyError, TypeError):
            said = parse(line.encode())
            if _FILE in said:
                found.files[str(said[_FILE])] = said["value"]
            elif _POD in said:
                found.pods.add(str(said[_POD]))
            elif _REQUEST in said:
                found.requests.add(str(said[_REQUEST]))
    found.events = "".join(events)
    return found


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
