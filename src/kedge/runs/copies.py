"""Runs whose folder is in a cluster that shares no folder with this machine: what is here is a copy, made fresh before
it is read. The engines that have such runs are in `kedge.lazy_modules.FETCH`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kedge.lazy_modules import FETCH, load_place
from kedge.runs.folder import Run

_FIRST_SEC = 60.0  # how long a follower may take for what was there before
_followers: dict[Path, tuple[int, Any]] = {}
_failures: dict[Path, str] = {}  # of the last fetch
_lock = threading.Lock()


def is_copy(run: Run) -> bool:
    """Whether the folder of a run is a copy of one in a cluster."""
    return run.cluster.exists and _engine(run) in FETCH


def fetch(run: Run, *, logs: bool = False, outputs: tuple[str, ...] = ()) -> str:
    """Fetch what is new of a run: its records, its logs if they are wanted, and the outputs below these folders (an
    empty text: all of them). Returns why that was not possible, for the user; empty if it was, or is not needed."""
    if not is_copy(run) or (run.path in _followers and not outputs):
        return ""
    why: str = load_place(FETCH[_engine(run)]).fetch(run, logs=logs, outputs=outputs)
    _failures[run.path] = why
    return why


def list_outputs(run: Run) -> None:
    """Bring what is needed to list the outputs of a run: they, or only what is known of them (`output_lists`)."""
    if is_copy(run):
        _failures[run.path] = load_place(FETCH[_engine(run)]).list_outputs(run)


def fetch_files(run: Run, folder: str, path: str) -> str:
    """Fetch a file or folder (an empty path: all) out of a folder of outputs, such as `attempt-0/worker-0/output`.
    Returns why that was not possible, for the user; empty if it was, or is not needed."""
    why: str = load_place(FETCH[_engine(run)]).fetch_files(run, folder, path) if is_copy(run) else ""
    return why


def why_old(run: Run) -> str:
    """Why the last `fetch` of this process did not bring what is new of a run; empty if it did."""
    return _failures.get(run.path, "")


def fetch_all(runs: Iterable[Run], patience_sec: float) -> None:
    """Fetch the records of several runs at once, as far as this is possible within this time."""
    threads = [threading.Thread(target=fetch, args=(run,), daemon=True) for run in runs if is_copy(run)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience_sec
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


def has_copies(engine: str) -> bool:
    """Whether the runs of an engine have their folders in a cluster."""
    return engine in FETCH


def import_runs(engine: str, options: Mapping[str, Any], jobs: Path, wanted: str | None) -> None:
    """Make folders in `jobs` for the runs of an engine with these options that other machines have submitted. With
    `wanted`, only those of this name. CannotRun: its cluster cannot be reached."""
    load_place(FETCH[engine]).import_runs(options, jobs, wanted)


def tunnel(run: Run, role: str, index: int, host: str, port: int) -> str:
    """The shell command that connects to a port of a task of a run in a cluster; empty if none is needed."""
    if not is_copy(run):
        return ""
    text: str = load_place(FETCH[_engine(run)]).tunnel(run, role, index, host, port)
    return text


def copy_in(
    run: Run, task: tuple[str, int], source: str, folder: str, path: str, progress: Callable[[int, int], None]
) -> tuple[int, int]:
    """Copy a file or folder of this machine to a path in the output folder of a running task of a run in a cluster, or
    in the job's folder, as the task sees it. Returns the number of files, and of their bytes. InputError; CannotRun."""
    copied: tuple[int, int] = load_place(FETCH[_engine(run)]).copy_in(run, *task, source, folder, path, progress)
    return copied


def fetch_secrets(run: Run) -> None:
    """Bring the values of secrets of a run in a cluster here, unless they are. CannotRun; OSError, ValueError."""
    if is_copy(run) and not run.cluster.secrets.exists():
        load_place(FETCH[_engine(run)]).fetch_secrets(run)


class KeptFresh:
    """A context in which a thread fetches the news of a run, with its logs. It begins with the first call of `look`
    after the run has been submitted, which returns when all is here that was there before, or nothing can be reached.
    At the end, all that an ended run would lose with its place is fetched."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._module: Any = None

    def __enter__(self) -> KeptFresh:
        self.look()
        return self

    def look(self) -> None:
        """Begin, if the run is in a cluster by now."""
        if self._module is None and is_copy(self._run):
            self._module = load_place(FETCH[_engine(self._run)])
            _begin(self._run, self._module)

    def __exit__(self, *of_exception: object) -> None:
        if self._module is not None and _end(self._run):
            _failures[self._run.path] = self._module.finish(self._run)


def _begin(run: Run, module: Any) -> None:
    with _lock:
        users, follower = _followers.get(run.path, (0, None))
        if follower is None:
            follower = module.Follower(run)
            follower.start(_FIRST_SEC)
        _followers[run.path] = users + 1, follower


def _end(run: Run) -> bool:
    """Whether this was the last one that wanted the news of a run."""
    with _lock:
        users, follower = _followers.pop(run.path)
        if users > 1:
            _followers[run.path] = users - 1, follower
            return False
        follower.close()
        return True


def _engine(run: Run) -> str:
    return str(run.cluster.object(run.cluster.job).get("engine"))
