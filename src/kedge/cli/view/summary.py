"""Prints the summary of a run for people: a table of its tasks, the verdict, and where the logs are."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from kedge.cli.view.answer import print_report, rows
from kedge.cli.view.cluster_text import pending
from kedge.cli.view.output_text import output_lines
from kedge.cli.view.styled_text import Text
from kedge.cli.view.tables import Table, show, wrapped
from kedge.cli.view.wording import STATE_COLOURS, clock, exit_text, home, seconds, succeeded_despite_failures
from kedge.runs import explanation, output_lists, outputs, report
from kedge.runs.folder import Run
from kedge.runs.status import JobStatus, TaskStatus
from kedge.states import FINAL, State
from kedge.terminal_text import one_line

MOST_ROWS = 20
# The states that a person looks for first come first.
_ORDER = (
    State.FAILED,
    State.LOST,
    State.RUNNING,
    State.STOPPING,
    State.WAITING,
    State.STOPPED,
    State.SUCCEEDED,
)


def print_summary(run: Run, now: JobStatus, notes: tuple[str, ...] = ()) -> None:
    """Print the table, verdict, log folder, outputs and notes to stdout."""
    show()
    show(_table(now))
    if len(now.tasks) > MOST_ROWS:
        rest = Counter(task.state for task in _sorted(now.tasks)[MOST_ROWS:])
        show(Text(f"and {', '.join(f'{count} more {state}' for state, count in rest.items())}", style="dim"))
    show()
    for line in wrapped(_verdict(run, now)):
        show(line)
    found = report.read(run)
    if found:
        print_report(found)
    if not (found and found.root and explanation.place(found.root)):  # otherwise the answer names a log in there
        rows("Folder" if run.only_outputs.exists() else "Logs", [home(str(run.path))])
    rows("Held", _held(run, now))
    rows("Waiting", _waiting(now))
    rows("Unreachable", _unreachable(now))
    rows("Services", _services(now))
    elsewhere = output_lists.is_missing(run)
    rows("Outputs", output_lines(outputs.totals(run), run.id, more_elsewhere=elsewhere))
    damage = ["its report.json is damaged"] if report.is_damaged(run) else []
    gone = ["its logs and code were deleted (kedge rm --keep-outputs)"] if run.only_outputs.exists() else []
    rows("Note", [*now.notes, *notes, *damage, *gone])


def duration(started: str | None, ended: str | None) -> str:
    """The time between two event times; until now if it has not ended; empty if it has not started."""
    if started is None:
        return ""
    end = datetime.fromisoformat(ended) if ended else datetime.now(UTC)
    took = (end - datetime.fromisoformat(started)).total_seconds()
    return seconds(max(0.0, took))  # the clock may have been set back in between


def _held(run: Run, now: JobStatus) -> list[str]:
    """The task that is held after its failure, and what to type."""
    if now.held is None or now.state in FINAL or now.held.held_until is None:
        return []
    task, until = f"{now.held.role}:{now.held.index}", now.held.held_until
    left = (datetime.fromisoformat(until) - datetime.now(UTC)).total_seconds()
    return [
        f"{task} has failed ({one_line(now.held.message or '')}), and stays alive until {clock(until)}, "
        f"for {seconds(max(0.0, left))} more",
        f"kedge exec {run.id} {task} opens a shell in it; kedge release {run.id} ends the hold",
    ]


def _waiting(now: JobStatus) -> list[str]:
    """Why tasks do not run yet, unless the verdict has said it."""
    found = [task for task in now.tasks if task.waits_for and task.state not in FINAL]
    if now.pending and len(found) < 2:
        return []
    shown = [f"{task.role}:{task.index}: {one_line(task.waits_for or '')}" for task in found[:MOST_ROWS]]
    return [*shown, f"and {len(found) - MOST_ROWS} more"] if len(found) > MOST_ROWS else shown


def _unreachable(now: JobStatus) -> list[str]:
    """The tasks that are unreachable."""
    found = [task for task in now.tasks if task.unreachable is not None and task.state not in FINAL]
    shown = [f"{task.role}:{task.index}: {one_line(task.unreachable or '')}" for task in found[:MOST_ROWS]]
    return [*shown, f"and {len(found) - MOST_ROWS} more"] if len(found) > MOST_ROWS else shown


def _services(now: JobStatus) -> list[str]:
    """The programs beside the commands that have an address, those that run first."""
    found = [(task, each) for task in now.tasks for each in task.services if each.address]
    found.sort(key=lambda pair: not pair[1].running)
    shown = [
        f"{task.role}:{task.index} {each.name} at {one_line(each.address or '')}" + ("" if each.running else " (ended)")
        for task, each in found[:MOST_ROWS]
    ]
    return [*shown, f"and {len(found) - MOST_ROWS} more"] if len(found) > MOST_ROWS else shown


def _verdict(run: Run, now: JobStatus) -> Text:
    took = duration(now.submitted, now.ended)
    attempts = f", attempt {now.attempt + 1}" if now.attempt else ""
    reason = one_line(now.text or "")
    text = Text(f"{run.id} ")
    if now.state == State.LOST:
        advice = f": its controller is gone, and tasks may still be running; end them with kedge stop {run.id}"
        return text.append("Lost", "bold red").append(advice)
    if now.state == State.DAMAGED:
        advice = f": {now.text}. kedge rm {run.id} ends what is left of the run and deletes it"
        return text.append("Damaged", "bold red").append(advice)
    if succeeded_despite_failures(now):
        return text.append(reason, style=f"bold {STATE_COLOURS[now.state]}").append(f" (in {took}{attempts})")
    if why := pending(now):
        text.append("Pending" if now.state == State.WAITING else now.state.capitalize(), style="bold yellow")
        return text.append(f" for {took}{f' as job {now.cluster_job}' if now.cluster_job else ''}: {why}")
    text.append(now.state.capitalize(), style=f"bold {STATE_COLOURS[now.state]}")
    text.append(f" {'in' if now.state in FINAL else 'for'} {took}{attempts}")
    if reason.startswith(f"{now.state} "):  # "stopped by Ctrl-C" becomes "Stopped in 2.0 s by Ctrl-C"
        return text.append(reason.removeprefix(now.state))
    return text.append(f": {reason}" if reason and now.state != State.SUCCEEDED else "")


def _table(now: JobStatus) -> Table:
    with_nodes = any(task.node for task in now.tasks)
    nodes = ("NODE",) if with_nodes else ()
    rows = Table("TASK", "STATE", "TRIES", "EXIT", "TIME", *nodes, right=("TRIES", "EXIT", "TIME"))
    for task in _sorted(now.tasks)[:MOST_ROWS]:
        rows.add_row(
            f"{task.role}:{task.index}",
            Text(_state(task), style=STATE_COLOURS[task.state]),
            str(task.tries),
            exit_text(task),
            duration(task.started, task.ended),
            *([one_line(task.node or "")] if with_nodes else []),
        )
    return rows


def _state(task: TaskStatus) -> str:
    """The state, or something more exact."""
    if task.unreachable is not None and task.state not in FINAL:
        return "unreachable"
    return "held" if task.held_until else task.state


def _sorted(tasks: tuple[TaskStatus, ...]) -> list[TaskStatus]:
    """In the order of the file; if there are too many to show, what did not go well comes first."""
    if len(tasks) <= MOST_ROWS:
        return list(tasks)
    return sorted(tasks, key=lambda task: _ORDER.index(task.state))
