"""All that may be the answer: rule hits and exceptions, each with the incident that it stands in."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from kedge.diagnose import characters
from kedge.diagnose.log import exceptions, hedges, lines
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.log.tracebacks import Block, Trace
from kedge.diagnose.model import TRANSIENT, Evidence
from kedge.diagnose.regex import over_characters
from kedge.diagnose.rules.expression import holds
from kedge.diagnose.rules.ruleset import Rule, RuleSet
from kedge.diagnose.rules.scan import Hit

OURS = b"[openpai-runtime] [INFO] "
GENERIC = "python_bug"  # what an exception is called whose text says nothing
REFUSALS = {"ValueError", "AssertionError", "NotImplementedError"}  # raised where arguments are checked
SOURCES = 12  # failing lines, the innermost, that may tell what a file was for
SPECIFIC = 40  # from this rank on the text itself names the reason


class Candidate(NamedTuple):
    """One possible answer. `start` and `end` are those of its incident; `rule` is empty for a bare exception.

    `calm`: the line reads like a warning or advice, so it counts only when nothing better is known.
    """

    cause: str
    role: str
    rank: int
    line: LogLine
    start: int
    end: int
    rule: str = ""
    trace: Trace | None = None
    block: Block | None = None
    calm: bool = False

    @property
    def uncaught(self) -> bool:
        """Whether it ended a process for certain: a traceback up to the main program."""
        return self.trace is not None and self.trace.uncaught


class LogCandidates(NamedTuple):
    """The candidates of a log, in its order, and where the lines start that a note, or Python, calls harmless."""

    candidates: list[Candidate]
    harmless: Container[int]


def collect(log: Log, hits: list[Hit], traces: list[Trace], rules: RuleSet, evidence: Evidence) -> LogCandidates:
    """Every candidate of a log. Lines that a note matches are left out, and so are the runtime's own."""
    usable = [(rules.rule(hit.rule), hit.line) for hit in hits if not _ours(log, hit.line)]
    usable = [(rule, line) for rule, line in usable if _applies(rule, evidence)]
    noted = {line.start: rule.rank for rule, line in usable if rule.role == "note"}
    places = _Places(traces)
    answers = [(rule, line) for rule, line in usable if rule.role != "note" and rule.rank >= noted.get(line.start, 0)]
    answers = [(rule, line) for rule, line in answers if not _only_possible(rule, line, rules)]
    found = [c for rule, line in answers if (c := _of_rule(rule, line, places))]
    known = {c.start for c in found if c.trace and not c.calm}  # a rule knows it: its type adds nothing
    found += [_of_trace(trace) for trace in traces if trace.decisive.type and trace.start not in known]
    found = [_raced(c, found) for c in _without_echoes(found)]
    kept = [c for c in found if not (c.trace and _harmless(c.trace, noted))]
    ignored = (line.start for trace in traces if trace.ignored for block in trace.blocks for line in block.message)
    return LogCandidates(sorted(kept, key=lambda c: (c.start, -c.rank)), {*noted, *ignored})


def _raced(c: Candidate, others: list[Candidate]) -> Candidate:
    """Several processes that fail to create the same file or directory have raced for it."""
    if c.cause != "output_path_error" or not c.block or c.block.type != "FileExistsError":
        return c
    same = (o for o in others if o.block and o.start != c.start and o.line.body == c.line.body)
    raced = any(o.line.rank != c.line.rank or (o.uncaught and c.uncaught) for o in same)
    return c._replace(cause="lock_contention") if raced else c


def _without_echoes(found: list[Candidate]) -> list[Candidate]:
    """Without the mere kind of an exception whose own text says more: that it is a consequence, or another cause."""
    symptoms = _told(c for c in found if c.role == "symptom" and _names(c))
    reasons = _told(c for c in found if c.role == "root" and c.cause != GENERIC)

    def echo(c: Candidate) -> bool:
        consequence = c.rank < symptoms.get(c.start, 0) and (c.trace is not None or c.cause == GENERIC)
        return consequence or (c.cause == GENERIC and c.rank < reasons.get(c.start, 0))

    return [c for c in found if c.role == "symptom" or not echo(c)]


def _told(candidates: Iterable[Candidate]) -> dict[int, int]:
    """The highest rank, at most SPECIFIC, by incident."""
    highest: dict[int, int] = {}
    for c in candidates:
        highest[c.start] = max(highest.get(c.start, 0), min(c.rank, SPECIFIC))
    return highest


def _names(symptom: Candidate) -> bool:
    """Whether it says what an exception is: its first line does, and further ones if they tell enough."""
    block = symptom.block
    return block is None or not block.message or symptom.rank > SPECIFIC or symptom.line.start == block.message[0].start


def _ours(log: Log, line: LogLine) -> bool:
    """Whether the task's runtime tells there what it saw (contract: runtime.log); that is no reason."""
    return OURS in log.text[line.start : line.start + 100]


def _applies(rule: Rule, evidence: Evidence) -> bool:
    code = evidence.exit_code
    if rule.exit_codes and code is not None and code not in rule.exit_codes:
        return False
    return all(holds(condition, evidence.facts) for condition in rule.evidence)


def _only_possible(rule: Rule, line: LogLine, rules: RuleSet) -> bool:
    """Whether the line names what the rule stands for, an event outside of the program, as a mere possibility."""
    if rule.role != "root" or (rules.cause(rule.cause).behaviour != TRANSIENT and rule.cause != "host_oom_kill"):
        return False
    body = characters.valid(line.body)
    found = (over_characters(text).search(body) for text, *_ in rule.patterns)
    return all(hedges.only_possible(body, *match.span()) for match in found if match)


def _harmless(trace: Trace, noted: dict[int, int]) -> bool:
    return trace.ignored or any(line.start in noted for line in trace.decisive.message[:1])


class _Places:
    """Which traceback a line belongs to."""

    def __init__(self, traces: list[Trace]) -> None:
        self._messages = {line.start: (t, b) for t in traces for b in t.blocks for line in b.message}
        self._sources = {line.start for t in traces for b in t.blocks for line in b.sources if b.message}

    def message(self, line: LogLine) -> tuple[Trace, Block] | None:
        return self._messages.get(line.start)

    def source(self, line: LogLine) -> bool:
        return line.start in self._sources


def _of_rule(rule: Rule, line: LogLine, places: _Places) -> Candidate | None:
    inside = places.message(line)
    if inside:
        trace, block = inside
        if block.message != trace.decisive.message and rule.role == "root" and rule.rank < SPECIFIC:
            return None  # what was being handled, or a wrapper: only a telling text counts
        first = line.start == block.message[0].start
        calm = not first and rule.where == "error" and lines.calm(line)
        telling = rule.rank >= SPECIFIC and rule.cause != "data_corrupt"  # of what: the failing line tells
        cause = rule.cause if telling else _refined(rule.cause, block)
        role = "root" if rule.cause == "peer_failure" and block.remote else rule.role
        cause = "network_transient" if role != rule.role else cause
        return Candidate(cause, role, rule.rank, line, trace.start, trace.end, rule.name, trace, block, calm)
    if places.source(line):
        return None
    calm = rule.where == "error" and lines.calm(line)
    return Candidate(rule.cause, rule.role, rule.rank, line, line.start, line.end, rule.name, calm=calm)


def _of_trace(trace: Trace) -> Candidate:
    block = trace.decisive
    found = exceptions.meaning(block.type)
    line = block.message[0] if block.message else block.sources[-1]
    role = "symptom" if found.symptom else "root"
    return Candidate(_refined(found.cause, block), role, found.rank, line, trace.start, trace.end, "", trace, block)


def bare(line: LogLine) -> Candidate | None:
    """The candidate of an exception's last line, where its traceback is lost or was never printed."""
    block = Block(line, (), (line,), ())
    found = exceptions.meaning(block.type)
    if not exceptions.named(block.type) or found.symptom:
        return None
    return Candidate(_refined(found.cause, block), "root", found.rank, line, line.start, line.end)


def _refined(cause: str, block: Block) -> str:
    if cause == GENERIC and block.frames and exceptions.between_packages(block.frames[-1], block.message):
        return "import_conflict"
    if cause == GENERIC and block.type in REFUSALS and block.frames and block.frames[-1].checks_arguments:
        return "bad_config"
    message = b"\n".join(line.body for line in block.message[:3])
    sources = b"\n".join(line.body for line in block.sources[-SOURCES:])
    return exceptions.refined(cause, block.type, message, sources)
