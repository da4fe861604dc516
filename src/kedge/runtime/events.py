"""The supervisor's output for other programs: lines of events.jsonl and, at the end, one report."""

from __future__ import annotations

import os
import time

from kedge import contract
from kedge.contract import Report, TaskSpec
from kedge.light import json
from kedge.own_files import open_own, write_all
from kedge.runtime.files import NO_SPACE, Faults, remove, write_synced
from kedge.runtime.status import Status

LONGEST_LINE = 4096  # bytes; a write to a pipe is atomic up to this size (PIPE_BUF)
_DIAGNOSIS_KEYS = ("cause", "behavior", "confidence")  # the part of the diagnosis that goes into the last event
_RESERVE = 16_384  # bytes on disk, released at the end so that the report fits on a full disk


class AttemptLog:
    """Appends to events.jsonl and copies every line to `status`.

    A failed write is noted in `faults`, and a partly written line is cut off again; later events are still tried."""

    def __init__(self, spec: TaskSpec, faults: Faults, status: Status) -> None:
        self._path = f"{spec.folder}/{contract.EVENTS_FILE}"
        self._head = {"task": spec.task, "job_attempt": spec.job_attempt, "task_attempt": spec.task_attempt}
        self._faults = faults
        self._status = status
        self._fd = open_own(self._path, os.O_WRONLY | os.O_APPEND, 0o644)

    def emit(self, event: str, **fields: object) -> None:
        """Write one event with the current time."""
        line = _line({"time": contract.timestamp(time.time_ns()), **self._head, "event": event, **fields})
        self._status.write(line)
        end = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, line)
        except OSError as error:
            os.ftruncate(self._fd, end)
            self._faults.note(self._path, error)

    def finished(self, report: Report) -> None:
        """Write the last event: the report without its long parts. It is synced when the call returns."""
        diagnosis = report.diagnosis and {key: report.diagnosis[key] for key in _DIAGNOSIS_KEYS}
        self.emit(contract.FINISHED, **report._replace(diagnosis=diagnosis, evidence=None, hooks=None)._asdict())
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._faults.note(self._path, error)


class Reserve:
    """Disk space reserved for the report, where the file system supports that. OSError when the disk is full."""

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
        """Free the reserved space."""
        remove(self._path)


def write_report(folder: str, report: Report) -> None:
    """Write report.json, atomically and synced; without the diagnosis where there is no room for it. OSError when even
    that fails."""
    try:
        _write_report(folder, report)
    except OSError:
        if report.diagnosis is None:
            raise
        _write_report(folder, report._replace(diagnosis=None, evidence=None))


def _write_report(folder: str, report: Report) -> None:
    data = json.indented(report._asdict()) + "\n"
    write_synced(f"{folder}/{contract.REPORT_FILE}", data.encode())


def _line(record: dict[str, object]) -> bytes:
    """One JSON line; its longest texts are shortened until it fits into LONGEST_LINE."""
    line = json.dumps(record).encode() + b"\n"
    while len(line) > LONGEST_LINE:
        longest = max((key for key in record if isinstance(record[key], str)), key=lambda key: len(str(record[key])))
        text = str(record[longest])
        record[longest] = text[: len(text) * 3 // 4 - 1] + "…"
        line = json.dumps(record).encode() + b"\n"
    return line
