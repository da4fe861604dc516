"""From the evidence of one task to its diagnosis: prepare, scan, cut incidents, select, explain."""

from __future__ import annotations

from kedge.diagnose.decide import candidates, exit_codes, facts, peers
from kedge.diagnose.decide.candidates import SPECIFIC, Candidate
from kedge.diagnose.decide.remedies import remedy
from kedge.diagnose.decide.select import ENDERS, NEEDS_SETUP, OF_OTHERS, SETUP, Choice, choose, effect
from kedge.diagnose.log import lines, mpi_ranks, tracebacks
from kedge.diagnose.log.log_end import LogEnd
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.model import GUESS, LIKELY, NONE, STOPPED, SURE, UNKNOWN, Diagnosis, Evidence, Quote
from kedge.diagnose.rules import scan
from kedge.diagnose.rules.packaged import packaged
from kedge.diagnose.rules.ruleset import RuleSet
from kedge.light.types import NamedTuple

# The most likely cause for an exit code alone (128+n is death by signal n).
_CODES = {
    126: "permission_denied", 127: "command_not_found", 130: "user_interrupt", 129: "user_interrupt",
    132: "native_crash", 134: "native_crash", 135: "native_crash", 136: "native_crash", 139: "native_crash",
    137: "sigkill_unattributed", 143: "sigterm_unattributed",
    124: "time_limit", 152: "time_limit",  # coreutils' timeout; SIGXCPU
}  # fmt: skip
_STOP_CODES = {129, 130, 137, 143}
Quotes = tuple[Quote, ...]
# Causes that a task reports when its peers are gone or it is ended from outside: no failure of its own.
_AFTER_OTHERS = OF_OTHERS | ENDERS
# For each failure of the setup, the causes that a program reports when its environment is missing.
SHOWN_BY = dict.fromkeys(SETUP, NEEDS_SETUP)
MAX_QUOTES = 5
SILENCE = 1800  # seconds: a program that computes prints something more often


class ExaminedLog(NamedTuple):
    """One log with the findings in it."""

    log: Log
    choice: Choice
    tail: LogEnd
    last_words: LogLine | None  # of a program that failed, judging by the end of the log


def classify(evidence: Evidence, rules: RuleSet | None = None) -> Diagnosis:
    """Find out why a task failed. Never raises, whatever is in the logs. `rules` defaults to the packaged ones."""
    rules = rules or packaged()
    evidence = evidence._replace(exit_code=_code(evidence.exit_code), facts=_facts(evidence))
    examined = [_examine(Log(name, content), rules, evidence) for name, content in _logs(evidence)]
    answer = _judge(examined, rules, evidence)
    if is_conclusive(answer):
        return answer
    return answer._replace(exit_meaning=exit_codes.meaning(evidence.exit_code), last_words=_last_words(examined))


def _judge(examined: list[ExaminedLog], rules: RuleSet, evidence: Evidence) -> Diagnosis:
    """The diagnosis that follows from the examined logs, the facts and the exit code."""
    if evidence.stopped_by and (own := _before_stop(evidence, rules)):
        return own
    if evidence.stopped_by and evidence.exit_code in _STOP_CODES | {None, 0}:
        return _answer(STOPPED, SURE, rules, evidence, _last_lines(examined[:1]))
    best = next((one for one in examined if one.choice.best and one.choice.best.role == "root"), None)
    best = best or next((one for one in examined if one.choice.best), None)
    if evidence.exit_code == 0 and not (best and best.choice.best and best.choice.best.cause == "loss_nan"):
        return _answer(NONE, SURE, rules, evidence, ())
    if proven := facts.overruling(best.choice.best if best else None, evidence):
        return _proven(proven, best, rules, evidence, _last_lines(examined[:1]))
    if best and best.choice.best:
        return _explain(best, best.choice.best, rules, evidence)
    return _without_candidate(examined, rules, evidence)


def _before_stop(evidence: Evidence, rules: RuleSet) -> Diagnosis | None:
    """The failure at the end of the log when the task was asked to stop, unless it follows from another task's."""
    if not evidence.logs:
        return None
    name, content = evidence.logs[0]
    one = _examine(Log(name, content[: len(content) - evidence.after_stop]), rules, evidence._replace(exit_code=1))
    found = _own_failure(one, rules, evidence)
    return found._replace(before_stop=True) if found else None


def _own_failure(one: ExaminedLog, rules: RuleSet, evidence: Evidence) -> Diagnosis | None:
    """The failure at the end of a log, or of a process in it, if it has a reason of its own. Its confidence is at most
    LIKELY."""
    best = one.choice.best
    if best is None or best.role != "root" or best.calm or effect(best) or best.cause in _AFTER_OTHERS:
        return None
    if not best.uncaught and not (one.tail.near(best.end) and (best.trace or best.rank >= SPECIFIC)):
        return None
    found = _explain(one, best, rules, evidence)
    return found._replace(confidence=LIKELY if found.confidence == SURE else found.confidence)


def is_conclusive(answer: Diagnosis) -> bool:
    """Whether the logs, a fact or a signal show the cause. If not, it is worth looking at other logs."""
    killed = answer.exit_code is not None and answer.exit_code > 128
    return not answer.failed or (answer.cause != UNKNOWN and (killed or answer.confidence != GUESS))


def second_look(answer: Diagnosis, evidence: Evidence, rules: RuleSet) -> Diagnosis:
    """Replace an inconclusive diagnosis by one from further logs (in `evidence`, the most informative first)."""
    evidence = evidence._replace(exit_code=_code(evidence.exit_code), facts=_facts(evidence))
    examined = (_examine(Log(name, content), rules, evidence) for name, content in evidence.logs)
    found = next((own for one in examined if (own := _own_failure(one, rules, evidence))), None)
    return found._replace(last_words=answer.last_words, exit_meaning=answer.exit_meaning) if found else answer


def _code(code: int | None) -> int | None:
    return 128 - code if code is not None and code < 0 else code


def _facts(evidence: Evidence) -> dict[str, float]:
    """The facts, with those derived from the times: `run_seconds`, and `silent_seconds` without output at the end."""
    facts = dict(evidence.facts)
    if evidence.ended is not None and evidence.started is not None:
        facts["run_seconds"] = evidence.ended - evidence.started
    if evidence.ended is not None and evidence.last_output is not None:
        facts["silent_seconds"] = evidence.ended - evidence.last_output
    return facts


def _logs(evidence: Evidence) -> list[tuple[str, bytes]]:
    if not evidence.error_file:
        return list(evidence.logs)
    return [*evidence.logs, ("error file", evidence.error_file.encode())]


def _examine(log: Log, rules: RuleSet, evidence: Evidence) -> ExaminedLog:
    traces = tracebacks.find(log)
    found = candidates.collect(log, scan.scan(log, rules), traces, rules, evidence)
    tail = LogEnd(log)
    last_words = tail.unanswered(found.harmless)
    if traces and not traces[-1].blocks[-1].message and tail.near(traces[-1].end):
        last_words = traces[-1].blocks[-1].header  # the log ends inside a traceback
    choice = choose(found.candidates, tail, evidence.exit_code is not None)
    if not choice.best and last_words and evidence.exit_code != 0:
        choice = choice._replace(best=candidates.bare(last_words))
    return ExaminedLog(log, choice, tail, last_words)


def _proven(cause: str, one: ExaminedLog | None, rules: RuleSet, evidence: Evidence, quotes: Quotes) -> Diagnosis:
    """The diagnosis of a cause that the facts prove. The log shows its effects, or ends with `quotes`."""
    best = one.choice.best if one else None
    if one is None or best is None:
        return _answer(cause, LIKELY, rules, evidence, quotes)
    effects = _explain(one, best, rules, evidence)
    answer = _answer(cause, LIKELY, rules, evidence, effects.evidence)
    symptoms = (best.cause,) if best.cause != UNKNOWN else ()
    return answer._replace(symptoms=symptoms, rank=effects.rank, frame=effects.frame)


def _without_candidate(examined: list[ExaminedLog], rules: RuleSet, evidence: Evidence) -> Diagnosis:
    """The diagnosis from exit code and facts, where the logs have no candidate."""
    code, quotes = evidence.exit_code, _last_lines(examined[:1])
    if code in (None, 137, 143) and _hung(examined, evidence):
        return _answer("storage_hang", GUESS, rules, evidence, quotes)
    if code in _CODES:
        return _answer(_CODES[code], LIKELY if code not in (124, 126, 127) else GUESS, rules, evidence, quotes)
    hints = ((one, c) for one in examined for c in one.choice.live if c.calm and (code or one.tail.near(c.end)))
    if hint := next(hints, None):
        return _explain(*hint, rules, evidence)
    if code or any(one.last_words for one in examined):
        return _answer(UNKNOWN, GUESS, rules, evidence, quotes)
    return _answer(NONE, LIKELY, rules, evidence, ())


def _hung(examined: list[ExaminedLog], evidence: Evidence) -> bool:
    """Whether the task was ended after a long silence that began while it read or wrote data."""
    last = examined[0].tail.last if examined else None
    return last is not None and evidence.facts.get("silent_seconds", 0) >= SILENCE and lines.moves_data(last)


def _explain(one: ExaminedLog, best: Candidate, rules: RuleSet, evidence: Evidence) -> Diagnosis:
    live = [c for c in one.choice.live if not c.calm]
    others = dict.fromkeys(c.cause for c in live if c.cause != best.cause and (c.role == "symptom" or effect(c)))
    quoted = [
        best.line,
        *(c.line for c in live if c.cause == best.cause),
        *(c.line for c in live if c.cause in SHOWN_BY.get(best.cause, ())),
        *(c.line for c in live if c.role == "symptom"),
    ]
    quotes = _quotes(one.log, quoted)
    roots = [c for c in live if c.cause == best.cause and c.line.rank == best.line.rank and c.role == "root"]
    same = [best, *roots]
    frame = next((c.trace.frame(c.block) for c in same if c.trace and c.block), "")
    answer = _answer(best.cause, _confidence(best, live), rules, evidence, quotes, frame)
    return answer._replace(
        remedy=rules.remedy(best.rule, evidence.facts) or answer.remedy,
        symptoms=tuple(others),
        rule=best.rule,
        rank=best.line.rank or mpi_ranks.failed_first(c.line.body for c in live),
        lone_symptom=best.role == "symptom",
        time=_first_time(best),
        missing=peers.missing(one.log, one.tail, live) if best.cause in peers.WAITING else (),
    )


def _first_time(best: Candidate) -> str:
    """The time of the line; for a traceback, its header may have it."""
    return best.line.time or (best.trace.blocks[0].header.time if best.trace else "")


def _confidence(best: Candidate, live: list[Candidate]) -> str:
    if best.role == "symptom" or effect(best) or best.calm:
        return GUESS
    rivals = {c.cause for c in live if c.role == "root" and not effect(c) and c.start != best.start} - {best.cause}
    return SURE if best.rank >= SPECIFIC and not rivals else LIKELY


def _quotes(log: Log, chosen: list[LogLine]) -> tuple[Quote, ...]:
    distinct = list({line.start: line for line in chosen}.values())[:MAX_QUOTES]
    return tuple(Quote(log.name, log.number(line.start), log.show(line)) for line in distinct)


def _last_words(examined: list[ExaminedLog]) -> Quotes:
    """The last lines of the first log that has output of the task."""
    last_lines = ((one.log, one.tail.last_output_lines(MAX_QUOTES)) for one in examined)
    return next((_quotes(log, found) for log, found in last_lines if found), ())


def _last_lines(examined: list[ExaminedLog]) -> tuple[Quote, ...]:
    return tuple(
        quote
        for one in examined
        if one.tail.last
        for quote in _quotes(one.log, [one.last_words or one.tail.last, one.tail.last])
    )


def _answer(
    cause: str, confidence: str, rules: RuleSet, evidence: Evidence, quotes: tuple[Quote, ...], frame: str = ""
) -> Diagnosis:
    known = rules.cause(cause)
    return Diagnosis(
        cause,
        known.behaviour,
        confidence,
        known.owner,
        known.meaning,
        remedy(known, [quote.text for quote in quotes], frame),
        quotes,
        frame=frame,
        exit_code=evidence.exit_code,
    )
