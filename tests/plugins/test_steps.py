"""The steps of tasks from plugins in a job file: settings, errors with positions, files, environment."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kedge.contract import Action, Retry, SecretRef, render_text
from kedge.errors import InputError
from kedge.plugins.base import Callback, File, PluginFailed, Steps, checked
from kedge.resolve.plugin_files import written_by
from kedge.resolve.plugins import check_actions

from .conftest import resolved

CMD = {"name": "a", "plugin": "cmd", "preCommands": ["echo"]}


def test_policy_retry_and_timeout_reach_the_step() -> None:
    settings = {"failurePolicy": "Ignore", "retry": {"max": 2, "delaySec": 0.5}, "timeoutSec": 30}
    entry = {"plugin": "cmd", "parameters": {"preCommands": ["b"]}, **settings}
    job = resolved({**CMD, **settings}, CMD | {"name": "plain"}, plugins=[entry])
    by_item, plain, by_entry = job.roles[0].steps
    for step in (by_item, by_entry):
        assert (step.policy, step.retry, step.timeout_sec) == ("ignore", Retry(2, 0.5), 30)
    assert (plain.policy, plain.retry, plain.timeout_sec) == ("fail", Retry(), None)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"plugin": "gti"}, "prerequisites[1].plugin: Plugin 'gti' is not supported; did you mean 'git'?"),
        (
            {"plugin": "zzz"},
            "Plugin 'zzz' is not supported; no installed package has it, and no kedge-plugin-zzz is",
        ),
        ({"plugin": "git"}, "prerequisites[1]: the parameter 'repo_uri' is missing"),
        ({"plugin": "git", "repo_url": "u"}, "prerequisites[1].repo_url: unknown parameter 'repo_url'; did you mean"),
        ({"plugin": "git", "repo_uri": "u", "depth": 0}, "prerequisites[1].depth: must be at least 1, not 0"),
        ({"plugin": "git", "repo_uri": "u", "callbacks": []}, "prerequisites[1].callbacks: unknown parameter"),
        (
            {"plugin": "git", "repo_uri": "u", "plugin_params": {"sparse": ["a", 1]}},
            "prerequisites[1].plugin_params.sparse[1]: must be a string, not the number 1",
        ),
        (
            {"plugin": "git", "plugin_params": {"repo_uri": "u", "where": "x"}},
            "prerequisites[1].plugin_params.where: unknown parameter 'where'; known here: 'repo_uri'",
        ),
        (
            {"plugin": "git", "repo_uri": "u", "clone_dir": "<% $secrets.s %>"},
            "prerequisites[1].clone_dir: must not contain a secret",
        ),
        ({"plugin": "git", "repo_uri": "<% $parameters.no %>"}, "no parameter is named 'no'"),
    ],
)
def test_errors_are_reported_with_their_path(item: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        resolved({"name": "a", **item}, secrets={"s": "12345678"})
    (problem,) = caught.value.problems
    assert message in str(problem)
    assert str(problem).startswith("job.yaml:")


def test_other_keys_of_an_item_may_serve_references() -> None:
    job = resolved({**CMD, "mountPoint": "/m", "version": 1, "pathForUser": "/data"})
    assert [step.name for step in job.roles[0].steps] == ["a"]


def test_wrong_parameters_give_a_note_if_failures_are_ignored() -> None:
    item = {"name": "a", "plugin": "git", "failurePolicy": "IGNORE"}
    entry = {"plugin": "cmd", "parameters": {"preCommand": ["b"]}, "failurePolicy": "ignore"}
    job = resolved(item, CMD | {"name": "b"}, plugins=[entry])
    assert [step.name for step in job.roles[0].steps] == ["b"]
    first, second = job.notes
    assert first.startswith("job.yaml:")
    assert "prerequisites[1]: the parameter 'repo_uri' is missing" in first
    assert "preCommand: unknown parameter 'preCommand'; did you mean 'preCommands'?; ignored because of" in second


def test_an_unknown_plugin_is_an_error_even_if_failures_are_ignored() -> None:
    with pytest.raises(InputError, match="not supported"):
        resolved({"name": "a", "plugin": "zzz", "failurePolicy": "ignore"})


def test_only_data_with_sha256_or_path_is_downloaded() -> None:
    told = {"name": "a", "type": "data", "uri": "https://h/x.zip", "path": "d"}
    only_named = {"name": "b", "type": "data", "uri": ["https://h/x.zip"]}
    (step,) = resolved(told, only_named).roles[0].steps
    assert step.name == "a"
    assert step.callbacks[0].action is not None
    assert step.callbacks[0].action.parameters == {"uri": "https://h/x.zip", "path": "d", "unpack": True}


def test_short_secrets_are_warned_about_unless_masking_is_off() -> None:
    secrets = {"short": "1234567", "long": "12345678", "list": [{"pin": 42}], "empty": ""}
    (note,) = resolved(CMD, secrets=secrets).notes
    assert "fewer than 8 characters: secrets list[0].pin, short" in note
    assert resolved(CMD, secrets=secrets, extras={"kedge": {"mask": False}}).notes == ()
    assert resolved(CMD, secrets={"long": "12345678"}).notes == ()


def test_files_are_written_unchanged(tmp_path: Path) -> None:
    hostile = "$(touch no) `touch no` \\ ' \" $HOME\nEOF\n\tlast line without an end"
    files = [
        File("a b/'c'.txt", (hostile, SecretRef("s", "<% $secrets.s %>"))),
        File(str(tmp_path / "run.sh"), ("#!/bin/sh\necho hello\n",), executable=True),
        File("-empty", ()),
    ]
    (callback,) = written_by(files)
    script = render_text(callback.script, {"s": "se'cret\nof two lines"})
    for _ in range(2):  # a retry writes the files again
        subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, check=True)
    assert (tmp_path / "a b" / "'c'.txt").read_text() == f"{hostile}se'cret\nof two lines\n"
    assert (tmp_path / "a b" / "'c'.txt").stat().st_mode & 0o777 == 0o600
    assert subprocess.run([tmp_path / "run.sh"], capture_output=True, check=True).stdout == b"hello\n"
    assert (tmp_path / "-empty").read_bytes() == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["-empty", "a b", "run.sh"]


def action(kind: str, parameters: Any) -> Steps:
    return Steps((Callback("taskStarts", (), Action(kind, parameters)),))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (Steps((Callback("taskStart", ("a",)),)), "'taskStart' is not an event; the events are taskStarts"),
        (Steps((Callback("taskStarts", ("a\0",)),)), "contains a NUL character"),
        (Steps((Callback("taskStarts", "a"),)), "the script of taskStarts is not a Text"),  # type: ignore[arg-type]
        (Steps(files=(File("d/", ("a",)),)), "'d/' is not the path of a file"),
        (Steps(environment={"A-B": "c"}), "'A-B' is not a variable name"),
        (
            Steps((Callback("taskStarts", ("\ud800",)),)),
            "U\\+D800 in the script of taskStarts is not a character",
        ),
        (action("git", [1]), "the parameters of the action git are not a mapping"),
        (
            action("git", {"a": float("nan")}),
            "the parameters of the action git contain nan, which JSON cannot represent",
        ),
        (action("git", {1: 2}), "the parameters of the action git contain {1: 2}"),
        (action("git", {"a": "\udcff"}), "U\\+DCFF in the parameters of the action git is not a character"),
    ],
)
def test_steps_that_cannot_run_are_refused(steps: Steps, message: str) -> None:
    with pytest.raises(PluginFailed, match=message):
        checked(steps)


@settings(max_examples=40)
@example("E\x80", False)
@example("~END-\x80\n^\x80", False)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200), st.booleans())
def test_any_text_is_written_exactly(content: str, secret: bool) -> None:
    text = (SecretRef("s", "<% $secrets.s %>"),) if secret else (content,)
    script = render_text(written_by([File("f", text)])[0].script, {"s": content})
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["sh", "-e"], input=script.encode(), cwd=folder, check=True)
        written = Path(folder, "f").read_bytes().decode()
    assert written == (content if not secret and (not content or content.endswith("\n")) else content + "\n")


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("git", {"repo_uri": "u", "options": 5}, "the action git: options: must be a list, not the number 5"),
        ("git", {"repo_uri": "u", "options": ["'"]}, "the action git: options.0: .* an unclosed quote"),
        ("git", {"repo_uri": {"text": [5]}}, "a text of an action has a part that is not a string or secret"),
        ("download", {"uri": 5}, "the action download: uri: must be a string, not the number 5"),
    ],
)
def test_actions_are_checked_when_the_job_is_submitted(kind: str, parameters: Any, message: str) -> None:
    with pytest.raises(PluginFailed, match=message):
        check_actions(action(kind, parameters))


def test_an_action_may_have_parameters_that_only_the_runtime_knows() -> None:
    secret = {"text": ["a", SecretRef("s", "<% $secrets.s %>")._asdict()]}
    check_actions(action("download", {"uris": ["u", secret], "path": "d/", "patience": {"tries": 2}}))
    check_actions(action("git", {"repo_uri": secret, "patience": {"tries": 2}}))
