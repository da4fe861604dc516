"""Lines that list what may have happened: advice for people, not evidence."""

from __future__ import annotations

from kedge.diagnose.regex import regex

# How a process can end, and a list of several such ends: `preempted/died/restarted`, `killed, or evicted`.
_FATE = (
    rb"(?:was |were |been |being |got |has |have |is )*(?:\w+ly )?"
    rb"(?:preempt(?:ed|ion)|evicted|died|dead|killed|crashed|restarted|rebooted|failed|terminated|exited|stopped|"
    rb"shut down|drained|lost|disconnected|oom[- ]?killed|out of memory|network (?:issue|error|problem|failure)s?)"
)
_FATES = rb"(?i)\b" + _FATE + rb"\s?(?:/|,|;| or\b|, or\b)+\s?" + _FATE + rb"\b"
# Words that mark the following statement as one of several possibilities.
_PERHAPS = (
    rb"(?i)\b(?:may|might|could|can) (?:also )?(?:have been|have|be|happen|occur|indicate|mean)\b|"
    rb"\b(?:possib(?:le|ly)|potential|probable|common|typical) (?:\w+ )?(?:reasons?|causes?|explanations?)\b|"
    rb"\bpossibly\b|\bperhaps\b|\bprobably\b|\busually\b|\boften\b|\be\.g\.|\bsuch as\b|\bfor example\b|"
    rb"\b(?:this|it|which) (?:can|could|may|might|will|usually|often)\b|\beither\b|\bmost likely\b|"
    rb"\blikely (?:due|because)\b|"
    rb"\b(?:check|see|verify|make sure|ensure) (?:if|whether|that)\b|\bif (?:the|this|that|a|your|one|it)\b|\bwhether\b"
)
_SENTENCE = rb"[.;!?] "
_BEFORE = 200  # bytes before a match that are searched for such words


def only_possible(body: bytes, start: int, end: int) -> bool:
    """Whether the line mentions the text from `start` to `end` as one possibility of several."""
    if any(found.start() < end and found.end() > start for found in regex(_FATES).finditer(body)):
        return True
    before = body[max(0, start - _BEFORE) : start]
    starts = [found.end() for found in regex(_SENTENCE).finditer(before)]
    return bool(regex(_PERHAPS).search(before[max(starts, default=0) :]))
