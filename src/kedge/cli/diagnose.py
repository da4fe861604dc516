"""kedge diagnose: why did it fail, from any log at hand?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from kedge.cli.answer import print_answer
from kedge.cli.log_files import Tail, read_tail
from kedge.cli.tables import console
from kedge.diagnose import exitspec, rules
from kedge.diagnose.classify import classify
from kedge.diagnose.job import FAILED, SUCCEEDED, TaskResult, verdict
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.diagnose.ruleset import RuleSet
from kedge.jobs import exit_spec, is_exit_spec


@click.command()
@click.argument("logs", nargs=-1, metavar="[LOG…|-]")
@click.option("--exit-code", type=int, metavar="N", help="What it ended with; negative for a signal.")
@click.option("--rules", "files", multiple=True, metavar="FILE", help="Add a rule file, or replace the exit spec.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(logs: tuple[str, ...], exit_code: int | None, files: tuple[str, ...], as_json: bool) -> None:
    """Say why a job failed, from its logs.

    Several LOGs are several tasks of one job. They may be compressed with gzip or zstd; - or none at all is stdin.
    Without --exit-code the logs alone decide whether anything failed.
    """
    known, spec = rules.load([Path(f) for f in files if not is_exit_spec(f)]), exit_spec(files) or exitspec.stock()
    if not logs and sys.stdin.isatty():
        click.echo("reading the log from the terminal: Ctrl-D ends it", err=True)
    tails = {path: read_tail(path) for path in logs or ("-",)}
    for path in (path for path, tail in tails.items() if tail.cut):
        click.echo(f"note: {path} ends in the middle of what is compressed in it: this is of what is there", err=True)
    found = {path: _diagnose(path, tail, exit_code, known) for path, tail in tails.items()}
    judged = verdict([TaskResult(path, FAILED if one.failed else SUCCEEDED, 0.0, one) for path, one in found.items()])
    task = judged.task or next(iter(found))
    code = found[task].exit_code
    facts = {
        "task": task,
        **found[task].to_json(),
        "pai_code": spec.match(code, tails[task].content, b"").code if code else code,
        "others": judged.to_json()["others"],
    }
    if as_json:
        click.echo(json.dumps(facts))
    else:
        _print(facts, found[task])


def _diagnose(path: str, tail: Tail, exit_code: int | None, known: RuleSet) -> Diagnosis:
    found = classify(Evidence(logs=((path, tail.content),), exit_code=exit_code), known)
    quotes = (quote._replace(line=quote.line + tail.lines_before) for quote in found.evidence)
    return found._replace(evidence=tuple(quotes))


def _print(facts: dict[str, Any], found: Diagnosis) -> None:
    out = console()
    if found.failed:
        print_answer(out, {"root": facts, "others": facts["others"]})
    else:
        out.print(f"Nothing failed ({found.confidence}).")
