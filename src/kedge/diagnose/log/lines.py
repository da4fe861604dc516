"""Classifying a single line: progress, a warning, the epilogue of a launcher, or a possible error."""

from __future__ import annotations

from kedge.diagnose.log.log_text import LogLine
from kedge.diagnose.regex import regex

# A step, epoch or iteration that advances; tqdm's `12/300 [00:10<…`; a loss with its number.
_PROGRESS = (
    rb"(?i)\b(?:epoch|step|iter(?:ation)?|batch|global_step|train|eval|round|episode)s?\b[\]'\"]?\s?[:=#\[(]?\s{0,8}\d+"
    rb"|\d+%\s?\|.*?\d+/\d+|\d(?:it/s|s/it)\b|\b(?:loss|acc(?:uracy)?|lr|reward)\w*['\"]?\s?[:=]\s{0,4}\d"
)
_LEVEL = (
    rb"^.{0,100}?(?:\b(?P<calm>INFO|DEBUG|TRACE|NOTICE|Info|Debug)\b|"
    rb"(?P<warning>\b[Ww][Aa][Rr][Nn](?:[Ii][Nn][Gg])?\b|\b\w*Warning\b|^W\d{4} |^\[W\d|^\[W |\] W |"
    rb"\.py:\d+: [A-Z]\w+: )|"  # printed by the module `warnings`
    rb"(?P<error>\b(?:ERROR|FATAL|CRITICAL|Error|Fatal|SEVERE)\b))"
)
# Words that show that the program goes on: the error was handled, or the line is advice.
_CALM = (
    rb"(?i)\b(?:retry(?:ing)?\b|will retry|retries left|attempt \d+ (?:of|/)|ignor(?:ed|ing)\b|skipp(?:ed|ing)\b|"
    rb"falling back|fall back|fallback|from scratch|continuing|recover(?:ed|ing)\b|handled|"
    rb"caught and|non-fatal|not fatal|can be ignored|harmless|deprecated|"
    rb"trying (?:another|the next|next|again|port)|using (?:the )?cpu|(?:run(?:ning)?|train(?:ing)?) on (?:the )?cpu|"
    rb"use (?:the )?cpu instead|default(?:s|ing)? to|"
    rb"you (?:can|may|might|should|could) |consider(?:er)? |please (?:consider|note)|to avoid|to suppress|"
    rb"if (?:you|this|the) |in case of|no errors?\b|0 errors?\b|errors?[:=] ?0\b|without errors?)"
)
_SUCCESS = (
    rb"(?i)(?:\b(?:training|evaluation|experiment|all (?:tests?|jobs?|tasks?))\b.{0,30}"
    rb"\b(?:complete[d]?|finished|done|succeeded|successful(?:ly)?)\b|^\W*(?:done|finished|completed|success)\W*$|"
    rb"COMPLETED \(exit code 0\)|exit(?:ed)?(?: with)?(?: code| status)? ?[:=]? ?0\b)"
)
_EPILOGUE = (
    rb"^(?:wandb|srun|slurmstepd|mpirun|prterun|ORTE|frame #|#\d+ |\[W|\*{3,}|-{5,}|={5,}|~{5,}|\+-|Root Cause|"
    rb"Other Failures|  )"
)
_ERROR = (
    rb"(?i)(?:\berror\b|\bfatal\b|\bexception\b|\bfailed to\b|\bfail(?:ed|ure)\b:?\s*$|\babort(?:ed|ing)?\b|\bcrash|"
    rb"\bcannot\b|\bpanic\b|[a-z]error\b|\w+Exception\b)"
)
# An exception's own message may contain advice ("to avoid fragmentation") and is still an error.
_RAISED = rb"\b[A-Z]\w*(?:Error|Exception)(?:: |\(['\"])|^\[?E ?(?:\d{4} |\w+\.cpp)|\bwhat\(\): "
# `error: 0.12` is a measurement.
_LAST_WORDS = (
    rb"(?i)(?:^|[\s:\[\]|(])(?:error|fatal|panic|critical|exception)\b[^\w\s]{0,2}[:\]!]\s*(?:[^\d\s]|$)|"
    rb"\w(?:Error|Exception)\b|\b(?:ERROR|Error|error) (?:on|in) |"
    rb"\b(?:failed (?:to|with)|cannot|could not|unable to|abort(?:ed|ing)|crashed|panicked|core dumped)\b|"
    rb"(?::|\() ?(?:no such file|permission denied|connection |out of memory|not found)|"
    rb"\b(?:KeyboardInterrupt|Terminated|Killed)\W*$|^execution halted|"
    rb"\bseg(?:mentation )?fault|^forrtl: |\bfatal\b|\bbad termination\b|"
    rb"^failed\b|\D failed\W*$|\bexit(?:ed|s)?(?: with)?(?: exit)? ?(?:code|status)[ =:]{0,4}-?[1-9]|\bnon-?zero\b|"
    rb"^make(?:\[\d+\])?: \*{3}|\breturn ?code[ =:]{1,3}-?[1-9]|\bERR!|^\[?[EF]\d{4} |^\S+: error\b|^E: "
)
# Words of a program that ends normally.
_WRAPS_UP = (
    rb"(?i)\b(?:final|best|test|overall|mean)[ _-](?:\w+[ _-])?(?:acc|loss|score|result|f1|bleu|wer|map|reward|metric)|"
    rb"\b(?:done|finished|completed?|success(?:ful(?:ly)?)?|elapsed|total time|took)\b"
)
# Words that a program prints only after success: a batch script may end with `done` or `Job finished` in any case.
_FINISHED = (
    rb"(?i)^\W*OK\W*$|^OK \(|\b(?:successfully|all) (?:done|finished|completed?|trained|saved|passed)\b|"
    rb"\b(?:finished|completed?|done|succeeded)\b.{0,30}\b(?:training|successfully|with success|all|without error)|"
    rb"\b(?:training|evaluation|experiment|inference|conversion|download|export|all (?:tests?|tasks?|steps|files))\b"
    rb".{0,30}\b(?:complete[d]?|finished|done|succeeded|successful(?:ly)?)\b|"
    rb"^\W*(?:done|finished|completed|success)\W*$|\b\d+ passed\b"
)
_SCRIPT = (
    rb"(?i)^\W*(?:job|script|slurm|end(?:ed)?|finish(?:ed)?|done|completed)\b.{0,40}\d\d:\d\d|"
    rb"^\W*(?:job|script)\b.{0,30}\b(?:finished|ended|done|completed?)\b\W*(?:at|on|$)"
)
_SAVED = (
    rb"(?i)\b(?:sav(?:ed|ing)|wr(?:ote|itten)|stored|export(?:ed|ing)|upload(?:ed|ing)?)\b.{0,60}"
    rb"\b(?:model|checkpoint|weights|results?|predictions?|metrics?|to)\b"
)
_MOVES_DATA = (
    rb"(?i)\b(?:load|read|writ|sav|cop|stag|extract|restor|resum|mount|sync|cach|flush|dump|open|index|scan)(?:e|y|ing|ying)\b"
    rb".{0,80}\b(?:data(?:set)?|checkpoint|ckpt|files?|model|weights|shards?|state|optimizer|index|archive|images?)|"
    rb"\b(?:NFS|Lustre|GPFS|BeeGFS|Ceph|S3)\b"
)
# Part of a message of torch_npu: details of the error from Ascend's runtime.
_CANN = rb"^\[ERROR\] \d{4}-\d\d-\d\d-[\d:]+ \(PID:"
# Lines of shells, launchers, trackers and native code are not part of an exception's message, even right after it.
# As runtime/logs/runtime_log.py writes it.
_RUNTIME = rb"^\[[^\]]{1,60}\] \[openpai-runtime\] \[(?:INFO|WARNING|ERROR)\]"
_OTHERS = (
    rb"^(?:wandb|srun|slurmstepd|sbatch|mpirun|prterun|ORTE|[\w./-]+: line \d+|\w+: cannot|terminate called|"
    rb"Fatal Python|\[?[EWIF]\d{4}|Exception ignored|Killed$|Aborted|Primary job|MPI_ABORT|Sender: |"
    rb"Segmentation fault|Bus error|Floating point exception|Illegal instruction)"
)


def progress(line: LogLine) -> bool:
    """Whether a line shows that the work goes on."""
    return bool(regex(_PROGRESS).search(line.body[:2000])) and not regex(_OTHERS).search(line.body[:200])


def success(line: LogLine) -> bool:
    """Whether a line reports that the work was completed."""
    return bool(regex(_SUCCESS).search(line.body[:500]))


def wraps_up(line: LogLine) -> bool:
    """Whether a line reads like the successful end of a program, or of a part of it."""
    body = line.body[:500]
    return bool(regex(_SAVED).search(body) or regex(_WRAPS_UP).search(body))


def finished(line: LogLine) -> bool:
    """Whether a line reports that a program has completed its work. The last line of a batch script does not count."""
    body = line.body[:500]
    return bool(regex(_FINISHED).search(body)) and not regex(_SCRIPT).search(body) and not error(line)


def saved(line: LogLine) -> bool:
    """Whether a line reports that something was saved."""
    return bool(regex(_SAVED).search(line.body[:500])) and not error(line)


def of_launcher(line: LogLine) -> bool:
    """Whether a shell, a launcher, a tracker or native code wrote the line."""
    return bool(regex(_OTHERS).search(line.body[:200]))


def of_runtime(line: LogLine) -> bool:
    """Whether it is a message of kedge's runtime itself. Output of hooks is logged without a level."""
    return bool(regex(_RUNTIME).search(line.body[:200]))


def moves_data(line: LogLine) -> bool:
    """Whether a line reports that data is being read or written."""
    return bool(regex(_MOVES_DATA).search(line.body[:500]))


def calm(line: LogLine) -> bool:
    """Whether a line reads like a warning, advice or ordinary output rather than like an error that ends something."""
    body = line.body[:2000]
    level = regex(_LEVEL).search(body) if b"NCCL WARN" not in body else None  # NCCL has no level above WARN
    if level and level.lastgroup in (b"calm", b"warning"):
        return True
    return not regex(_RAISED).search(body) and bool(regex(_CALM).search(body))


def error(line: LogLine) -> bool:
    """Whether a line has the words of an error and is not calm."""
    return bool(regex(_ERROR).search(line.body[:2000])) and not calm(line)


def last_words(line: LogLine) -> bool:
    """Whether a line could be the last one of a failed program."""
    return bool(regex(_LAST_WORDS).search(line.body[:2000])) and not calm(line)


def epilogue(line: LogLine) -> bool:
    """Whether it is a line that launchers, trackers and stack dumps print after a failure."""
    return not line.body.strip() or bool(regex(_EPILOGUE).search(line.body))


def aborted(line: LogLine) -> bool:
    """Whether a crash is an abort, which libraries do after another failure."""
    return bool(
        regex(rb"(?i)abort|sigabrt|terminate called|exitcode *: -6|exitcode: -6|code = -6|signal:? 6\b").search(
            line.body[:2000]
        )
    )


def breaks_message(line: LogLine, timed: bool) -> bool:
    """Whether a line after an exception's first one is no longer part of its message.

    A time stamp means that it is not, unless all lines are `timed`.
    """
    if regex(_CANN).search(line.body[:200]):
        return False
    if (line.time and not timed) or regex(_OTHERS).search(line.body[:200]):
        return True
    return bool(regex(_LEVEL).search(line.body[:200]) or regex(_PROGRESS).search(line.body[:300]))
