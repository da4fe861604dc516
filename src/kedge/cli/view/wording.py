"""The wording of events, states, durations and paths for people."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime

from kedge.contract import (
    RUNTIME_ERROR,
    STOPPED_BY_COMPLETION,
    STOPPED_BY_TIME_LIMIT,
    STOPPED_BY_USER,
    duration_text,
)
from kedge.runs.events import Event
from kedge.runs.job_events import JobEvent
from kedge.runs.status import JobStatus, TaskStatus
from kedge.states import State
from kedge.terminal_text import one_line

STATE_COLOURS = {
    State.SUCCEEDED: "green",
    State.FAILED: "red",
    State.LOST: "red",
    State.DAMAGED: "red",
    State.STOPPED: "yellow",
    State.STOPPING: "yellow",
    State.RUNNING: "cyan",
    State.WAITING: "bright_black",
}


_STOPPED = (STOPPED_BY_USER, STOPPED_BY_COMPLETION, STOPPED_BY_TIME_LIMIT)


def event_text(event: Event) -> str | None:
    """The message for an event of the controller, or None if nobody needs to see it."""
    try:
        return _event_text(event)
    except (KeyError, ValueError):  # the controller's events are complete, so a task has written this one
        return None


def _event_text(event: Event) -> str | None:
    task = f"{event.get('role')}:{event.get('index')}"
    match event["event"]:
        case JobEvent.TASK_COMPLETED if (
            not event["succeeded"] and event.get("reason") and event["code"] not in _STOPPED
        ):
            no_retry = f"; not retried: {event['why']}" if event.get("why") else ""
            return f"{task} failed: {event['message']}{no_retry}"
        case JobEvent.HOOK_RETRYING:
            number, most = event["next_try"], event["tries"]
            return f"{task}: hook {event['step']} failed: {event['message']}; try {number} of {most} {_when(event)}"
        case JobEvent.TASK_RETRYING:
            return f"{task} failed: {event['message']}; retrying {_when(event)} ({event['why']})"
        case JobEvent.ATTEMPT_COMPLETED if event["verdict"] == State.FAILED and event["code"] != STOPPED_BY_USER:
            return f"attempt {event['attempt'] + 1} failed: {event['text']}"
        case JobEvent.JOB_RETRYING:
            return f"attempt {event['attempt'] + 2} starts {_when(event)} ({event['why']})"
        case JobEvent.TIME_LIMIT_REACHED:
            return f"stopping {task if event.get('role') else 'all tasks'}: {event['text']}"
        case JobEvent.STOP_ANNOUNCED:
            return f"{event['text']}; hooks before the stop run now"
        case JobEvent.TASK_HELD:
            look, release = f"kedge exec {event['run']} {task}", f"kedge release {event['run']}"
            until = clock(event["until"])
            return f"{task} failed: {event['message']}; held until {until}: look inside with {look}, end with {release}"
        case JobEvent.TASK_RELEASED:
            return f"{task} is released"
        case JobEvent.SERVICE_STARTED if event["address"]:
            return f"{task}: {event['name']} at {event['address']}"
        case JobEvent.SERVICE_ENDED if not event["task_over"]:
            what = f"the service {event['name']} ended with exit code {event['code']}"
            return f"{task}: {what}; the task goes on without it; its output is in the task's runtime.log"
        case JobEvent.TASK_UNREACHABLE:
            return f"{task} is unreachable: {event['text']}"
        case JobEvent.TASK_REACHABLE:
            return f"{task} is reachable again"
        case JobEvent.STOP_REQUESTED if event["kill"]:
            return "killing the remaining tasks"
        case JobEvent.STOP_REQUESTED:
            again = "" if "scancel" in event["by"] else "; repeat to kill them"  # Slurm itself kills them soon
            return f"stopping all tasks, as requested by {event['by']}{again}"
        case JobEvent.CONTROLLER_RESTARTED:
            return str(event["text"])
        case JobEvent.NOTE if not event.get("in_summary"):
            return str(event["text"])
    return None


def succeeded_despite_failures(now: JobStatus) -> bool:
    """Whether a job succeeded only by its completion policy. Its text then explains this."""
    return now.state == State.SUCCEEDED and now.failed_tasks > 0


def clock(time: str) -> str:
    """The time of day of an event's time, here."""
    return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S")


def _when(event: Event) -> str:
    return f"in {seconds(event['delay_sec'])}" if event["delay_sec"] else "now"


def seconds(value: float) -> str:
    """A duration: `0.4 s`, `59.9 s`, `2 min 5 s`, `3 h 7 min`."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size_text(size: int) -> str:
    """A number of bytes: `12 B`, `3.4 KiB`, `1.2 GiB`."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def count_text(number: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def limit_texts(task_sec: float | None, attempt_sec: float | None, warn_before_sec: float | None) -> Iterator[str]:
    """The time limits of a role."""
    if task_sec:
        yield f"{duration_text(task_sec)} for each task with its retries"
    if attempt_sec:
        yield f"{duration_text(attempt_sec)} for each attempt of a task"
    if warn_before_sec:
        yield f"beforeStop hooks run {duration_text(warn_before_sec)} before the end"


def exit_text(task: TaskStatus) -> str:
    """The exit code of the user's command, or why there is none."""
    if task.exit_code is not None:
        return str(task.exit_code)
    if task.reason == RUNTIME_ERROR and task.code is not None and task.code < 0:  # no error of kedge: a lost node, say
        return str(task.code)
    return one_line(task.reason or "")


def home(path: str) -> str:
    """A path with `~` for the home folder."""
    folder = os.path.expanduser("~")
    return f"~{path.removeprefix(folder)}" if path.startswith(f"{folder}/") else path
