"""What the tasks of a run have written for its user: the output folder of each task attempt, and the job's own folder.

All of it is untrusted. On the present engines these folders are below the run folder on this machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kedge.contract import CODE_DIR, JOB_DIR, OUTPUT_DIR, WORK_DIR
from kedge.runs import output_lists
from kedge.runs.folder import Run, TaskFolder
from kedge.runs.output_lists import OutputFile
from kedge.untrusted import open_folder

FOLDERS = (OUTPUT_DIR, CODE_DIR, WORK_DIR)  # of a task attempt
DEEPEST = 64  # levels of folders; what is deeper is ignored
_MOST_FILES = 100_000  # counted for a summary
_LARGEST = 3  # files that a summary names


class OutputFolder(NamedTuple):
    """A folder of a task attempt, or the job's own (`task` is None then). `path` is below the run folder; attempts
    count from 0."""

    task: str | None
    attempt: int
    task_attempt: int
    path: str

    @property
    def name(self) -> str:
        return self.task or "job"


class OutputTotals(NamedTuple):
    """The regular files of a folder: their number, their size in bytes, and the largest. `at_least`: there are more."""

    folder: OutputFolder
    files: int
    size: int
    largest: tuple[OutputFile, ...]
    at_least: bool


def job_folder() -> OutputFolder:
    """The folder that all tasks share."""
    return OutputFolder(None, 0, 0, JOB_DIR)


def task_folder(run: Run, task: TaskFolder, attempt: int, name: str = OUTPUT_DIR) -> OutputFolder:
    """One of the FOLDERS of a task attempt."""
    path = f"{task.path.relative_to(run.path)}/{name}"
    return OutputFolder(f"{task.role}:{task.task_index}", attempt, task.task_attempt, path)


def folders(run: Run, *, all_attempts: bool = False) -> list[OutputFolder]:
    """The output folders of the tasks in the last job attempt, of each task that of its last attempt (or those of all
    attempts), then the job's folder."""
    attempts = run.attempts() if all_attempts else run.attempts()[-1:]
    found = [(attempt, task) for attempt in attempts for task in run.tasks(attempt)]
    latest = {(attempt, task.role, task.task_index): task for attempt, task in found}  # sorted by attempts
    wanted = found if all_attempts else [(attempt, task) for (attempt, *_), task in latest.items()]
    return [*(task_folder(run, task, attempt) for attempt, task in wanted), job_folder()]


def files(run: Run, folder: OutputFolder) -> Iterator[OutputFile]:
    """All regular files and links below a folder, sorted by folder and name; none if there is no such folder. Of a run
    in a cluster they may not be on this machine."""
    known = output_lists.read(run).get(folder.path)
    return _files_here(run, folder) if known is None else output_lists.files(known)


def _files_here(run: Run, folder: OutputFolder) -> Iterator[OutputFile]:
    pending = [""]
    while pending:
        at = pending.pop()
        entries = _entries(run, f"{folder.path}/{at}")
        deeper = [f"{at}{name}/" for name, info in entries if stat.S_ISDIR(info.st_mode)]
        pending += reversed(deeper if at.count("/") < DEEPEST else [])
        for name, info in entries:
            if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                yield OutputFile(at + name, info.st_size, stat.S_ISLNK(info.st_mode))


def totals(run: Run, *, all_attempts: bool = False) -> list[OutputTotals]:
    """The totals of the folders that contain files."""
    left, found = _MOST_FILES, []
    for folder in folders(run, all_attempts=all_attempts):
        some = [file for file in islice(files(run, folder), left + 1) if not file.is_link]
        left = max(0, left - len(some))
        if some:
            largest = tuple(sorted(some, key=lambda file: (-file.size, file.path))[:_LARGEST])
            found.append(OutputTotals(folder, len(some), sum(file.size for file in some), largest, not left))
    return found


def _entries(run: Run, path: str) -> list[tuple[str, os.stat_result]]:
    """The sorted entries of a folder, without links being followed; none if it cannot be read."""
    try:
        fd = open_folder(run.path, path)
    except OSError:
        return []
    try:
        return entries(fd)
    except OSError:
        return []
    finally:
        os.close(fd)


def entries(fd: int) -> list[tuple[str, os.stat_result]]:
    """The sorted entries of an open folder, and what each is. Entries that disappear meanwhile are left out."""
    found = []
    for name in sorted(os.listdir(fd)):
        try:
            found.append((name, os.stat(name, dir_fd=fd, follow_symlinks=False)))
        except FileNotFoundError:
            continue
    return found
