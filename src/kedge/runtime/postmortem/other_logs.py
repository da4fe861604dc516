"""Where else the reason of a failure may stand when the end of the task's own log does not tell it."""

from __future__ import annotations

from kedge.diagnose.decide.classify import second_look
from kedge.diagnose.model import Diagnosis, Quote
from kedge.diagnose.rules.ruleset import RuleSet
from kedge.runtime.logs.mask import masked
from kedge.runtime.logs.tails import LogTail
from kedge.runtime.postmortem import earlier_log, work_logs
from kedge.runtime.postmortem.case import FailedAttempt
from kedge.runtime.postmortem.collect import Collected


def look(answer: Diagnosis, found: Collected, case: FailedAttempt, rules: RuleSet) -> Diagnosis:
    """The answer of what the task's log says long before its end, and of the working folder's own logs; else `answer`,
    with what is known of how much was not read."""
    before = earlier_log.search(found.user, case.started)
    files = work_logs.collect(case.spec, case.started)
    logs = [
        (before.tail.name, before.tail.content),
        *((file.path, masked(file.content, case.secrets)) for file in files),
    ]
    evidence = found.evidence._replace(logs=tuple(log for log in logs if log[1]), error_file=None)
    again = placed(second_look(answer, evidence, rules), before.tail)
    lines = {file.path: file.lines_before for file in files}
    quotes = tuple(quote._replace(line=quote.line + lines.get(quote.file, 0)) for quote in again.evidence)
    return again._replace(evidence=quotes, unread_bytes=before.unread + case.removed)


def placed(answer: Diagnosis, *tails: LogTail) -> Diagnosis:
    """The answer with quotes of the files on disk, where it quotes the logs that `tails` were made of."""
    known = {tail.name: tail for tail in tails}

    def of(quotes: tuple[Quote, ...]) -> tuple[Quote, ...]:
        return tuple(q._replace(**known[q.file].place(q.line)) if q.file in known else q for q in quotes)

    return answer._replace(evidence=of(answer.evidence), last_words=of(answer.last_words))
