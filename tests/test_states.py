"""States and events are what they are called, in every output; the runtime starts without them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from kedge.runs.job_events import JobEvent
from kedge.runs.status import JobStatus
from kedge.states import FINAL, WITHOUT_END, State


@pytest.mark.parametrize("word", [*State, *JobEvent])
def test_a_word_looks_the_same_everywhere(word: State | JobEvent) -> None:
    assert json.dumps({"is": word}) == f'{{"is": "{word.value}"}}'
    assert f"{word}" == word.value == word
    assert {word.value: 1}[word] == 1


def test_a_status_is_written_by_its_words() -> None:
    assert json.loads(json.dumps(asdict(JobStatus(State.LOST, 0, ()))))["state"] == "lost"


def test_no_state_is_an_end_and_none() -> None:
    assert not FINAL & WITHOUT_END


def test_the_runtime_starts_without_them() -> None:
    code = "import sys; from kedge.runtime import main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kedge.runtime.main" in loaded
    assert not {"kedge.states", "kedge.policy.codes", "dataclasses"} & set(loaded)
