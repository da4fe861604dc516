"""Where everything about one run of a job lies, and how people name runs and tasks.

JOBS/<id>/
  run.json           what the run is (RunInfo)
  job.yaml plan.json what was asked for, secrets masked, and what was made of it
  events.jsonl lock  the controller's log, and the lock that it holds while it lives
  code/              the snapshot of the user's code
  attempt-0/         one folder per attempt of the job
    peers.json
    worker-3/        the first attempt of a task
    worker-3.1/      its first retry
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from kedge import xdg
from kedge.contract import EVENTS_FILE, timestamp
from kedge.errors import CannotRun, InputError
from kedge.runs.files import disk_errors, write_json
from kedge.runs.lock import is_held

_NAME_LENGTH = 40
_NEW_SEC = 60.0
_REMOVED = ".removed-"  # no id begins with a dot
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_.-]+")
_TASK = re.compile(r"(?P<role>\w+)[:-](?P<index>\d+)", re.ASCII)
_TASK_FOLDER = re.compile(r"(?P<role>\w+)-(?P<index>\d+)(?:\.(?P<attempt>\d+))?", re.ASCII)
_ATTEMPT = re.compile(r"attempt-(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What run.json says. `created` is a time as in events, `version` kedge's, `source` the job file's path.

    `secrets_dir` is where the values of the secrets lie while the job lives; `parameters` the job's values for
    `$parameters`.
    """

    id: str
    name: str
    user: str
    engine: str
    created: str
    version: str
    source: str
    secrets_dir: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunInfo:
        """The inverse of `dataclasses.asdict`. Ignores what a newer version may have added."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})


class TaskFolder(NamedTuple):
    """The folder of one attempt of one task."""

    role: str
    task_index: int
    task_attempt: int
    path: Path


@dataclass(frozen=True, slots=True)
class Run:
    """One run by its folder. Creates nothing but what `save` writes."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def job_file(self) -> Path:
        return self.path / "job.yaml"

    @property
    def plan_file(self) -> Path:
        return self.path / "plan.json"

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def events(self) -> Path:
        return self.path / EVENTS_FILE

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def code(self) -> Path:
        return self.path / "code"

    @property
    def exit_spec(self) -> Path:
        """The job's own exit specification, if it has one, as JSON."""
        return self.path / "exit-spec.json"

    def rule_file(self, number: int) -> Path:
        """The n-th file of the job's own rules, compiled."""
        return self.path / f"rules-{number}.json"

    def attempt(self, number: int) -> Path:
        return self.path / f"attempt-{number}"

    def peers(self, attempt: int) -> Path:
        return self.attempt(attempt) / "peers.json"

    def task(self, role: str, index: int, attempt: int, task_attempt: int = 0) -> Path:
        """The folder of one attempt of one task: TaskSpec.folder."""
        retry = f".{task_attempt}" if task_attempt else ""
        return self.attempt(attempt) / f"{role}-{index}{retry}"

    def attempts(self) -> list[int]:
        """The numbers of the job attempts that have a folder."""
        return sorted(int(found[1]) for name in _names(self.path) if (found := _ATTEMPT.fullmatch(name)))

    def tasks(self, attempt: int) -> list[TaskFolder]:
        """The task attempts that have a folder in a job attempt: by role, index, and attempt."""
        folder = self.attempt(attempt)
        return sorted(
            TaskFolder(found["role"], int(found["index"]), int(found["attempt"] or 0), folder / name)
            for name in _names(folder)
            if (found := _TASK_FOLDER.fullmatch(name))
        )

    def save(self, info: RunInfo) -> None:
        """Write run.json; from then on the run is listed."""
        write_json(self.run_file, asdict(info))

    def info(self) -> RunInfo:
        """What run.json says. InputError when this is no run's folder."""
        if info := _read_info(self.path):
            return info
        raise InputError(f"{self.path} is not the folder of a run: its run.json is missing or damaged")


def jobs_dir(environment: Mapping[str, str]) -> Path:
    """$XDG_STATE_HOME/kedge/jobs. CannotRun for a user without a home folder."""
    return Path(xdg.folder(xdg.STATE, environment), "kedge", "jobs")


def create(jobs: Path, name: str) -> Run:
    """Make the folder of a new run of the job `name`, for this user only. CannotRun if that is not possible."""
    stem = _NOT_IN_IDS.sub("-", name)[:_NAME_LENGTH].lstrip(".-") or "job"
    try:
        with disk_errors(jobs):
            jobs.mkdir(parents=True, exist_ok=True)
            return Run(_make_unique(jobs, stem))
    except OSError as error:
        raise CannotRun(f"{jobs}: no run can be made here: {error.strerror}. XDG_STATE_HOME moves it.") from error


def creation_time(jobs: Path) -> str:
    """The time of a run that is made now, as in events: after those of all the others, so that the newest is known as
    the newest also when the clock has been set back."""
    now = timestamp(time.time_ns())
    newest = max((info.created for info in _infos(jobs)), default="")
    if newest < now:
        return now
    try:
        after = datetime.fromisoformat(newest) + timedelta(microseconds=1)
        return timestamp(int(after.timestamp()) * 10**9 + after.microsecond * 1000)
    except (ValueError, OverflowError):  # of a run.json that something has damaged
        return now


def sweep(jobs: Path) -> None:
    """Remove what a submission that was killed has left (no run.json, and a lock that nobody holds and is not new), and
    what a removal has."""
    for name in _names(jobs):
        path = jobs / name
        if name.startswith(_REMOVED) or _abandoned(path):
            shutil.rmtree(path, ignore_errors=True)


def _abandoned(path: Path) -> bool:
    if (path / "run.json").exists() or _age_sec(path / "lock") < _NEW_SEC:
        return False
    return not is_held(path / "lock")


def _age_sec(path: Path) -> float:
    """Of a file; nothing where there is none."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _make_unique(jobs: Path, stem: str) -> Path:
    while True:
        path = jobs / f"{stem}-{base64.b32encode(os.urandom(5)).decode()[:6].lower()}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path


def runs(jobs: Path) -> list[Run]:
    """All runs, newest first. What is not, or not yet, a run's folder is left out."""
    return [Run(jobs / info.id) for info in _infos(jobs)]


def find(jobs: Path, text: str) -> Run:
    """The run that a user means: an exact id, the newest run of a job's exact name, or a unique beginning of an id.

    InputError names the candidates, or the nearest names, when it is none or more than one.
    """
    infos = _infos(jobs)
    exact = [i for i in infos if i.id == text] or [i for i in infos if i.name == text]
    if exact:
        return Run(jobs / exact[0].id)
    begins = [i for i in infos if text and i.id.startswith(text)]
    if len(begins) == 1:
        return Run(jobs / begins[0].id)
    if begins:
        raise InputError(f"{text!r} may be any of {_some([i.id for i in begins])}: give more of the id")
    raise InputError(_unknown(text, infos))


def delete(run: Run) -> None:
    """Delete the folder of a run. CannotRun says what cannot be deleted; the run is then still listed."""
    try:
        folders = [entry.path for entry in os.scandir(run.path) if entry.is_dir(follow_symlinks=False)]
        for path in folders:
            _open_up(path)
            shutil.rmtree(path)
        # The rest at once, so that nobody meets half a run. What is left if this process ends now, `sweep` removes.
        rest = run.path.with_name(f"{_REMOVED}{run.id}")
        os.rename(run.path, rest)
        shutil.rmtree(rest, ignore_errors=True)
    except OSError as error:
        raise CannotRun(f"{run.id} cannot be deleted: {error.filename}: {error.strerror}") from error


def _open_up(folder: str) -> None:
    """Let the owner delete what is in a folder; caches of packages and modules are often made read-only."""
    os.chmod(folder, 0o700)
    with os.scandir(folder) as entries:
        for path in [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]:
            _open_up(path)


def parse_task(text: str) -> tuple[str, int]:
    """The role and index in `worker:3` or `worker-3`. InputError for anything else."""
    if found := _TASK.fullmatch(text):
        return found["role"], int(found["index"])
    raise InputError(f"{text!r} is not a task: write ROLE:INDEX, as in worker:0")


def _infos(jobs: Path) -> list[RunInfo]:
    found = (_read_info(jobs / name) for name in _names(jobs))
    return sorted((info for info in found if info), key=lambda info: (info.created, info.id), reverse=True)


def _read_info(folder: Path) -> RunInfo | None:
    try:
        info = RunInfo.from_json(json.loads((folder / "run.json").read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError):  # half-made, another user's, or not ours at all
        return None
    return info if info.id == folder.name else None


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as error:
        raise CannotRun(f"{folder}: cannot be read: {error.strerror}") from error


def _unknown(text: str, infos: list[RunInfo]) -> str:
    if not infos:
        return f"there is no run {text!r}: nothing has been run yet"
    names = list(dict.fromkeys(name for info in infos for name in (info.name, info.id)))
    if near := difflib.get_close_matches(text, names, n=3):
        return f"there is no run {text!r}; did you mean {' or '.join(near)}?"
    return f"there is no run {text!r}; the latest are {_some([info.id for info in infos])}"


def _some(ids: list[str], most: int = 5) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more
