"""The rules themselves: their examples, their compiled form, and what a wrong file is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Evidence
from kedge.diagnose.rules import check, compile, compiled_rules, rule_files, source
from kedge.diagnose.rules.packaged import COMPILED, packaged
from kedge.errors import InputError

FILES = sorted(compile.STOCK.glob("*.toml"))
CAUSES = set(source.read(source.CAUSES))
GOOD = """
[license-server]
cause = "bad_config"
role = "root"
patterns = ['license server (?P<host>\\S+) refused']
matches = ["FATAL: license server a.b refused us"]
rejects = ["license server a.b agreed"]
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_holds(path: Path) -> None:
    assert check.failures(path, CAUSES) == []


def test_the_compiled_rules_are_those_of_the_sources() -> None:
    text = compiled_rules.text(compile.compiled())
    assert Path(COMPILED).read_bytes() == text, "run python -m kedge.diagnose.rules.compile"


def test_no_rule_depends_on_a_short_number() -> None:
    numbers = [literal.text for literal in packaged().literals() if literal.text.isdigit() and len(literal.text) < 6]
    assert not numbers, "they occur in every log, which makes its diagnosis slower"


def test_every_cause_has_a_remedy() -> None:
    rules = packaged()
    for name in rules.causes():
        cause = rules.cause(name)
        assert cause.meaning, name
        assert cause.owner, name
        assert cause.behaviour in ("transient", "permanent", "unknown"), name
        assert 1 <= len(cause.remedy) <= 3, name


def write(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text)
    return path


CHARACTERS = """
[full]
cause = "disk_full"
role = "root"
patterns = ['(?i)DATENTRÄGER .{3}stück voll', '磁盘空间不足']
matches = ["ERROR: Datenträger Süßstück voll", "错误:磁盘空间不足"]
rejects = ["Datentrager leer"]
"""


def test_a_pattern_sees_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    known = rule_files.load([write(tmp_path, CHARACTERS)])
    for log in ("ERROR: datenträger süßstück voll", "ERROR: DATENTRÄGER SÜßSTÜCK VOLL", "磁盘空间不足"):
        for content in (log.encode(), b"\xff " + log.encode(), log.encode().replace("süß".encode(), b"s\xffs")):
            assert classify(Evidence((("log", content),), 1), known).rule == "full", content


def test_a_users_rule_counts_and_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write(tmp_path, GOOD)
    log = Evidence((("log", b"FATAL: license server a.b refused us\n"),), 1)
    for _ in range(2):
        assert classify(log, rule_files.load([path])).rule == "license-server"
    cached = list((tmp_path / "cache/kedge/rules").iterdir())
    content = cached[0].read_text().partition("\n")[2]
    assert [rule[0] for rule in json.loads(content)["rules"]] == ["license-server"]


@pytest.mark.parametrize("damage", ["a rule", "the end", "everything"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write(tmp_path, GOOD)
    rule_files.load([path])
    (cached,) = (tmp_path / "cache/kedge/rules").iterdir()
    whole = cached.read_bytes()
    broken = {"a rule": whole.replace(b'["license-server", ', b"\0" * 19), "the end": whole[:-9], "everything": b""}
    cached.write_bytes(broken[damage])
    assert cached.read_bytes() != whole
    log = Evidence((("log", b"FATAL: license server a.b refused us\n"),), 1)
    assert classify(log, rule_files.load([path])).rule == "license-server"
    assert cached.read_bytes() == whole


def test_a_users_rule_replaces_a_packaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = write(tmp_path, GOOD.replace("license-server", "torch-cuda-oom"))
    named = [rule for rule in rule_files.load([path]).rules() if rule.name == "torch-cuda-oom"]
    assert [rule.cause for rule in named] == ["bad_config"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("bad_config", "bad_luck", "unknown cause 'bad_luck'"),
        ('"root"', '"boss"', "`role` must be one of"),
        ("refused'", "(refused'", "missing )"),
        ("'license server (?P<host>\\S+) refused'", "'.*x.*'", "no constant text"),
        ("rejects", "refuses", "unknown key refuses"),
        ('rejects = ["license server a.b agreed"]', "", "`rejects` is missing"),
        ("role =", "when = ['port > 3']\nrole =", "`when` uses port"),
        ("role =", "evidence = ['f()']\nrole =", "a condition may contain"),
        ("role =", "rank = 101\nrole =", "`rank` must be a number from 0 to 100"),
        ("role =", "where = 'here'\nrole =", "`where` must be one of"),
        ("role =", "exit_codes = ['1']\nrole =", "`exit_codes` must be a list of numbers"),
        ("license-server", "License", "kebab-case"),
        ("[license-server]", "[license-server", "own.toml"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError, match=r"own\.toml") as failure:
        source.rules(path, CAUSES)
    assert reason in str(failure.value)


def test_all_problems_of_a_file_come_at_once(tmp_path: Path) -> None:
    twice = GOOD.replace("root", "boss") + GOOD.replace("root", "boss").replace("license-server", "other")
    with pytest.raises(InputError) as failure:
        source.rules(write(tmp_path, twice), CAUSES)
    assert len(failure.value.problems) == 2


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml"):
        rule_files.load([tmp_path / "none.toml"])


def test_the_checker_names_the_examples_that_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(write(tmp_path, GOOD))]) == 0
    assert check.main([str(write(tmp_path, GOOD.replace("a.b agreed", "a.b refused")))]) == 1
    assert "must not match 'license server a.b refused'" in capsys.readouterr().out
    assert check.main([str(tmp_path / "none.toml")]) == 2
