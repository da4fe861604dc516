"""What the supervisor tells the world: lines of events.jsonl, and at the end one report."""

from __future__ import annotations

import json
import os
import time

from kedge import contract
from kedge.contract import Report, TaskSpec
from kedge.own_files import open_own
from kedge.runtime.files import NO_SPACE, Faults, remove, write_all, write_synced
from kedge.runtime.status import Status

LONGEST_LINE = 4096  # bytes; up to this a write to a pipe is atomic (PIPE_BUF)
_ANSWER = ("cause", "behavior", "confidence")
_RESERVE = 16_384  # bytes on disk, given back so that the report of a full disk has room


class AttemptLog:
    """Appends to events.jsonl. Every line also goes to `status`.

    Failures are noted in `faults`, and a part of a line that got into the file is taken back; the next event is tried
    again."""

    def __init__(self, spec: TaskSpec, faults: Faults, status: Status) -> None:
        self._path = f"{spec.folder}/{contract.EVENTS_FILE}"
        self._head = {"task": spec.task, "job_attempt": spec.job_attempt, "task_attempt": spec.task_attempt}
        self._faults = faults
        self._status = status
        self._fd = open_own(self._path, os.O_WRONLY | os.O_APPEND, 0o644)

    def emit(self, event: str, **fields: object) -> None:
        """One event, now."""
        line = _line({"time": contract.timestamp(time.time_ns()), **self._head, "event": event, **fields})
        self._status.write(line)
        end = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, line)
        except OSError as error:
            os.ftruncate(self._fd, end)
            self._faults.note(self._path, error)

    def finished(self, report: Report) -> None:
        """The last event: the report without its long parts. Durable when the call returns."""
        diagnosis = report.diagnosis and {key: report.diagnosis[key] for key in _ANSWER}
        self.emit(contract.FINISHED, **report._replace(diagnosis=diagnosis, evidence=None, hooks=None)._asdict())
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._faults.note(self._path, error)


class Reserve:
    """Disk space kept for the report, where the file system can do that. OSError when it is full already."""

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/reserve"
        fd = open_own(self._path, os.O_WRONLY)
        try:
            os.posix_fallocate(fd, 0, _RESERVE)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise OSError(error.errno, error.strerror, self._path) from error
        finally:
            os.close(fd)

    def release(self) -> None:
        """Give the space back."""
        remove(self._path)


def write_report(folder: str, report: Report) -> None:
    """Write report.json, whole and synced; without the diagnosis where there is no room for it. OSError when even that
    cannot be written."""
    try:
        _write_report(folder, report)
    except OSError:
        if report.diagnosis is None:
            raise
        _write_report(folder, report._replace(diagnosis=None, evidence=None))


def _write_report(folder: str, report: Report) -> None:
    data = json.dumps(report._asdict(), indent=1) + "\n"
    write_synced(f"{folder}/{contract.REPORT_FILE}", data.encode())


def _line(record: dict[str, object]) -> bytes:
    """One JSON line; where it would be too long, its longest text is shortened."""
    line = json.dumps(record).encode() + b"\n"
    while len(line) > LONGEST_LINE:
        longest = max((key for key in record if isinstance(record[key], str)), key=lambda key: len(str(record[key])))
        text = str(record[longest])
        record[longest] = text[: len(text) * 3 // 4 - 1] + "…"
        line = json.dumps(record).encode() + b"\n"
    return line
