"""The layout of run folders, and the lookup of runs and tasks by name.

JOBS/<id>/
  run.json           what the run is (RunInfo)
  job.yaml plan.json the submitted job file and its plan, with masked secrets
  events.jsonl lock  the controller's log, and the lock that it holds while it lives
  inputs/            what the job used besides its file: lock, documents, rule files
  code/              the snapshot of the user's code
  cluster/           what a run in a cluster has besides (runs.cluster_files)
  job-dir/           $KEDGE_JOB_DIR, which all tasks and attempts share
  storages/          links to the folders of storages, on the local engine: $KEDGE_STORAGE_NAME
  attempt-0/         one folder per job attempt
    peers.json
    worker-3/        the first attempt of a task
      output/        $KEDGE_OUTPUT_DIR
      code/          its own copy of the code
      work/          where it starts if it has no code
    worker-3.1/      its first retry
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, field, fields
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from kedge import untrusted, untrusted_values, xdg
from kedge.contract import CODE_DIR, EVENTS_FILE, JOB_DIR, STORAGES_DIR, StopPolicy, timestamp
from kedge.errors import CannotRun, InputError
from kedge.late_patterns import late_pattern
from kedge.own_files import clear
from kedge.quick_dataclasses import dataclass
from kedge.runs import cluster_files
from kedge.runs.atomic_files import disk_errors, write_json
from kedge.runs.cluster_files import ClusterFiles
from kedge.runs.events import is_time

_NAME_LENGTH = 40
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"  # of the random part of an id
_NEW_SEC = 60.0
_RUN_FILE = "run.json"
ENGINE_FILE = "engine.json"  # what the engine needs to know about the run, if anything
_LARGEST = 16 << 20  # bytes of a job file, or of a run.json, which may have long parameters
_LARGEST_PLAN = 256 << 20
_LONGEST_GRACE_SEC = 86400.0  # the limit in the schema of job files
_ID = late_pattern(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_REMOVED = ".removed-"  # prefix of a run folder that is being deleted; no id begins with a dot
_NOT_IN_IDS = late_pattern(r"[^A-Za-z0-9_.-]+")
_TASK = late_pattern(r"(?P<role>\w+)[:-](?P<index>\d+)", re.ASCII)
_TASK_FOLDER = late_pattern(r"(?P<role>\w+)-(?P<index>\d+)(?:\.(?P<attempt>\d+))?", re.ASCII)
_ATTEMPT = late_pattern(r"attempt-(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The content of run.json. `created` is a time in the format of events, `version` that of kedge, `source` the path
    of the job file.

    `secrets_dir` holds the secrets while the job lives; `parameters` are the values for `$parameters`. `folder` is
    where relative paths in the job file start; `options` are those of RunOptions; `rerun_of` is the id of the run that
    this one repeats, `with_job_dir` whether it began with a copy of that run's job folder. `damage`: why the file
    cannot be read; the other values are then unknown.
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
    folder: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    rerun_of: str | None = None
    with_job_dir: bool = False
    damage: str = ""

    @classmethod
    def from_json(cls, data: Any) -> RunInfo:
        """The inverse of `dataclasses.asdict`. Ignores keys that a newer version may have added. ValueError if it is
        not a RunInfo."""
        if not isinstance(data, dict):
            raise ValueError("it is not a JSON object")
        kinds = _kinds()
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        if wrong := [name for name, value in known.items() if not untrusted_values.fits(value, kinds[name])]:
            raise ValueError(f"`{wrong[0]}` has the wrong type")
        try:
            info = cls(**known | {"damage": ""})
        except TypeError:
            raise ValueError("a key is missing") from None
        if not is_time(info.created):
            raise ValueError("`created` is not a time")
        return info


@cache
def _kinds() -> dict[str, Any]:
    """The types of a RunInfo, which are slow to determine."""
    return get_type_hints(RunInfo)


class TaskFolder(NamedTuple):
    """The folder of one attempt of one task."""

    role: str
    task_index: int
    task_attempt: int
    path: Path


@dataclass(frozen=True, slots=True)
class Run:
    """One run, identified by its folder. Nothing is created except by `save` and `make_attempt`."""

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
        return self.path / _RUN_FILE

    @property
    def events(self) -> Path:
        return self.path / EVENTS_FILE

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def cluster(self) -> ClusterFiles:
        """What a run in a cluster has besides."""
        return cluster_files.of(self.path)

    @property
    def code(self) -> Path:
        return self.path / CODE_DIR

    @property
    def job_dir(self) -> Path:
        """The folder that all tasks and attempts share. Its content is untrusted."""
        return self.path / JOB_DIR

    @property
    def storages(self) -> Path:
        """Links to the folders of storages, by their names."""
        return self.path / STORAGES_DIR

    @property
    def inputs(self) -> Path:
        """What the job used besides its file and its code (jobs.record)."""
        return self.path / "inputs"

    @property
    def only_outputs(self) -> Path:
        """A file that exists once everything but the outputs was deleted."""
        return self.path / "only-outputs"

    @property
    def exit_spec(self) -> Path:
        """The job's own exit specification, if it has one, as JSON."""
        return self.path / "exit-spec.json"

    def rule_file(self, number: int) -> Path:
        """The n-th of the job's own rule files, compiled."""
        return self.path / f"rules-{number}.json"

    def attempt(self, number: int) -> Path:
        return self.path / f"attempt-{number}"

    def make_attempt(self, number: int) -> None:
        """Make the folder of a job attempt, replacing anything that a task has put there."""
        clear(self.attempt(number))
        self.attempt(number).mkdir()

    def peers(self, attempt: int) -> Path:
        return self.attempt(attempt) / "peers.json"

    def task(self, role: str, index: int, attempt: int, task_attempt: int = 0) -> Path:
        """The folder of one attempt of one task: TaskSpec.folder."""
        retry = f".{task_attempt}" if task_attempt else ""
        return self.attempt(attempt) / f"{role}-{index}{retry}"

    def attempts(self) -> list[int]:
        """The numbers of the job attempts that have a folder, in order."""
        return sorted(int(found[1]) for name in names_in(self.path) if (found := _ATTEMPT.fullmatch(name)))

    def tasks(self, attempt: int) -> list[TaskFolder]:
        """The task attempts that have a folder in a job attempt, sorted by role, index and attempt."""
        folder = self.attempt(attempt)
        return sorted(
            TaskFolder(found["role"], int(found["index"]), int(found["attempt"] or 0), folder / name)
            for name in names_in(self.path, folder.name)
            if (found := _TASK_FOLDER.fullmatch(name))
        )

    def job_bytes(self) -> bytes:
        """The submitted job file, with masked secrets. InputError if it is damaged or gone."""
        try:
            return untrusted.read(self.path, self.job_file.name, _LARGEST)
        except OSError as error:
            raise InputError(f"{self.id}: its {self.job_file.name} cannot be read: {error.strerror}") from error

    def plan(self) -> Any:
        """The content of plan.json, unchecked. OSError, ValueError."""
        return untrusted.read_json(self.path, self.plan_file.name, _LARGEST_PLAN)

    def stop_grace_sec(self) -> float:
        """How many seconds the tasks of any role may take to stop; the default if the plan cannot be read, for example
        after a crash of the machine."""
        try:
            plan = self.plan()
            stops = [role["stop"] for role in plan.get("roles", ()) if "stop" in role] or [plan["stop"]]
            graces = [float(stop["graceSec"]) for stop in stops]
        except (AttributeError, OSError, ValueError, KeyError, TypeError):
            return StopPolicy().grace_sec
        return max(graces) if all(0 <= grace <= _LONGEST_GRACE_SEC for grace in graces) else StopPolicy().grace_sec

    def save(self, info: RunInfo) -> None:
        """Write run.json; from now on the run is listed."""
        facts = asdict(info)
        del facts["damage"]
        write_json(self.run_file, facts)

    def info(self) -> RunInfo:
        """The content of run.json. InputError if this is not a run folder."""
        if info := _read_info(self.path):
            return info
        raise InputError(f"{self.path} is not a run folder: it has no run.json")


def jobs_dir(environment: Mapping[str, str]) -> Path:
    """$XDG_STATE_HOME/kedge/jobs. CannotRun for a user without a home folder."""
    return Path(xdg.state(xdg.JOBS, environment))


def create(jobs: Path, name: str) -> Run:
    """Make the folder of a new run of the job `name`, private to this user. CannotRun if that is not possible."""
    stem = _NOT_IN_IDS.sub("-", name)[:_NAME_LENGTH].lstrip(".-") or "job"
    try:
        with disk_errors(jobs):
            jobs.mkdir(parents=True, exist_ok=True)
            return Run(_make_unique(jobs, stem))
    except OSError as error:
        raise CannotRun(
            f"{jobs}: cannot make a run folder here: {error.strerror}. Set XDG_STATE_HOME to use another folder."
        ) from error


def creation_time(jobs: Path) -> str:
    """The creation time of a new run, in the format of events: now, but later than that of every other run, so that the
    newest run sorts first even if the clock was set back."""
    now = timestamp(time.time_ns())
    newest = max((info.created for info in _infos(jobs)), default="")
    if newest < now:
        return now
    try:
        after = datetime.fromisoformat(newest) + timedelta(microseconds=1)
        return timestamp(int(after.timestamp()) * 10**9 + after.microsecond * 1000)
    except (ValueError, OverflowError):  # the time of a damaged run.json
        return now


def sweep(jobs: Path) -> None:
    """Remove the leftovers of killed submissions (no run.json, and an old lock that nobody holds) and of interrupted
    removals."""
    for name in _names(jobs):
        path = jobs / name
        if name.startswith(_REMOVED) or _abandoned(path):
            with suppress(OSError):
                clear(path)


def _abandoned(path: Path) -> bool:
    if os.path.lexists(path / _RUN_FILE) or _age_sec(path / "lock") < _NEW_SEC:
        return False
    from kedge.runs.liveness import is_controlled  # it knows runs, too

    return not is_controlled(Run(path))


def _age_sec(path: Path) -> float:
    """The age of a file; 0 if there is none."""
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _make_unique(jobs: Path, stem: str) -> Path:
    while True:
        path = jobs / f"{stem}-{''.join(_LETTERS[byte % 32] for byte in os.urandom(6))}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path


def runs(jobs: Path) -> list[Run]:
    """All runs, newest first, including damaged ones. Folders that are not, or not yet, runs are skipped."""
    return [run for run, _ in listed(jobs)]


def listed(jobs: Path) -> list[tuple[Run, RunInfo]]:
    """All runs with their RunInfo, newest first."""
    return [(Run(jobs / info.id), info) for info in _infos(jobs)]


def find(jobs: Path, text: str) -> Run:
    """The run with this exact id, the newest run of the job with this exact name, or the run whose id has this unique
    prefix.

    InputError names the candidates if the prefix is ambiguous, or the nearest names if nothing matches.
    """
    infos = _infos(jobs)
    exact = [i for i in infos if i.id == text] or [i for i in infos if text and i.name == text]
    if exact:
        return Run(jobs / exact[0].id)
    begins = [i for i in infos if text and i.id.startswith(text)]
    if len(begins) == 1:
        return Run(jobs / begins[0].id)
    if begins:
        raise InputError(f"{text!r} is ambiguous; it may be {_some([i.id for i in begins])}: give more of the id")
    raise InputError(_unknown(text, infos))


def delete(run: Run) -> None:
    """Delete the folder of a run. CannotRun names what cannot be deleted; the run is then still listed."""
    aside = run.path.with_name(_REMOVED + run.id)  # under this name the run is no longer listed
    try:
        with suppress(FileNotFoundError):
            os.rename(run.path, aside)
        clear(aside)
    except OSError as error:
        with suppress(OSError):
            os.rename(aside, run.path)
        where = str(error.filename).replace(_REMOVED, "")
        raise CannotRun(f"{run.id} cannot be deleted: {where}: {error.strerror}") from error


def is_task(text: str) -> bool:
    """Whether this names a task, such as `worker:3`."""
    return _TASK.fullmatch(text) is not None


def parse_task(text: str) -> tuple[str, int]:
    """The role and index in `worker:3` or `worker-3`. InputError for anything else."""
    if found := _TASK.fullmatch(text):
        return found["role"], int(found["index"])
    raise InputError(f"{text!r} is not a task: write ROLE:INDEX, for example worker:0")


def is_task_folder(name: str) -> bool:
    """Whether the folder of a task attempt may have this name."""
    return _TASK_FOLDER.fullmatch(name) is not None


def _infos(jobs: Path) -> list[RunInfo]:
    found = (_read_info(jobs / name) for name in _names(jobs) if _ID.fullmatch(name))
    return sorted((info for info in found if info), key=lambda info: (info.created, info.id), reverse=True)


def _read_info(folder: Path) -> RunInfo | None:
    """None if this is not a run: there is no run.json, or it cannot be accessed."""
    try:
        made = os.lstat(folder / _RUN_FILE).st_mtime_ns
    except OSError:
        return None
    try:
        info = RunInfo.from_json(untrusted.read_json(folder, _RUN_FILE, _LARGEST))
        return info if info.id == folder.name else _damaged(folder, made, "it belongs to another run")
    except FileNotFoundError:
        # It is being removed, or something else is in its place.
        return _damaged(folder, made, "it is not a file") if os.path.lexists(folder / _RUN_FILE) else None
    except (OSError, ValueError) as error:
        return _damaged(folder, made, getattr(error, "strerror", None) or str(error))


def _damaged(folder: Path, made: int, why: str) -> RunInfo:
    """`made` is in nanoseconds since 1970, from the file system, and may be wrong."""
    created = timestamp(min(max(0, made), time.time_ns()))
    return RunInfo(folder.name, "", "", "", created, "", "", damage=f"its {_RUN_FILE} is damaged: {why}")


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as error:
        raise CannotRun(f"{folder}: cannot be read: {error.strerror}") from error


def names_in(run: Path, name: str = "") -> list[str]:
    """The names in a folder of a run; none if a task has put something else in its place."""
    try:
        fd = untrusted.open_folder(run, name)
    except OSError:
        return []
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _unknown(text: str, infos: list[RunInfo]) -> str:
    if not infos:
        return f"there is no run {text!r}: there are no runs yet"
    names = list(dict.fromkeys(name for info in infos for name in (info.name, info.id) if name))
    import difflib  # slow to load, and needed only for an error

    if near := difflib.get_close_matches(text, names, n=3):
        return f"there is no run {text!r}; did you mean {' or '.join(near)}?"
    return f"there is no run {text!r}; the latest are {_some([info.id for info in infos])}"


def _some(ids: list[str], most: int = 5) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more
