"""What Podman says of its machine is remembered for a while; a file that does not fit is as good as none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

import pytest

from kedge import processes
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import Facts
from kedge.engines.container.api.engine_facts import facts_of

FACTS = Facts("Podman 5.0.0", "amd64", 2, 1 << 30, True, True, False, True, True)


class Answers:
    """Stands for a client; counts how often it is asked."""

    def __init__(self, podman: str = "5.0.0") -> None:
        self.podman, self.asked = podman, 0

    def facts(self) -> Facts:
        self.asked += 1
        return FACTS


@pytest.fixture
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kedge" / "containers" / "podman.json"


def times_asked(second: str = "podman", podman: str = "5.0.0") -> int:
    """How often the engine at `second`, of this version, is asked after one at `podman` was."""
    assert facts_of("podman", cast(Client, Answers())) == FACTS
    answers = Answers(podman)
    assert facts_of(second, cast(Client, answers)) == FACTS
    return answers.asked


@pytest.mark.usefixtures("remembered")
def test_podman_is_asked_once() -> None:
    assert times_asked() == 0


@pytest.mark.usefixtures("remembered")
def test_another_podman_is_asked() -> None:
    assert times_asked("unix:///run/podman/podman.sock") == 1
    assert times_asked(podman="5.0.1") == 1


def test_docker_is_always_asked(remembered: Path) -> None:
    assert times_asked(podman="") == 1
    remembered.unlink()
    facts_of("unix:///run/docker.sock", cast(Client, Answers("")))
    assert not remembered.exists()


@pytest.mark.parametrize("change", ["boot", "time", "future"])
def test_an_old_answer_is_asked_for_again(remembered: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts_of("podman", cast(Client, Answers()))
    found = json.loads(remembered.read_bytes())
    if change == "boot":
        monkeypatch.setattr(processes, "boot_id", lambda: "another boot")
    else:
        remembered.write_text(json.dumps(found | {"time": found["time"] + (3600 if change == "future" else -3600)}))
    answers = Answers()
    facts_of("podman", cast(Client, answers))
    assert answers.asked == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"facts": 1}', '{"facts": []}', '{"facts": ["Podman"], "engine": 1}'])
def test_a_damaged_file_is_replaced(remembered: Path, text: str) -> None:
    remembered.parent.mkdir(parents=True)
    remembered.write_text(text)
    assert times_asked() == 0


def test_values_of_a_wrong_type_are_not_used(remembered: Path) -> None:
    facts_of("podman", cast(Client, Answers()))
    found = json.loads(remembered.read_bytes())
    found["facts"][2] = "two"
    remembered.write_text(json.dumps(found))
    answers = Answers()
    assert facts_of("podman", cast(Client, answers)) == FACTS
    assert answers.asked == 1


def test_where_nothing_can_be_written_podman_is_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (blocked := tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert times_asked() == 1


def test_without_a_home_podman_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert times_asked() == 1
