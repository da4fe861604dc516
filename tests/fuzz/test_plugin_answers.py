"""Parameters of plugins, and their answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kedge.contract import Step, TaskSpec
from kedge.plugins.base import Parameter, ParameterError, Plugin, PluginFailed, Steps, checked, read
from kedge.plugins.cmd import Cmd
from kedge.plugins.download import Download
from kedge.plugins.git import Git
from kedge.plugins.storage import PvcStorage, RestStorage
from kedge.resolve.plugin_answer import InvalidAnswer, steps_in
from kedge.resolve.plugin_files import written_by
from kedge.resolve.plugins import check_actions
from kedge.spec.message_text import printable

from .values import changes_of, edited, edits, junk, replaced

SECRET = {"text": ["b ", {"key": "s", "source": "<% $secrets.s %>"}]}
ANSWER: dict[str, Any] = {
    "callbacks": [
        {"event": "taskStarts", "commands": ["a", SECRET]},
        {
            "event": "taskStarts",
            "action": {"kind": "download", "parameters": {"uri": "u", "path": "p", "sha256": "0" * 64}},
        },
        {
            "event": "taskStarts",
            "action": {"kind": "git", "parameters": {"repo_uri": SECRET, "options": ["-q"], "depth": 1}},
        },
    ],
    "files": [{"path": "f", "content": SECRET, "executable": True}],
    "environment": {"A": "b"},
    "notes": ["take care"],
}
REFUSAL = {"errors": [{"path": ["a", 0], "message": "no"}, {"message": "nor this"}]}


def can_run(steps: Steps) -> None:
    """The steps can be checked and sent to a task."""
    check_actions(checked(steps))
    callbacks = (*written_by(steps.files), *steps.callbacks)
    step = Step("s", callbacks, environment=dict(steps.environment))
    spec = TaskSpec("u", "j", "i", "r", 0, 0, 0, "x", "/f", "/w", {}, (), (step,), "h", {}, "p")
    assert (
        TaskSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False, ensure_ascii=False).encode())) == spec
    )


def survives(data: bytes) -> None:
    try:
        can_run(steps_in(data))
    except (InvalidAnswer, PluginFailed) as error:
        assert str(error)
        str(error).encode()
    except ParameterError as error:
        for wrong in error.wrong:
            assert isinstance(wrong.message, str)
            assert printable(wrong.message).isprintable() or wrong.message.isprintable()
            assert all(isinstance(step, str | int) for step in wrong.path)


@given(st.sampled_from([ANSWER, REFUSAL]).flatmap(lambda answer: st.tuples(st.just(answer), changes_of(answer))))
@settings(max_examples=90)
def test_an_answer_with_any_node_replaced(given: tuple[Any, list[tuple[tuple[Any, ...], Any]]]) -> None:
    survives(json.dumps(replaced(*given)).encode())


@given(edits, st.sampled_from(["utf-8", "utf-16", "utf-32"]))
@settings(max_examples=25)
def test_an_answer_with_any_edit(changes: list[tuple[float, int, str]], encoding: str) -> None:
    survives(edited(json.dumps(ANSWER), changes).encode(encoding, "surrogatepass"))


@given(st.binary(max_size=200))
@settings(max_examples=35)
@example(b"[" * 200_000)
@example(b'{"notes":' * 200_000)
@example(b"9" * 10_000)
def test_an_answer_of_any_bytes(data: bytes) -> None:
    survives(data)


PLUGINS: list[tuple[Plugin, dict[str, Any]]] = [
    (Cmd(), {"preCommands": ["a"], "postCommands": ["b"]}),
    (Cmd(), {"callbacks": [{"event": "taskStarts", "commands": ["a"]}]}),
    (
        Git(),
        {
            "repo_uri": "https://u:p@h/x",
            "options": ["--depth 1"],
            "clone_dir": "c",
            "commit": "main",
            "depth": 1,
            "sparse": ["a"],
            "submodules": True,
            "username": "me",
            "token": "t",
        },
    ),
    (Download(), {"uri": ["u", "v"], "sha256": ["0" * 64, "1" * 64], "path": "p/", "unpack": False}),
    (PvcStorage(), {"name": "s", "mountPath": "/m"}),
    (RestStorage(), {"config": "s"}),
]


@pytest.mark.parametrize(("plugin", "example"), PLUGINS, ids=[type(plugin).__name__ for plugin, _ in PLUGINS])
@given(data=st.data())
@settings(max_examples=25)
def test_built_in_plugins_with_any_parameters(plugin: Plugin, example: dict[str, Any], data: st.DataObject) -> None:
    values = replaced(example, data.draw(changes_of(example)))
    table = plugin.parameters
    assert table is not None
    try:
        can_run(plugin.steps(read(table, values)))
    except (ParameterError, PluginFailed) as error:
        assert str(error)


@given(junk, junk, junk, junk)
@settings(max_examples=50)
def test_steps_of_any_values(callbacks: Any, files: Any, environment: Any, notes: Any) -> None:
    try:
        can_run(Steps(callbacks, files, environment, (), notes))
    except PluginFailed as error:
        assert str(error)


@given(junk)
@settings(max_examples=50)
def test_readers_of_any_value(value: Any) -> None:
    for plugin, _ in PLUGINS:
        for parameter in plugin.parameters or ():
            assert isinstance(parameter, Parameter)
            try:
                parameter.read(value)
            except ParameterError as error:
                assert all(len(wrong.message) < 1000 for wrong in error.wrong)
