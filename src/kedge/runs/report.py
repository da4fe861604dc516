"""The report of an ended run: report.json for programs (docs/reports.md), report.md for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kedge import untrusted
from kedge.contract import CURRENT, OPTION_LINES, USER_ALL
from kedge.errors import DiskFull, InputError
from kedge.runs import events, explanation
from kedge.runs.atomic_files import write_atomic, write_json
from kedge.runs.folder import Run, parse_task
from kedge.runs.job_events import JobEvent
from kedge.runs.job_report import AbsentTask, JobReport, LaterFailures, LogQuote, ReportedTask, RootCause
from kedge.runs.status import JobStatus, TaskStatus
from kedge.runs.status import read as read_status
from kedge.states import State
from kedge.terminal_text import terminal_text

_LARGEST = 256 << 20  # bytes; 100,000 tasks take about 50 MB
_JSON, _MARKDOWN = "report.json", "report.md"
_NO_VERDICT: Mapping[str, Any] = {"task": None, "diagnosis": None, "others": [], "suspects": []}
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, InputError)
_UNJUDGED = "the job's controller could not determine why tasks failed; see the report.json of each task"


def build(
    run: Run, status: JobStatus, judged: Mapping[str, Any], lines: Mapping[str, Sequence[int]] = MappingProxyType({})
) -> JobReport:
    """The report of a run, from its status and its verdict (diagnose.job.JobVerdict as JSON).

    `lines`: for each role, the line of the job file that each line of its command comes from.
    """
    ending = (run.id, status.state, status.text, status.code, status.attempt + 1, status.submitted, status.ended)
    report = JobReport(*ending, notes=status.notes, tasks=tuple(map(_reported, status.tasks)))
    if judged["diagnosis"] is None or status.state not in (State.FAILED, State.SUCCEEDED):
        return report
    root = RootCause.of_diagnosis({**judged["diagnosis"], "task": judged["task"]})
    return report._replace(
        root=_root(run, status, root, lines),
        others=tuple(LaterFailures(one["kind"], tuple(one["tasks"])) for one in judged["others"]),
        suspects=tuple(AbsentTask(one["task"], one["kind"]) for one in judged["suspects"]),
    )


def _reported(task: TaskStatus) -> ReportedTask:
    counts, codes = (task.attempts, task.tries), (task.exit_code, task.code)
    return ReportedTask(f"{task.role}:{task.index}", task.state, *counts, *codes, task.started, task.ended, task.reason)


def write(run: Run, report: JobReport) -> None:
    """Write both files. DiskFull if there is no space for them."""
    write_json(run.path / _JSON, report.to_json(), followed=True)
    text = markdown(_with_logs_in(report, run.id, ""))  # whoever has a copy of the folder finds the logs in it, too
    write_atomic(run.path / _MARKDOWN, terminal_text(text, newlines=True).encode(errors="replace"))


def write_without_verdict(run: Run) -> None:
    """Write the report of a run whose controller could not determine why tasks failed; only their own reports explain
    that. Does nothing if the disk is full: the events hold the same facts."""
    now = read_status(run)
    notes = (*now.notes, _UNJUDGED) if now.failed_tasks else now.notes
    with suppress(DiskFull):
        write(run, build(run, replace(now, notes=notes), _NO_VERDICT))


def exists(run: Run) -> bool:
    """Whether there is a report.json, damaged or not."""
    return os.path.lexists(run.path / _JSON)


def complete(run: Run) -> None:
    """Write the report of a run whose end is recorded if there is none yet: its controller was killed before it could.
    Without a verdict if none is recorded."""
    if exists(run):
        return
    if made := _of_record(run):
        with suppress(DiskFull):
            write(run, made)
    else:
        write_without_verdict(run)


def read(run: Run) -> JobReport | None:
    """The report in report.json, or the one that its controller was about to write when it was killed; None if there is
    none yet, or it is damaged."""
    try:
        return _with_logs_in(JobReport.from_json(untrusted.read_json(run.path, _JSON, _LARGEST)), run.id, str(run.path))
    except FileNotFoundError:
        return _of_record(run)
    except (OSError, ValueError):
        return None


def _with_logs_in(report: JobReport, run_id: str, folder: str) -> JobReport:
    """The report with the paths of logs in this run folder, which may be a copy of the one where it was written; with
    an empty text, relative to it."""
    if report.root is None:
        return report
    evidence, last_words = (
        tuple(quote._replace(file=_in_folder(quote.file, run_id, folder)) for quote in quotes)
        for quotes in (report.root.evidence, report.root.last_words)
    )
    return report._replace(root=report.root._replace(evidence=evidence, last_words=last_words))


def _in_folder(path: str, run_id: str, folder: str) -> str:
    _, found, inside = path.partition(f"/{run_id}/")
    return os.path.join(folder, inside) if found else path


def _of_record(run: Run) -> JobReport | None:
    """The report with the verdict that the event of the run's end has; None if it has none."""
    end = next((one for one in events.read(run.events) if one["event"] == JobEvent.JOB_COMPLETED), {})
    try:
        made = build(run, read_status(run), end["judged"], end["lines"])
        return JobReport.from_json(made.to_json())  # which checks it
    except _MALFORMED:  # it has none, or a task has written it
        return None


def is_damaged(run: Run) -> bool:
    """Whether report.json exists but cannot be read as a report."""
    return exists(run) and read(run) is None


def markdown(report: JobReport) -> str:
    """The report in Markdown, for people to read or to paste into an issue."""
    parts = [f"# {report.id}: {report.state}", report.text or ""]
    if report.root:
        parts += _explained(report.root, explanation.label(report.state), report.text or "")
    parts += [f"**Look at**: {one}" for one in explanation.suspects(report.suspects)]
    parts += [f"**After it**: {others}" for others in [explanation.others(report.others)] if others]
    parts += [f"**Note**: {note}" for note in report.notes]
    rows = [f"| {t.task} | {t.state} | {t.tries} | {_shown(t.exit_code)} |" for t in report.tasks]
    parts.append("\n".join(["| task | state | tries | exit code |", "|---|---|---|---|", *rows]))
    return "\n\n".join(filter(None, parts)) + "\n"


def _explained(root: RootCause, label: str, verdict: str) -> list[str]:
    """The root in Markdown, with the content of `kedge show`."""
    cause = f"`{root.cause}` ({explanation.certainty(root)})" if root.is_known else None
    last_lines, place = explanation.last_words(root), explanation.place(root)
    return [
        f"**{label}**: {root.task or 'the whole job'}, {cause or f'not recognised: {explanation.ending(root)}'}",
        explanation.meaning(root),
        *(f"    {quote}" for quote in [explanation.quote(root, verdict)] if quote),
        *explanation.where(root),
        "**Last words**:\n\n" + "\n".join(f"    {line}" for line in last_lines) if last_lines else "",
        f"**Log**: {place}" if place else "",
        "**Do**:\n\n" + "\n".join(f"- {step}" for step in root.remedy),
    ]


def _root(run: Run, status: JobStatus, root: RootCause, lines: Mapping[str, Sequence[int]]) -> RootCause:
    """The root with the full paths of the quoted logs, the runtime's message about the end, and the job line."""
    if root.task is None:  # the job failed as a whole
        return root
    role, index = parse_task(root.task or "")
    ended = next((t for t in status.tasks if (t.role, t.index) == (role, index)), TaskStatus(role, index))
    folder = str(run.task(role, index, status.attempt, max(0, ended.attempts - 1)))
    return root._replace(
        evidence=_placed(folder, root.evidence),
        last_words=_placed(folder, root.last_words),
        message=ended.message,
        job_line=_job_line(root.evidence[0].text if root.evidence else "", run.info().source, lines.get(role, ())),
    )


def _placed(folder: str, quotes: Iterable[LogQuote]) -> tuple[LogQuote, ...]:
    return tuple(quote._replace(file=_path(folder, quote.file)) for quote in quotes)


def _job_line(quoted: str, source: str, lines: Sequence[int]) -> str | None:
    """The line of the job file, such as `job.yaml:12`, for the line of user.sh that a shell's message names."""
    named = explanation.SCRIPT_LINE.search(quoted)
    number = int(named[1]) - OPTION_LINES if named else 0
    return f"{source}:{lines[number - 1]}" if 0 < number <= len(lines) else None


def _path(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    return os.path.join(path, CURRENT) if name == USER_ALL else path


def _shown(value: object) -> str:
    return "" if value is None else str(value)
