"""Shows a job that runs in the foreground: the lines of its tasks, and kedge's own messages between them."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Protocol

import click

from kedge.cli.view.cluster_text import SchedulerNews, scheduler_text
from kedge.cli.view.log_lines import LinePrinter, print_json, print_lines_as_json, print_message
from kedge.cli.view.wording import event_text
from kedge.runs.events import Event
from kedge.runs.folder import Run
from kedge.runs.follow import follow
from kedge.runs.job_events import JobEvent
from kedge.runs.recent import Recent
from kedge.runs.task_logs import NO_LOGS
from kedge.runs.timed_log import TaskLines

_MOST_SERVICES = 10
_PATIENCE_SEC = 1.0  # for a view that nobody may be reading


class View(Protocol):
    """Shows the lines and events of a run."""

    def lines(self, lines: TaskLines) -> None: ...
    def event(self, event: Event) -> None: ...
    def flush(self) -> None: ...


class LiveView:
    """For people: lines go to stdout, kedge's messages to stderr."""

    def __init__(self, tasks: list[str]) -> None:
        self._lines = LinePrinter(tasks)
        self._services = 0

    def lines(self, lines: TaskLines) -> None:
        self._lines(lines)

    def event(self, event: Event) -> None:
        text = scheduler_text(event) if event["event"] == JobEvent.SCHEDULER_SAID else event_text(event)
        if text and event["event"] == JobEvent.SERVICE_STARTED:
            text = self._service(text)
        if text:
            self._lines.flush()
            print_message(text)

    def _service(self, text: str) -> str | None:
        """The message about a service; of the many services of a large job, only about the first."""
        self._services += 1
        if self._services <= _MOST_SERVICES:
            return text
        return "more services have started; kedge show lists them" if self._services == _MOST_SERVICES + 1 else None

    def flush(self) -> None:
        self._lines.flush()


class Json:
    """For programs: one object a line on stdout."""

    def lines(self, lines: TaskLines) -> None:
        print_lines_as_json(lines)

    def event(self, event: Event) -> None:
        print_json(event)

    def flush(self) -> None:
        sys.stdout.flush()


class StopsOnly:
    """Shows only that a request to stop was received."""

    def lines(self, lines: TaskLines) -> None: ...

    def event(self, event: Event) -> None:
        if event["event"] == JobEvent.STOP_REQUESTED and (text := event_text(event)):
            print_message(text)

    def flush(self) -> None: ...


class Live:
    """From `start` on, a thread follows the run, or its `recent` part, and feeds a view. The thread only reads files,
    so a terminal that accepts no output (Ctrl-S) delays nothing but the view."""

    def __init__(self, run: Run, view: View, *, lines: bool, recent: Recent | None = None) -> None:
        self._run, self._view, self._recent = run, view, recent
        self._people = not isinstance(view, Json)
        self._bars = isinstance(view, LiveView)
        self._lines = lines
        self._news = SchedulerNews(run)
        self._over = threading.Event()
        self._left = False
        self._thread = threading.Thread(target=self._show, name="console")

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Show the rest of a run that has ended."""
        self._over.set()
        self._thread.join()

    def leave(self) -> bool:
        """Show nothing more. Returns whether the thread has ended: it may be waiting for its reader."""
        self._left = True
        self._over.set()
        self._thread.join(_PATIENCE_SEC)
        return not self._thread.is_alive()

    def _show(self) -> None:
        try:
            self._follow()
        except BrokenPipeError:
            return  # the reader has gone; the job continues
        except OSError as error:
            with suppress(OSError):  # a closed terminal takes no message either
                click.echo(f"kedge: the job continues, but its output cannot be shown: {error.strerror}", err=True)

    def _alive(self) -> bool:
        return not self._over.is_set()

    def _follow(self) -> None:
        items = follow(
            self._run,
            wanted=lambda role, index: self._lines,
            alive=self._alive,
            progress=self._bars,
            pause=self._over.wait,
            begin=self._recent.begin if self._recent else NO_LOGS,
        )
        for item in items:
            if self._left:
                break
            self._take(item)
        self._view.flush()

    def _take(self, item: Event | TaskLines | None) -> None:
        if item is None:
            if news := self._news.changed():
                self._view.event(news)
            self._view.flush()
        elif isinstance(item, TaskLines):
            self._view.lines(item)
        elif not (self._people and self._recent) or self._recent.is_new(item):
            self._view.event(item)
