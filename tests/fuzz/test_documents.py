"""Files that belong to a job: lock files, documents of prerequisites, indexes of marketplaces, rules, exit specs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.rules import rule_files
from kedge.errors import CannotRun, InputError, Unreachable
from kedge.resolve import lock_file
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.spec.parse import parse

from .values import changes_of, check_error, edited, edits, replaced

JOB: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "j",
    "type": "job",
    "parameters": {"x": 1},
    "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "busybox"}],
    "taskRoles": {
        "w": {
            "prerequisites": ["./items.yaml#a", "marketplace://name/a"],
            "dockerImage": "i",
            "commands": ["true"],
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
        }
    },
}
ITEMS: list[dict[str, Any]] = [
    {
        "name": "a",
        "type": "data",
        "uri": ["x"],
        "plugin": "cmd",
        "retry": {"max": 2, "delaySec": 1.5},
        "template_variables": [
            {"name": "n", "type": "integer", "default": 2},
            {"name": "o", "type": "choice", "choices": ["x", "y"], "default": "x"},
        ],
        "requireStorages": [{"name": "s", "mountPath": "/s"}],
        "require": ["b", {"name": "b", "template_variables": {"p": "{{ o }}"}}],
        "callbacks": [{"event": "taskStarts", "commands": ["echo <% this.uri[0] %> {{ o }}"]}],
    },
    {
        "name": "b",
        "root": "/x",
        "template_variables": [{"name": "p", "default": 1}],
        "preCommands": ["<% this.root %> {{ p }}"],
    },
]
INDEX: dict[str, Any] = {
    "items": [
        {"id": "1", "name": "a", "type": "data", "path": "a.yaml", "version": 1, "author": "me", "isPrivate": True}
    ]
}
LOCK: dict[str, Any] = {
    "version": 1,
    "files": {"items.yaml": "0" * 64},
    "git": {"https://h/x#HEAD": {"value": "0" * 40}},
    "items": {"marketplace://name/a": {"identity": "marketplace://1", "source": "m/a.yaml", "sha256": "0"}},
    "images": {"busybox": {"value": "sha256:0"}},
}


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        (path / "m").mkdir()
        (path / "items.yaml").write_text(json.dumps(ITEMS))
        (path / "m" / "a.yaml").write_text("name: a\n")
        (path / "m" / "index.json").write_text(json.dumps(INDEX))
        yield path


def survives(path: Path, changed: Path, text: str) -> None:
    changed.write_bytes(text.encode(errors="surrogatepass"))
    job = json.dumps(JOB, indent=1)
    try:
        inputs = Inputs("me", cache=str(path / "cache"), marketplace=str(path / "m"), hosts=("127.0.0.1",))
        resolve(parse(job, str(path / "job.yaml")), inputs)
    except (InputError, Unreachable) as error:
        check_error(error, text, str(changed))
    except CannotRun as error:
        assert str(error)


@given(changes_of(ITEMS))
@settings(max_examples=40)
def test_items_with_any_node_replaced(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    with folder() as path:
        survives(path, path / "items.yaml", json.dumps(replaced(ITEMS, changes)))


@given(edits)
@settings(max_examples=40)
def test_items_with_any_edit(changes: list[tuple[float, int, str]]) -> None:
    with folder() as path:
        survives(path, path / "items.yaml", edited(yaml.safe_dump(ITEMS), changes))


@given(changes_of(INDEX))
@settings(max_examples=35)
def test_an_index_with_any_node_replaced(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    with folder() as path:
        survives(path, path / "m" / "index.json", json.dumps(replaced(INDEX, changes)))


@given(changes_of(LOCK))
@settings(max_examples=50)
@example([(("version",), "x" * 100_000)])
def test_a_lock_file_with_any_node_replaced(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    with folder() as path:
        survives(path, path / "job.lock", json.dumps(replaced(LOCK, changes)))


@given(edits)
@settings(max_examples=40)
@example([(0.0, 10**6, "[" * 200_000)])
@example([(0.0, 10**6, '{"version": ' + "1" * 10_000 + "}")])
def test_a_lock_file_with_any_edit(changes: list[tuple[float, int, str]]) -> None:
    with folder() as path:
        survives(path, path / "job.lock", edited(json.dumps(LOCK), changes))


@given(changes_of(LOCK))
@settings(max_examples=25)
def test_a_lock_file_that_can_be_read_can_be_written(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    with folder() as path:
        file = str(path / "job.lock")
        Path(file).write_text(json.dumps(replaced(LOCK, changes)))
        try:
            found = lock_file.load(file)
        except InputError as error:
            check_error(error)
            return
        assert found is not None
        lock_file.save(file, found)
        assert lock_file.load(file) == found


RULE = """\
[my-rule]
cause = "gpu_oom"
role = "root"
rank = 60
where = "error"
exit_codes = [1, 137]
patterns = ['out of (?P<what>memory|space): (?P<size>[0-9]+)', 'x{1,3}']
when = ["size > 5"]
evidence = ["exit_code == 1"]
remedy = ["Free some {what}."]
matches = ["out of memory: 6"]
rejects = ["out of time"]
"""
PATTERNS = [
    "(",
    "(?P<",
    "[a",
    "a{1000}",
    "(a*)*" * 9,
    "\\p{Greek}",
    "\\C",
    "(?i)",
    "\\x",
    "x{1,100000}",
    "|" * 50,
    "$",
    "size >",
    "{what",
    "{}",
]
SPEC = """\
spec:
  - code: 137
    pattern:
      runtimeContainerPatterns: [{exitCode: 137, userLogRegex: 'out of.*memory'}]
    phrase: Killed
    behavior: TRANSIENT
  - {containerExitCode: 5, patterns: [{exitCode: 5, platformLogRegex: 'x+'}], type: USER}
"""
more = edits | st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(PATTERNS)), min_size=1, max_size=4
)


@given(more)
@settings(max_examples=50)
def test_rules_with_any_edit(changes: list[tuple[float, int, str]]) -> None:
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, XDG_CACHE_HOME=name):
        file = Path(name, "rules.toml")
        file.write_bytes(edited(RULE, changes).encode(errors="surrogatepass"))
        try:
            rule_files.compiled(file)
            rule_files.load([file])
        except InputError as error:
            check_error(error)


@given(more)
@settings(max_examples=50)
@example([(0.0, 10**6, "[" * 50_000)])
@example([(0.0, 10**6, "code: " + "9" * 10_000)])
@example([(0.0, 10**6, "spec: !!timestamp 2026-02-30")])
@example([(0.0, 10**6, "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nspec: *c")])
def test_an_exit_spec_with_any_edit(changes: list[tuple[float, int, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "spec.yaml")
        file.write_bytes(edited(SPEC, changes).encode(errors="surrogatepass"))
        try:
            spec = exitspec.load(str(file))
        except InputError as error:
            check_error(error)
            return
        json.dumps(exitspec.to_json(spec))
        spec.match(137, b"out of memory", b"xxx")


STRUCTURE = yaml.safe_load(SPEC)


@given(changes_of(STRUCTURE))
@settings(max_examples=50)
def test_an_exit_spec_with_any_node_replaced(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    try:
        spec = exitspec.parse(replaced(STRUCTURE, changes), "spec.yaml")
    except InputError as error:
        check_error(error)
        return
    json.dumps(exitspec.to_json(spec))
    spec.match(5, b"out of memory", b"xxx")
