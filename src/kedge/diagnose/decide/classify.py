"""From the evidence of one task to its diagnosis: prepare, scan, cut incidents, select, explain."""

from __future__ import annotations

from typing import NamedTuple

from kedge.diagnose.decide import candidates, exit_codes, facts, peers
from kedge.diagnose.decide.candidates import SPECIFIC, Candidate
from kedge.diagnose.decide.remedies import remedy
from kedge.diagnose.decide.select import ENDERS, NEEDS_SETUP, OF_OTHERS, SETUP, Choice, choose, effect
from kedge.diagnose.log import lines, tracebacks
from kedge.diagnose.log.log_end import LogEnd
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.model import GUESS, LIKELY, NONE, STOPPED, SURE, UNKNOWN, Diagnosis, Evidence, Quote
from kedge.diagnose.rules import scan
from kedge.diagnose.rules.packaged import packaged
from kedge.diagnose.rules.ruleset import RuleSet

# What an exit code alone says (128+n is death by signal n), as likely as it can be.
_CODES = {
    126: "permission_denied", 127: "command_not_found", 130: "user_interrupt", 129: "user_interrupt",
    132: "native_crash", 134: "native_crash", 135: "native_crash", 136: "native_crash", 139: "native_crash",
    137: "sigkill_unattributed", 143: "sigterm_unattributed",
    124: "time_limit", 152: "time_limit",  # coreutils' timeout; SIGXCPU
}  # fmt: skip
_STOP_CODES = {129, 130, 137, 143}
Quotes = tuple[Quote, ...]
# What a task says when its peers are gone, or somebody ends it: no reason of its own to have been stopped for.
_AFTER_OTHERS = OF_OTHERS | ENDERS
# What a program says that fails for want of its environment.
SHOWN_BY = dict.fromkeys(SETUP, NEEDS_SETUP)
MOST_QUOTES = 5
SILENCE = 1800  # seconds: what is computed says so more often


class Looked(NamedTuple):
    """One log with what was found in it."""

    log: Log
    choice: Choice
    tail: LogEnd
    last_words: LogLine | None  # of a program that failed, as far as the end of the log tells


def classify(evidence: Evidence, rules: RuleSet | None = None) -> Diagnosis:
    """Why a task failed. Never raises for whatever the logs hold; `rules` are the packaged ones if not given."""
    rules = rules or packaged()
    evidence = evidence._replace(exit_code=_code(evidence.exit_code), facts=_facts(evidence))
    looked = [_look(Log(name, content), rules, evidence) for name, content in _logs(evidence)]
    answer = _judge(looked, rules, evidence)
    if tells(answer):
        return answer
    return answer._replace(exit_meaning=exit_codes.meaning(evidence.exit_code), last_words=_last_words(looked))


def _judge(looked: list[Looked], rules: RuleSet, evidence: Evidence) -> Diagnosis:
    """The answer of what was looked at."""
    if evidence.stopped_by and (own := _before_stop(evidence, rules)):
        return own
    if evidence.stopped_by and evidence.exit_code in _STOP_CODES | {None, 0}:
        return _answer(STOPPED, SURE, rules, evidence, _last_lines(looked[:1]))
    best = next((one for one in looked if one.choice.best and one.choice.best.role == "root"), None)
    best = best or next((one for one in looked if one.choice.best), None)
    if evidence.exit_code == 0 and not (best and best.choice.best and best.choice.best.cause == "loss_nan"):
        return _answer(NONE, SURE, rules, evidence, ())
    if proven := facts.overruling(best.choice.best if best else None, evidence):
        return _proven(proven, best, rules, evidence, _last_lines(looked[:1]))
    if best and best.choice.best:
        return _explain(best, best.choice.best, rules, evidence)
    return _without_rule(looked, rules, evidence)


def _before_stop(evidence: Evidence, rules: RuleSet) -> Diagnosis | None:
    """The failure that the log ended with when the task was told to stop, if that is no consequence of another's."""
    if not evidence.logs:
        return None
    name, content = evidence.logs[0]
    one = _look(Log(name, content[: len(content) - evidence.after_stop]), rules, evidence._replace(exit_code=1))
    found = _own_failure(one, rules, evidence)
    return found._replace(before_stop=True) if found else None


def _own_failure(one: Looked, rules: RuleSet, evidence: Evidence) -> Diagnosis | None:
    """What a log ends with, or a process in it ended with, for a reason of its own; never sure."""
    best = one.choice.best
    if best is None or best.role != "root" or best.calm or effect(best) or best.cause in _AFTER_OTHERS:
        return None
    if not best.uncaught and not (one.tail.near(best.end) and (best.trace or best.rank >= SPECIFIC)):
        return None
    found = _explain(one, best, rules, evidence)
    return found._replace(confidence=LIKELY if found.confidence == SURE else found.confidence)


def tells(answer: Diagnosis) -> bool:
    """Whether the logs, a fact or a signal said why; where not, it is worth to look elsewhere."""
    killed = answer.exit_code is not None and answer.exit_code > 128
    return not answer.failed or (answer.cause != UNKNOWN and (killed or answer.confidence != GUESS))


def second_look(answer: Diagnosis, evidence: Evidence, rules: RuleSet) -> Diagnosis:
    """The answer that further logs (in `evidence`, the most telling first) give in place of one that tells nothing."""
    evidence = evidence._replace(exit_code=_code(evidence.exit_code), facts=_facts(evidence))
    looked = (_look(Log(name, content), rules, evidence) for name, content in evidence.logs)
    found = next((own for one in looked if (own := _own_failure(one, rules, evidence))), None)
    return found._replace(last_words=answer.last_words, exit_meaning=answer.exit_meaning) if found else answer


def _code(code: int | None) -> int | None:
    return 128 - code if code is not None and code < 0 else code


def _facts(evidence: Evidence) -> dict[str, float]:
    """The facts and what follows from the times: `run_seconds`, and `silent_seconds` without any output at the end."""
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


def _look(log: Log, rules: RuleSet, evidence: Evidence) -> Looked:
    traces = tracebacks.find(log)
    found = candidates.collect(log, scan.scan(log, rules), traces, rules, evidence)
    tail = LogEnd(log)
    last_words = tail.unanswered(found.harmless)
    if traces and not traces[-1].blocks[-1].message and tail.near(traces[-1].end):
        last_words = traces[-1].blocks[-1].header  # the log ends inside a traceback
    choice = choose(found.candidates, tail, evidence.exit_code is not None)
    if not choice.best and last_words and evidence.exit_code != 0:
        choice = choice._replace(best=candidates.bare(last_words))
    return Looked(log, choice, tail, last_words)


def _proven(cause: str, one: Looked | None, rules: RuleSet, evidence: Evidence, quotes: Quotes) -> Diagnosis:
    """A cause that the facts prove; the log shows what came of it, or ends with `quotes`."""
    best = one.choice.best if one else None
    if one is None or best is None:
        return _answer(cause, LIKELY, rules, evidence, quotes)
    told = _explain(one, best, rules, evidence)
    answer = _answer(cause, LIKELY, rules, evidence, told.evidence)
    return answer._replace(symptoms=(best.cause,) if best.cause != UNKNOWN else (), rank=told.rank, frame=told.frame)


def _without_rule(looked: list[Looked], rules: RuleSet, evidence: Evidence) -> Diagnosis:
    """What exit code and facts say where the log says nothing."""
    code, quotes = evidence.exit_code, _last_lines(looked[:1])
    if code in (None, 137, 143) and _hung(looked, evidence):
        return _answer("storage_hang", GUESS, rules, evidence, quotes)
    if code in _CODES:
        return _answer(_CODES[code], LIKELY if code not in (124, 126, 127) else GUESS, rules, evidence, quotes)
    hints = ((one, c) for one in looked for c in one.choice.live if c.calm and (code or one.tail.near(c.end)))
    if hint := next(hints, None):
        return _explain(*hint, rules, evidence)
    if code or any(one.last_words for one in looked):
        return _answer(UNKNOWN, GUESS, rules, evidence, quotes)
    return _answer(NONE, LIKELY, rules, evidence, ())


def _hung(looked: list[Looked], evidence: Evidence) -> bool:
    """Whether the task was ended after a long silence that began with reading or writing."""
    last = looked[0].tail.last if looked else None
    return last is not None and evidence.facts.get("silent_seconds", 0) >= SILENCE and lines.moves_data(last)


def _explain(one: Looked, best: Candidate, rules: RuleSet, evidence: Evidence) -> Diagnosis:
    live = [c for c in one.choice.live if not c.calm]
    others = dict.fromkeys(c.cause for c in live if c.cause != best.cause and (c.role == "symptom" or effect(c)))
    quoted = [
        best.line,
        *(c.line for c in live if c.cause == best.cause),
        *(c.line for c in live if c.cause in SHOWN_BY.get(best.cause, ())),
        *(c.line for c in live if c.role == "symptom"),
    ]
    quotes = _quotes(one.log, quoted)
    told = [c for c in live if c.cause == best.cause and c.line.rank == best.line.rank and c.role == "root"]
    same = [best, *told]
    frame = next((c.trace.frame(c.block) for c in same if c.trace and c.block), "")
    answer = _answer(best.cause, _confidence(best, live), rules, evidence, quotes, frame)
    return answer._replace(
        remedy=rules.remedy(best.rule, evidence.facts) or answer.remedy,
        symptoms=tuple(others),
        rule=best.rule,
        rank=best.line.rank,
        lone_symptom=best.role == "symptom",
        time=_first_time(best),
        missing=peers.missing(one.log, one.tail, live) if best.cause in peers.TELL else (),
    )


def _first_time(best: Candidate) -> str:
    """When it was said; of a traceback, its header may have the time."""
    return best.line.time or (best.trace.blocks[0].header.time if best.trace else "")


def _confidence(best: Candidate, live: list[Candidate]) -> str:
    if best.role == "symptom" or effect(best) or best.calm:
        return GUESS
    rivals = {c.cause for c in live if c.role == "root" and not effect(c) and c.start != best.start} - {best.cause}
    return SURE if best.rank >= SPECIFIC and not rivals else LIKELY


def _quotes(log: Log, chosen: list[LogLine]) -> tuple[Quote, ...]:
    distinct = list({line.start: line for line in chosen}.values())[:MOST_QUOTES]
    return tuple(Quote(log.name, log.number(line.start), log.show(line)) for line in distinct)


def _last_words(looked: list[Looked]) -> Quotes:
    """The last lines of the first log in which the task says anything."""
    said = ((one.log, one.tail.last_said(MOST_QUOTES)) for one in looked)
    return next((_quotes(log, words) for log, words in said if words), ())


def _last_lines(looked: list[Looked]) -> tuple[Quote, ...]:
    return tuple(
        quote
        for one in looked
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
