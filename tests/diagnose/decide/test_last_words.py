"""What the last lines of a log say that holds no known text, where no exit code is known."""

from __future__ import annotations

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()
WORK = "".join(f"epoch {number} loss 0.{number}\n" for number in range(8))
FAILURES = [
    "ERROR: the frobnicator has no more gnomes\n",
    "trainer: fatal: license check refused\n",
    "make: *** [Makefile:12: train] Error 1\n",
    "run.sh: step 3 exited with code 4\n",
    "gnome.GnomeDepletionException\n",
    "node7: the task failed.\n",
    "Command returned non-zero exit status 3\n",
]
SUCCESSES = [
    "Error: no cache, building it anew\n" + WORK,
    "load of a.jpg failed\nload of b.jpg failed\nTest accuracy: 0.98\n",
    "error: 0.12\nerrors: 0\n",
    "ls: cannot access 'out': No such file or directory\n",
    "could not import the fast path\nModel saved to out/model.pt\n",
    "HTTP Error 503, retrying (1/5)\nHTTP Error 503, retrying (2/5)\nResult written to out.json\n",
    "fatal: not a git repository (or any of the parent directories): .git\n" + WORK,
]


def look(log: str, code: int | None = None) -> Diagnosis:
    return classify(Evidence((("log", log.encode()),), code), RULES)


@pytest.mark.parametrize("end", FAILURES)
def test_an_error_without_a_rule_is_not_a_success(end: str) -> None:
    found = look(WORK + end)
    assert found.cause == "unknown"
    assert any(quote.text in end for quote in found.evidence)


@pytest.mark.parametrize("log", SUCCESSES)
def test_an_error_after_which_the_work_went_on_is_not_the_failure(log: str) -> None:
    assert look(log).cause == "none_success"


def test_a_log_that_ends_inside_a_traceback_failed() -> None:
    cut = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n    main()\n'
    assert look(WORK + cut).cause == "unknown"
    raises = '  File "/x/train.py", line 9, in main\n    raise FileNotFoundError(path)\n'
    assert look(WORK + cut + raises).cause == "data_file_missing"


def test_a_warning_with_a_rule_counts_only_as_the_last_line() -> None:
    lost = "WARNING worker.py:1416 -- A worker died or was killed while executing a task by an unexpected error.\n"
    assert look(WORK + lost).cause == "remote_worker_lost"
    assert look(lost + WORK).cause == "none_success"


def test_messages_of_the_runtime_are_not_evidence() -> None:
    told = b"[Fri Jan  2 03:04:05 UTC 2026] [openpai-runtime] [INFO] User command failed with exit code 143\n"
    logs = (("user-all", b"waiting for gnomes\n"), ("runtime.log", told))
    found = classify(Evidence(logs, 143), RULES)
    assert found.cause == "sigterm_unattributed"
    assert [quote.file for quote in found.evidence] == ["user-all"]


def test_a_long_silence_after_reading_or_writing_began_is_a_hanging_file_system() -> None:
    ended = Evidence(
        (("log", b"step 7 loss 0.1\nSaving checkpoint to /mnt/x\n"),), 137, ended=9000.0, last_output=100.0
    )
    assert classify(ended, RULES).cause == "storage_hang"
    assert classify(ended._replace(last_output=8990.0), RULES).cause == "sigkill_unattributed"
    computing = (("log", b"step 7 loss 0.1\n"),)
    assert classify(ended._replace(logs=computing), RULES).cause == "sigkill_unattributed"
