"""kedge diagnose: explain a failure from log files or a run folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from kedge.cli.log_files import LogAtHand, read_tail
from kedge.cli.view.answer import print_others, print_root
from kedge.cli.view.notes import print_notes
from kedge.cli.view.tables import show
from kedge.diagnose.decide.classify import classify, is_conclusive, second_look
from kedge.diagnose.decide.job import TaskResult, verdict
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.exit_spec.exitspec import is_exit_spec
from kedge.diagnose.model import NONE, Diagnosis, Evidence, Quote
from kedge.diagnose.rules import rule_files
from kedge.diagnose.rules.ruleset import RuleSet
from kedge.errors import EXIT_OK, InputError
from kedge.jobs.rules import exit_spec, with_usual
from kedge.runs import copies, report
from kedge.runs.explanation import label
from kedge.runs.folder import Run
from kedge.runs.job_report import LaterFailures, RootCause
from kedge.settings import values
from kedge.states import State

EXIT_STATUS = {"transient": 10, "permanent": 11, "unknown": 12}  # by the behaviour of the failure
VERSION = 1


class DiagnoseAnswer(NamedTuple):
    """The cause, the code that the exit spec gives it, and the failures that followed."""

    root: RootCause
    pai_code: int | None
    others: tuple[LaterFailures, ...] = ()
    of_run: bool = True

    def to_json(self) -> dict[str, Any]:
        """The keys of docs/reports.md; a log has neither a message of the runtime nor a job file."""
        root = self.root.to_json()
        if not self.of_run:
            del root["message"], root["job_line"]
        return {**root, "pai_code": self.pai_code, "others": [one.to_json() for one in self.others]}


@click.command()
@click.argument("logs", nargs=-1, metavar="[LOG…|RUN_FOLDER|-]")
@click.option("--exit-code", type=int, metavar="N", help="The command's exit code; negative for a signal.")
@click.option("--rules", "files", multiple=True, metavar="FILE", help="Add a rule file, or replace the exit spec.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--exit-status", is_flag=True, help="Exit with 0 if nothing failed, otherwise 10, 11 or 12.")
def command(
    logs: tuple[str, ...], exit_code: int | None, files: tuple[str, ...], as_json: bool, exit_status: bool
) -> int:
    """Explain why a job failed, from its logs.

    Several LOGs are taken as the tasks of one job. They may be compressed with gzip or zstd; - or no argument reads
    stdin. Without --exit-code the logs alone decide whether anything failed. For a RUN_FOLDER its report is shown.

    With --exit-status, kedge exits with 10 for a transient failure (a retry can help), 11 for a permanent one and 12
    for an unknown one. Exit code 2 means that there is nothing to diagnose.
    """
    answer = _of_run(Path(logs[0])) if len(logs) == 1 and Path(logs[0]).is_dir() else _of_logs(logs, exit_code, files)
    if as_json:
        click.echo(json.dumps({"version": VERSION, **answer.to_json()}))
    elif answer.root.cause == NONE:
        show(f"Nothing failed ({answer.root.confidence}).")
    else:
        print_root(answer.root, label())
        print_others(answer.others)
    return EXIT_STATUS[answer.root.behavior] if exit_status and answer.root.cause != NONE else EXIT_OK


def _of_run(folder: Path) -> DiagnoseAnswer:
    """The root cause of an ended run. InputError if the folder is not that of a run, or the run has no verdict."""
    if not Run(folder).run_file.is_file():
        raise InputError(f"{folder} is not a run folder; name the log files in it")
    copies.fetch(Run(folder.resolve()))
    found = report.read(Run(folder))
    if found is None and report.is_damaged(Run(folder)):
        raise InputError(f"{folder}: the report of the run is damaged; name the log files in it")
    if found is None:
        raise InputError(f"{folder}: the run has no report yet; see kedge show {folder.resolve().name}")
    if found.root is None and found.state == State.SUCCEEDED:
        nothing = RootCause.of_diagnosis({**classify(Evidence((), exit_code=0)).to_json(), "task": None})
        return DiagnoseAnswer(nothing._replace(message=found.text), 0)
    if found.root is None:
        raise InputError(f"{folder}: nothing to diagnose: no task has failed ({found.text or found.state})")
    code = next((task.pai_code for task in found.tasks if task.task == found.root.task), None)
    return DiagnoseAnswer(found.root, code, found.others)


def _of_logs(logs: tuple[str, ...], exit_code: int | None, files: tuple[str, ...]) -> DiagnoseAnswer:
    files = with_usual(files, values.load())
    known, spec = rule_files.load([Path(f) for f in files if not is_exit_spec(f)]), exit_spec(files) or exitspec.stock()
    if not logs and sys.stdin.isatty():
        click.echo("reading the log from the terminal until Ctrl-D", err=True)
    tails = {path: read_tail(path) for path in logs or ("-",)}
    for path in (path for path, tail in tails.items() if tail.cut):
        print_notes(f"the compressed data of {path} is truncated; diagnosing what is there")
    if exit_code is None and all(tail.unreadable for tail in tails.values()):
        raise InputError(*(f"{path}: nothing to diagnose: it is {tail.unreadable}" for path, tail in tails.items()))
    found = {path: _diagnose(path, tail, exit_code, known) for path, tail in tails.items()}
    judged = verdict(
        [TaskResult(path, State.FAILED if one.failed else State.SUCCEEDED, 0.0, one) for path, one in found.items()]
    )
    task = judged.task or next(iter(found))
    code = found[task].exit_code
    root = RootCause.of_diagnosis({**found[task].to_json(), "task": task})
    pai_code = spec.match(code, tails[task].content, b"").code if code else code
    others = tuple(LaterFailures(fold.kind, fold.tasks) for fold in judged.others)
    return DiagnoseAnswer(root, pai_code, others, of_run=False)


def _diagnose(path: str, tail: LogAtHand, exit_code: int | None, known: RuleSet) -> Diagnosis:
    found = classify(Evidence(logs=((path, tail.content),), exit_code=exit_code), known)
    found = found._replace(
        evidence=tuple(quote._replace(line=quote.line + tail.lines_before) for quote in found.evidence),
        last_words=tuple(quote._replace(line=quote.line + tail.lines_before) for quote in found.last_words),
    )
    if not tail.earlier or is_conclusive(found):
        return found
    content = b"".join(piece.content for piece in tail.earlier)
    earlier = second_look(found, Evidence(logs=((path, content),), exit_code=exit_code), known)
    if earlier is found:
        return found
    return earlier._replace(evidence=tuple(quote._replace(line=_line(tail, quote)) for quote in earlier.evidence))


def _line(tail: LogAtHand, quote: Quote) -> int:
    """The line of a quote in the whole file, from its line in the joined earlier pieces."""
    line = quote.line
    for piece in tail.earlier:
        if line <= (count := piece.content.count(b"\n")):
            return piece.lines_before + line
        line -= count
    return quote.line
