"""Variables that start hooks export reach later hooks, the command and exit hooks; nothing else does."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from kedge.contract import Callback, Step
from kedge.runtime.hooks import script

DUMP = "cat /proc/self/environ > {}"


@pytest.fixture(params=["bash", "dash", "busybox"])
def shelled(request, attempt, tmp_path):
    """An attempt whose PATH has only this shell, as `bash` or as `sh`, before all other programs."""
    if not (program := shutil.which(request.param)):
        pytest.skip(f"{request.param} is not installed")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name in ("cat", "env", "sleep", "touch", "true", "false", "grep"):
        (bin_folder / name).symlink_to(str(shutil.which(name)))
    (bin_folder / ("bash" if request.param == "bash" else "sh")).symlink_to(program)
    attempt.spec = attempt.spec._replace(environment={"PATH": str(bin_folder), "OLD": "old", "a.b": "dotted"})
    return attempt


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("echo a\necho b\nfalse\necho never", "false"),
        ("echo a\n\ncat  /no/such/file\ntrue\n", "cat  /no/such/file"),
        ("echo a\nexit 7", "exit 7"),
        ("no-such-tool  --here", "no-such-tool  --here"),
    ],
)
@pytest.mark.parametrize("event", ["taskStarts", "containerExit"])
def test_the_command_that_failed_is_named_in_any_shell(shelled, step, event, script, command):
    shelled.spec = shelled.spec._replace(steps=(step("item", **{event: script}),))
    shelled.run("true")
    path = Path(shelled.spec.environment["PATH"])
    untold = (path / "sh").resolve().name == "dash" and "\n" in script
    assert shelled.report["hooks"][0]["command"] == (None if untold else command)


def dumped(attempt, name):
    """The environment that a DUMP has written."""
    entries = (Path(attempt.spec.workdir) / name).read_bytes().split(b"\0")[:-1]
    return dict(os.fsdecode(entry).split("=", 1) for entry in entries)


def test_exported_variables_are_passed_on(shelled, step):
    first = "export A=1 B='two  words' OLD=new; unexported=x; cd /; f() { :; }"
    shelled.spec = shelled.spec._replace(
        steps=(
            step("first", taskStarts=first),
            step("second", taskStarts=DUMP.format("hook"), taskSucceeds=DUMP.format("exit")),
        )
    )
    assert shelled.run(DUMP.format("command")) == 0
    for name in ("hook", "command", "exit"):
        found = dumped(shelled, name)
        assert (found["A"], found["B"], found["OLD"]) == ("1", "two  words", "new")
        assert "unexported" not in found
        assert "f" not in found
    assert not [line for line in shelled.log if line.startswith("[WARNING] a hook")]


@pytest.mark.parametrize("end", ["exit 0", "true", "(exit 3) || true", "if true; then exit; fi"])
def test_variables_are_passed_on_however_the_script_ends(shelled, step, end):
    shelled.spec = shelled.spec._replace(steps=(step("first", taskStarts=f"export A=1\n{end}\n"),))
    assert shelled.run('[ "$A" = 1 ]') == 0


def test_removed_variables_are_removed(shelled, step):
    shelled.spec = shelled.spec._replace(
        steps=(step("first", taskStarts="export A=1"), step("second", taskStarts="unset A OLD"))
    )
    assert shelled.run('[ -z "${A+x}${OLD+x}" ]') == 0


@pytest.mark.parametrize("value", ["two\nlines\n", 'it\'s "quoted" $HOME `x` \\', "", "x" * 100_000, "=", "ä\u2028"])
def test_values_are_passed_on_unchanged(shelled, step, value):
    word = "'" + value.replace("'", "'\\''") + "'"
    shelled.spec = shelled.spec._replace(steps=(step("first", taskStarts=f"export A={word}"),))
    assert shelled.run(DUMP.format("command")) == 0
    assert dumped(shelled, "command")["A"] == value


def test_many_large_values_are_passed_on(attempt, step):
    script = "for i in 1 2 3 4 5 6 7 8 9; do export V$i=$(printf %0100000d $i); done"
    attempt.spec = attempt.spec._replace(steps=(step("first", taskStarts=script),))
    assert attempt.run(DUMP.format("command")) == 0
    found = dumped(attempt, "command")
    assert all(found[f"V{i}"] == str(i).zfill(100_000) for i in range(1, 10))


def test_values_are_never_logged(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("first", taskStarts="export A=$(printf 'hid%s' den-value)"),))
    attempt.run("true")
    for path in attempt.folder.rglob("*"):
        assert not path.is_file() or b"hidden-value" not in path.read_bytes(), path


@pytest.mark.parametrize(("policy", "expected"), [("fail", 255), ("ignore", 0)])
def test_a_failed_hook_passes_variables_on_only_if_failures_are_ignored(attempt, step, policy, expected):
    attempt.spec = attempt.spec._replace(
        steps=(step("item", policy, taskStarts="export A=1; exit 3", containerExit='echo "A is ${A-unset}"'),)
    )
    assert attempt.run('[ "$A" = 1 ]') == expected
    assert ("A is 1" in attempt.log) == (policy == "ignore")
    assert ("A is unset" in attempt.log) == (policy == "fail")


def test_variables_of_the_shell_itself_are_not_passed_on(attempt, step):
    script = "export SHELLOPTS BASHOPTS; f() { :; }; export -f f; export -n OLD; cd /; set -x"
    attempt.spec = attempt.spec._replace(environment={"OLD": "1"}, steps=(step("first", taskStarts=script),))
    attempt.run(DUMP.format("command"))
    found = dumped(attempt, "command")
    assert not {"SHELLOPTS", "BASHOPTS", "OLD"} & found.keys()
    assert not [name for name in found if name.startswith("BASH_FUNC")]
    assert found["PWD"] == attempt.spec.workdir


def test_a_script_that_replaces_the_exit_trap_is_named_in_a_warning(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("traps", taskStarts="export A=1; trap 'echo mine' EXIT"), step("execs", taskStarts="exec true"))
    )
    assert attempt.run('[ -z "${A+x}" ]') == 0
    assert "mine" in attempt.log
    told = [line for line in attempt.log if "exported are not passed on" in line]
    assert ["hook of traps" in told[0], "hook of execs" in told[1]] == [True, True]


def test_a_steps_own_environment_is_set(attempt):
    steps = (
        Step("sets", (), environment={"DATA": "/data"}),
        Step("checks", (Callback("taskStarts", ('[ "$DATA" = /data ]; export DATA=/other',)),)),
    )
    data = json.loads(json.dumps(attempt.spec._replace(steps=steps).to_json()))
    attempt.spec = type(attempt.spec).from_json(data)
    assert attempt.run('[ "$DATA" = /other ]') == 0


def test_an_incomplete_message_is_ignored():
    whole = b"L7\0Cls /x\0EA=1\0B=2\0\0"
    assert script.parse(whole) == (7, "ls /x", {"A": "1", "B": "2"})
    assert all(script.parse(whole[:end]).environment is None for end in range(len(whole)))


def test_only_changed_variables_are_passed_on():
    before = {"same": "1", "changed": "1", "gone": "1", "a.b": "1", "PWD": "/x"}
    after = {"same": "1", "changed": "2", "new": "3", "PWD": "/y", "SHLVL": "1", "BASH_FUNC_f%%": "() { :; }"}
    assert script.changes(before, after) == {"changed": "2", "new": "3", "gone": None}
