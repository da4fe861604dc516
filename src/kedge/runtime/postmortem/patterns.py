"""The parts of the analysis that need regular expressions: the exit specification, kedge's own rules, and progress.

Importing this module raises ImportError where google-re2 is not installed.
"""

from __future__ import annotations

from kedge.diagnose.decide.classify import classify, is_conclusive
from kedge.diagnose.decide.remedies import remedy
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.exit_spec.exitspec import ExitSpec
from kedge.diagnose.exit_spec.termination import ExitSpecVerdict
from kedge.diagnose.log.progress import reached
from kedge.diagnose.model import STOPPED, SURE, Diagnosis, Quote
from kedge.diagnose.rules import compiled_rules, packaged
from kedge.diagnose.rules.compiled_rules import CompiledRules
from kedge.diagnose.rules.ruleset import RuleSet
from kedge.errors import InputError
from kedge.runtime.files import read_file
from kedge.runtime.logs.tails import LogTail
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.postmortem import other_logs
from kedge.runtime.postmortem.case import FailedAttempt
from kedge.runtime.postmortem.collect import Collected


def verdict(found: Collected, path: str | None, notes: list[str]) -> ExitSpecVerdict:
    """The verdict of the exit specification at `path`, or of the stock one. Adds notes for the user to `notes`."""
    errors = found.evidence.facts.get("ecc_errors")
    code = found.evidence.exit_code
    assert code, "only failures are examined"
    logs = found.user.content, found.platform.content
    return _exit_spec(path, notes).match(code, *logs, None if errors is None else errors > 0)


def diagnosis(found: Collected, case: FailedAttempt, notes: list[str]) -> Diagnosis:
    """kedge's own diagnosis. Its quotes have the file names and line numbers of the files on disk."""
    rules = _rules(case.spec.rules, notes) or packaged.packaged()
    answer = classify(found.evidence, rules)
    if case.outcome.step and answer.cause != STOPPED:
        answer = _of_hook(answer, case.outcome, found, rules)
    answer = other_logs.placed(answer, found.user, found.platform)
    own = not case.outcome.step and not case.outcome.broken and case.outcome.stopped_by is None
    return other_logs.look(answer, found, case, rules) if own and not is_conclusive(answer) else answer


def progress(found: Collected) -> dict[str, int]:
    """The highest step, epoch and so on in the user's log."""
    return reached(found.user.content)


def _of_hook(answer: Diagnosis, outcome: AttemptOutcome, found: Collected, rules: RuleSet) -> Diagnosis:
    """The diagnosis of a failed hook: it names the step, and a cause that an action reported overrides one that was
    derived from its output."""
    frame = " ".join(filter(None, (f"hook of {outcome.step}", answer.frame)))
    if not outcome.cause:
        if answer.rule:
            return answer._replace(frame=frame)
        text = outcome.last_line
        last_line = _last_line_with(found.platform, f"[openpai-runtime] {text}") if text else None
        quotes = (last_line,) if last_line else ()  # only its own last line: lines above may be another hook's
        return answer._replace(frame=frame, evidence=quotes, last_words=quotes)
    known, quote = rules.cause(outcome.cause), _last_line_with(found.platform, outcome.message)
    return answer._replace(
        cause=outcome.cause, behaviour=known.behaviour, confidence=SURE, owner=known.owner, meaning=known.meaning,
        remedy=remedy(known, (outcome.message,)), evidence=(quote,) if quote else answer.evidence, symptoms=(),
        rule="", frame=frame, lone_symptom=False,
    )  # fmt: skip


def _last_line_with(log: LogTail, message: str) -> Quote | None:
    lines = log.content.decode(errors="replace").split("\n")
    for number in range(len(lines), 0, -1):
        if message in lines[number - 1]:
            return Quote(log.name, number, lines[number - 1][:1000])
    return None


def _exit_spec(path: str | None, notes: list[str]) -> ExitSpec:
    try:
        if path:
            return exitspec.load(path)
    except InputError as error:
        notes.append(f"the stock exit specification is used instead of the job's: {error}")
    return exitspec.stock()


def _rules(paths: tuple[str, ...], notes: list[str]) -> RuleSet | None:
    """The packaged rules merged with those of the files. None (the packaged ones) without files or if one is bad."""
    if not paths:
        return None
    stock = packaged.content()
    try:
        own = [_read_rules(path, set(stock.causes)) for path in paths]
    except (InputError, OSError, ValueError) as error:
        notes.append(f"the job's own rules are not used: {error}")
        return None
    return RuleSet(stock, *own)


def _read_rules(path: str, causes: set[str]) -> CompiledRules:
    if path.endswith(".json"):
        return compiled_rules.parse(read_file(path))
    # Reading the source costs more than all the rest.
    import pathlib

    from kedge.diagnose.rules import source

    return compiled_rules.of(source.rules(pathlib.Path(path), causes))
