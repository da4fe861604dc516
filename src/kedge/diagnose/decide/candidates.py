"""Candidates for the cause: rule hits and exceptions, each with the incident it belongs to."""

from __future__ import annotations

from kedge.diagnose import characters
from kedge.diagnose.log import exceptions, hedges, lines
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.log.tracebacks import Block, Trace
from kedge.diagnose.model import TRANSIENT, Evidence
from kedge.diagnose.regex import over_characters
from kedge.diagnose.rules.expression import holds
from kedge.diagnose.rules.ruleset import Rule, RuleSet
from kedge.diagnose.rules.scan import Hit
from kedge.light.types import Container, Iterable, NamedTuple

RUNTIME_INFO = b"[openpai-runtime] [INFO] "
GENERIC = "python_bug"  # the cause of an exception whose text is not specific
REFUSALS = {"ValueError", "AssertionError", "NotImplementedError"}  # raised by checks of arguments
SOURCES = 12  # failing lines, counted from the innermost, that may show what a file was used for
SPECIFIC = 40  # from this rank on, the text itself names the reason


class Candidate(NamedTuple):
    """One possible cause. `start` and `end` are those of its incident; `rule` is empty for an exception without a rule.

    `calm`: the line reads like a warning or advice, so it is used only if nothing better is found.
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
        """Whether it certainly ended a process: a traceback that reaches the main program."""
        return self.trace is not None and self.trace.uncaught


class LogCandidates(NamedTuple):
    """The candidates in the order of the log, and the offsets of lines that a note rule or Python marks as harmless."""

    candidates: list[Candidate]
    harmless: Container[int]


def collect(log: Log, hits: list[Hit], traces: list[Trace], rules: RuleSet, evidence: Evidence) -> LogCandidates:
    """All candidates of a log. Lines that match a note rule are skipped, and so are the runtime's own lines."""
    usable = [(rules.rule(hit.rule), hit.line) for hit in hits if not _of_runtime(log, hit.line)]
    usable = [(rule, line) for rule, line in usable if _applies(rule, evidence)]
    noted = {line.start: rule.rank for rule, line in usable if rule.role == "note"}
    places = _Places(traces)
    answers = [(rule, line) for rule, line in usable if rule.role != "note" and rule.rank >= noted.get(line.start, 0)]
    answers = [(rule, line) for rule, line in answers if not _only_possible(rule, line, rules)]
    found = [c for rule, line in answers if (c := _of_rule(rule, line, places))]
    known = {c.start for c in found if c.trace and not c.calm}  # a rule matched, so the exception's type adds nothing
    found += [_of_trace(trace) for trace in traces if trace.decisive.type and trace.start not in known]
    found = [_raced(c, found) for c in _without_echoes(found)]
    kept = [c for c in found if not (c.trace and _harmless(c.trace, noted))]
    ignored = (line.start for trace in traces if trace.ignored for block in trace.blocks for line in block.message)
    return LogCandidates(sorted(kept, key=lambda c: (c.start, -c.rank)), {*noted, *ignored})


def _raced(c: Candidate, others: list[Candidate]) -> Candidate:
    """If several processes failed to create the same file or directory, they raced for it."""
    if c.cause != "output_path_error" or not c.block or c.block.type != "FileExistsError":
        return c
    same = (o for o in others if o.block and o.start != c.start and o.line.body == c.line.body)
    raced = any(o.line.rank != c.line.rank or (o.uncaught and c.uncaught) for o in same)
    return c._replace(cause="lock_contention") if raced else c


def _without_echoes(found: list[Candidate]) -> list[Candidate]:
    """Drop candidates from an exception's type if its text is more specific: a consequence, or another cause."""
    symptoms = _highest_ranks(c for c in found if c.role == "symptom" and _names_exception(c))
    reasons = _highest_ranks(c for c in found if c.role == "root" and c.cause != GENERIC)

    def echo(c: Candidate) -> bool:
        consequence = c.rank < symptoms.get(c.start, 0) and (c.trace is not None or c.cause == GENERIC)
        return consequence or (c.cause == GENERIC and c.rank < reasons.get(c.start, 0))

    return [c for c in found if c.role == "symptom" or not echo(c)]


def _highest_ranks(candidates: Iterable[Candidate]) -> dict[int, int]:
    """The highest rank of each incident, at most SPECIFIC."""
    highest: dict[int, int] = {}
    for c in candidates:
        highest[c.start] = max(highest.get(c.start, 0), min(c.rank, SPECIFIC))
    return highest


def _names_exception(symptom: Candidate) -> bool:
    """Whether the line describes the exception itself: the first line of the message, or another one if specific."""
    block = symptom.block
    return block is None or not block.message or symptom.rank > SPECIFIC or symptom.line.start == block.message[0].start


def _of_runtime(log: Log, line: LogLine) -> bool:
    """Whether the task's runtime wrote the line (INFO in runtime.log): it reports what happened, not why."""
    return RUNTIME_INFO in log.text[line.start : line.start + 100]


def _applies(rule: Rule, evidence: Evidence) -> bool:
    code = evidence.exit_code
    if rule.exit_codes and code is not None and code not in rule.exit_codes:
        return False
    return all(holds(condition, evidence.facts) for condition in rule.evidence)


def _only_possible(rule: Rule, line: LogLine, rules: RuleSet) -> bool:
    """Whether the rule is about an event outside the program and the line mentions it only as a possibility."""
    if rule.role != "root" or (rules.cause(rule.cause).behaviour != TRANSIENT and rule.cause != "host_oom_kill"):
        return False
    body = characters.valid(line.body)
    found = (over_characters(text).search(body) for text, *_ in rule.patterns)
    return all(hedges.only_possible(body, *match.span()) for match in found if match)


def _harmless(trace: Trace, noted: dict[int, int]) -> bool:
    return trace.ignored or any(line.start in noted for line in trace.decisive.message[:1])


class _Places:
    """Finds the traceback that a line belongs to."""

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
            return None  # an exception that was being handled, or a wrapper: only a specific text counts
        first = line.start == block.message[0].start
        calm = not first and rule.where == "error" and lines.calm(line)
        specific = rule.rank >= SPECIFIC and rule.cause != "data_corrupt"  # the failing line shows what is corrupt
        cause = rule.cause if specific else _refined(rule.cause, block)
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
    """The candidate for the last line of an exception whose traceback is lost or was never printed."""
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
