"""The decision log: the events of a run, in ConfigMaps, so that they outlive the driver's node.

Nothing is acted on before it is written there: a second driver finds in it all that may have happened. It is a text in
pieces, the ConfigMaps NAME-log-0, NAME-log-1 and so on. Its lines are those of events.jsonl, and between them facts
that a second driver needs.

The Lease says who may write. Should two drivers take themselves for its holder nevertheless, the second one to write
finds that what it replaces is not what it has written, and leaves.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.in_driver import log_facts, log_pieces
from kedge.engines.kubernetes.in_driver.lease import DriverLease
from kedge.engines.kubernetes.in_driver.leaving import Leave, leave
from kedge.engines.kubernetes.in_driver.log_facts import LogParts
from kedge.engines.kubernetes.in_driver.log_pieces import LogPiece, LogPieces
from kedge.engines.kubernetes.recorded_events import RecordedSize
from kedge.runs import file_locks
from kedge.runs.atomic_files import write_atomic
from kedge.runs.events import Event, EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

_CONFLICT, _NOT_FOUND = 409, 404
_AT_ONCE = frozenset({JobEvent.BARRIER_PASSED})  # tasks are told it in the same turn
_SOON = frozenset({JobEvent.TASK_RETRYING})  # of which many may come; the backend writes them before it does anything
_FIRST_WAIT_SEC, _LONGEST_WAIT_SEC = 0.2, 5.0
_LOCKS_SEC, _PATIENCE_SEC = 10.0, 5.0
_MOST = 14  # times the usual size of a piece, for a line that is longer: an object may have 1 MiB


class DecisionLog:
    """It is a LogGuard. `restore` comes first, and `flush` before anything is acted on. `largest` is that of a piece,
    in bytes."""

    def __init__(
        self, pieces: LogPieces, run: Run, lease: DriverLease, leaves: Leave = leave,
        largest: int = log_pieces.LARGEST,
    ) -> None:  # fmt: skip
        self._pieces, self._run, self._lease, self._leave = pieces, run, lease, leaves
        self._largest = largest
        self._last: LogPiece | None = None  # the piece that is written to
        self._pending: list[str] = []
        self._told = ""
        self._recorded, self._events_end = RecordedSize(str(run.path)), 0  # bytes of events, with pending ones
        self.known = LogParts()  # what earlier drivers have left, and this one has added

    @property
    def pending(self) -> bool:
        """Whether `flush` has something to do."""
        return bool(self._pending)

    def restore(self) -> None:
        """Make the run folder what the log says, for this driver, which has just got the Lease. What the folder alone
        has was never acted on: it is added to the log, or removed if the log has gone on without it. DiskFull."""
        pieces = self._read()
        self._last = pieces[-1] if pieces else None
        self.known = log_facts.parted("".join(piece.text for piece in pieces))
        events, here = self.known.events, _complete_lines(self._run)
        self.known.events = ""  # they may be many
        if not here.startswith(events):
            write_atomic(self._run.events, events.encode(), 0o644)
            here = events
        elif len(here) > len(events):
            self._pending.append(here[len(events) :])
        self._events_end = len(here)  # one byte each
        log_facts.restore(self._run, self.known.files)
        self.flush()

    def _read(self) -> list[LogPiece]:
        wait = _FIRST_WAIT_SEC
        while True:
            self._lease.check()
            try:
                return self._pieces.read()
            except ApiError as error:
                wait = self._wait(error, wait)

    def open(self) -> tuple[EventLog, str]:
        """As LogGuard says. The file is locked besides, where that is possible."""
        locked = not file_locks.why_not(self._run.path, _LOCKS_SEC)
        try:
            return _RecordedEvents(self, self._run, locked=locked), ""
        except file_locks.FileIsLocked:
            return _RecordedEvents(self, self._run, locked=False), ""

    def check(self, *, always: bool = True) -> None:
        """As LogGuard says."""
        self._lease.check()

    def add(self, line: str) -> None:
        """Add a line, which `flush` writes."""
        self._pending.append(line)

    def add_event(self, line: str, end: int) -> None:
        """Add an event, which is in the run folder: it ends there at this byte."""
        self._events_end = end
        self.add(line)

    def keep(self, path: str, value: Any) -> None:
        """Let a second driver have a JSON file of the run folder, too."""
        self.known.files[path] = value
        self.add(log_facts.file_line(path, value))

    def was_created(self, name: str) -> bool:
        """Whether some driver has created the pod of this name."""
        return name in self.known.pods

    def created(self, name: str) -> None:
        """The pod of this name was created."""
        if name not in self.known.pods:
            self.known.pods.add(name)
            self.add(log_facts.pod_line(name))

    def takes(self, request: str) -> bool:
        """A request of the owner with this id is taken up now. False if some driver has done that before."""
        if request in self.known.requests:
            return False
        self.known.requests.add(request)
        self.add(log_facts.request_line(request))
        return True

    def flush(self) -> None:
        """Write what was added. Waits as long as the API server does not answer and this driver has the Lease."""
        self._lease.check()
        text, self._pending = "".join(self._pending), []
        while text:
            text = self._write_some(text)
        self._recorded.tell(self._events_end)

    def _write_some(self, text: str) -> str:
        """Write the beginning of a text to the last piece, or to a new one. Returns the rest."""
        last = self._last or LogPiece(-1, "")
        now = _lines(text, self._largest - len(last.text)) if last.version else ""
        if now:
            self._last = self._written(last, last._replace(text=last.text + now))
        else:
            now = _lines(text, self._largest) or _line(text, _MOST * self._largest) or text[: self._largest]
            self._last = self._written(None, LogPiece(last.number + 1, now))
        return text[len(now) :]

    def _written(self, before: LogPiece | None, piece: LogPiece) -> LogPiece:
        wait = _FIRST_WAIT_SEC
        while True:
            self._lease.check()
            try:
                return self._pieces.write(piece)
            except ApiError as error:
                if error.status in (_CONFLICT, _NOT_FOUND):
                    found = self._look_again(before, piece)
                    if found and found.text == piece.text:
                        return found
                    piece = piece._replace(version=found.version) if found else piece
                wait = self._wait(error, wait)

    def _look_again(self, before: LogPiece | None, piece: LogPiece) -> LogPiece | None:
        """A piece is not as this driver left it: the answer to its own write was lost, or something else of the object
        was changed, or another driver has written. None if there is no answer, or no piece where none should be."""
        try:
            found = self._pieces.get(piece.number)
        except ApiError:
            return None
        if found is None and before:
            self._leave("the decision log of the run was deleted")
        if found and found.text != piece.text and (before is None or found.text != before.text):
            self._leave("another driver has written to the decision log of the run")
        return found

    def _wait(self, error: ApiError, wait: float) -> float:
        """Wait before another try. Returns how long to wait the next time."""
        if str(error) != self._told:
            self._told = str(error)
            print(f"kedge: the decision log has to wait: {error}", file=sys.stderr, flush=True)
        time.sleep(wait)
        return min(_LONGEST_WAIT_SEC, 2 * wait)


class _RecordedEvents(EventLog):
    """The events of a run in its folder, with which the decision log grows."""

    def __init__(self, decisions: DecisionLog, run: Run, *, locked: bool) -> None:
        super().__init__(run.events, _PATIENCE_SEC, locked=locked)
        self._decisions = decisions

    def append(self, event: str, *, sync: bool = False, **facts: Any) -> Event:
        entry = super().append(event, sync=sync, **facts)
        self._decisions.add_event(json.dumps(entry) + "\n", self._end)
        if event in _AT_ONCE or (sync and event not in _SOON):
            self._decisions.flush()
        return entry


def _lines(text: str, room: int) -> str:
    """As many of the first lines as have a place there."""
    return text if len(text) <= room else text[: text.rfind("\n", 0, max(0, room)) + 1]


def _line(text: str, room: int) -> str:
    """The first line if it has a place there. A line that is cut could be left without its end by a driver that is
    killed between two writes."""
    end = text.find("\n") + 1
    return text[:end] if end <= room else ""


def _complete_lines(run: Run) -> str:
    """The events in the run folder, without a torn last one."""
    try:
        text = run.events.read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        return ""
    return text[: text.rfind("\n") + 1]
