"""Plugins that are executables: real programs that answer or fail to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge import processes
from kedge.contract import CONTAINER_EXIT, TASK_STARTS, SecretRef
from kedge.plugins.base import Action, Callback, File, ParameterError, PluginFailed, Steps, Wrong
from kedge.resolve.plugin_executable import Executable
from kedge.testing.plugins import conforms, steps_of
from kedge.testing.wait import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin-executable" / "kedge-plugin-timeline"
SECRET = SecretRef("s", "<% $secrets.s %>")


def executable(folder: Path, code: str, timeout_sec: float = 30.0) -> Executable:
    """The plugin `x` with this Python code; `answer(value)` prints a value, `asked` is the request."""
    path = folder / "kedge-plugin-x"
    head = f"#!{sys.executable}\nimport json, os, signal, sys\nasked = json.load(sys.stdin)\n"
    path.write_text(f"{head}def answer(value): print(json.dumps(value))\n{code}\n")
    path.chmod(0o755)
    return Executable("x", str(path), timeout_sec)


def test_an_answer_becomes_steps(tmp_path: Path) -> None:
    answer: dict[str, Any] = {
        "callbacks": [
            {"event": "taskStarts", "commands": ["a", {"text": ["b ", SECRET._asdict()]}]},
            {"event": "containerExit", "action": {"kind": "download", "parameters": {"uri": "u"}}},
        ],
        "files": [{"path": "f", "content": "c", "executable": True}],
        "environment": {"A": "b"},
        "notes": ["take care"],
    }
    plugin = executable(tmp_path, f"open({str(tmp_path / 'asked')!r}, 'w').write(json.dumps(asked)); answer({answer})")
    assert steps_of(plugin, {"n": 1, "l": ["x"], "s": ("a", SECRET)}) == Steps(
        (
            Callback(TASK_STARTS, ("a", "\n", "b ", SECRET, "\n")),
            Callback(CONTAINER_EXIT, (), Action("download", {"uri": "u"})),
        ),
        (File("f", ("c",), True),),
        {"A": "b"},
        (),
        ("take care",),
    )
    assert json.loads((tmp_path / "asked").read_text()) == {
        "version": 1,
        "plugin": "x",
        "parameters": {"n": 1, "l": ["x"], "s": {"text": ["a", SECRET._asdict()]}},
    }


def test_an_executable_can_refuse_parameters(tmp_path: Path) -> None:
    answer = {"errors": [{"path": ["a", 0], "message": "no"}, {"message": "nor this"}]}
    with pytest.raises(ParameterError) as caught:
        executable(tmp_path, f"answer({answer})").steps({})
    assert caught.value.wrong == (Wrong("no", ("a", 0)), Wrong("nor this"))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("sys.exit('first\\nsecond')", "exited with code 1: second$"),
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL$"),
        ("os._exit(0)", "ended without an answer$"),
        ("print('[' * 100_000)", "answered with JSON that is nested too deeply$"),
        ("print('{\"notes\": [' + '9' * 5000 + ']}')", r"did not answer with JSON \(a number has 5000 digits\)$"),
        ('print(\'{"environment": {"A": NaN}}\')', r"did not answer with JSON \(NaN is not a JSON number\)$"),
        ('os.write(1, b\'{"notes": ["\\xff"]}\')', r"did not answer with JSON \('utf-8' codec"),
        ("for _ in range(64): os.write(1, bytes(1 << 20))", "answered with more than 16 MiB$"),
        (
            "answer({'files': [{'path': 'f', 'content': '\\ud800'}]})",
            r"answered with U\+D800, which is not a character$",
        ),
        ("print('hello')", "did not answer with JSON"),
        ("answer([])", "answered with JSON that is not an object"),
        ("answer({'steps': 1})", "answered with unknown keys: steps"),
        ("answer({'callbacks': [{}]})", "gave an invalid answer .*event"),
        ("answer({'callbacks': [{'event': 'taskStarts', 'script': 'a'}]})", "gave an invalid answer .*script"),
        ("answer({'callbacks': [{'event': 'taskStarts', 'commands': [1]}]})", "gave an invalid answer"),
        ("answer({'callbacks': [{'event': 'x', 'commands': ['a']}]})", "'x' is not an event"),
        (
            "answer({'callbacks': [{'event': 'taskStarts', 'action': {'kind': 'x', 'parameters': {}}}]})",
            "is not an action",
        ),
        ("answer({'files': [{'path': 'f'}]})", "gave an invalid answer .*content"),
        ("answer({'environment': {'a': 1}})", r"\(environment.a: must be a string, not the number 1\)$"),
        ("answer({'environment': {'a-b': 'c'}})", "'a-b' is not a variable name, or its value is not a string"),
        (
            "answer({'files': [{'path': 1, 'content': 'a'}]})",
            r"\(files\[0\].path: must be a string, not the number 1\)$",
        ),
        ("answer({'callbacks': 'ab'})", r"\(callbacks: must be a list, not 'ab'\)$"),
        ("answer({'notes': 'ab'})", r"\(notes: must be a list, not 'ab'\)$"),
        (
            "answer({'callbacks': [{'event': 'taskStarts', 'commands': [{'text': [{'key': 1, 'source': 's'}]}]}]})",
            r"\(callbacks\[0\].commands\[0\].text\[0\].key: must be a string, not the number 1\)$",
        ),
        ("answer({'errors': [{'message': 'm', 'path': [None]}]})", r"\(errors\[0\].path\[0\]: must be a name"),
        (
            "a = []\nfor _ in range(100): a = [a]\n"
            "answer({'callbacks': [{'event': 'taskStarts', 'action': {'kind': 'git', 'parameters': {'a': a}}}]})",
            "the parameters of the action git are nested more than 32 levels deep$",
        ),
        ("answer({'environment': 1})", "gave an invalid answer"),
        ("answer({'errors': [1]})", "gave an invalid answer"),
    ],
)
def test_an_invalid_answer_is_a_failure_of_the_plugin(tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(PluginFailed, match=message) as caught:
        steps_of(executable(tmp_path, code), {})
    assert "\n" not in str(caught.value)


# A child, one in its own session, and a daemon without an environment whose parents are all gone.
FAMILY = """#!/bin/sh
cd {folder}
sleep 1000 & echo $! > child
setsid sh -c 'echo $$ > session; exec sleep 1000' &
env -i setsid sh -c '(sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > daemon)'
echo $$ > plugin.new; mv plugin.new plugin
"""
NAMES = ("child", "session", "daemon", "plugin")


def family(folder: Path, end: str) -> Path:
    path = folder / "kedge-plugin-x"
    path.write_text(FAMILY.format(folder=folder) + end)
    path.chmod(0o755)
    return path


def members(folder: Path) -> list[int]:
    """Their pids, once all have started."""
    files = [folder / name for name in NAMES]
    wait_until(lambda: all(file.exists() and file.read_text().strip() for file in files), what="all processes")
    return [int(file.read_text()) for file in files]


def running(pid: int) -> bool:
    return processes.identify(pid) is not None


def test_a_plugin_that_does_not_answer_is_killed_with_its_processes(tmp_path: Path) -> None:
    path = family(tmp_path, "wait\n")
    with pytest.raises(PluginFailed, match=r"did not answer within 2 seconds$"):
        Executable("x", str(path), 2.0).steps({})
    assert [pid for pid in members(tmp_path) if running(pid)] == []


def test_the_processes_of_a_plugin_killed_by_a_signal_are_killed(tmp_path: Path) -> None:
    path = family(tmp_path, "kill -9 $$\n")
    with pytest.raises(PluginFailed, match=r"was killed by SIGKILL$"):
        Executable("x", str(path)).steps({})
    assert [pid for pid in members(tmp_path) if running(pid)] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_an_interrupt_kills_a_plugin_with_its_processes(tmp_path: Path, number: signal.Signals) -> None:
    path = family(tmp_path, "wait\n")
    program = (
        "import signal; from kedge.resolve.plugin_executable import Executable\n"
        f"Executable('x', {str(path)!r}).steps({{}})"
    )
    handler = f"signal.signal({int(number)}, signal.default_int_handler); "
    kedge = subprocess.Popen([sys.executable, "-c", program.replace("\n", f"\n{handler}")], stderr=subprocess.DEVNULL)
    pids = members(tmp_path)
    kedge.send_signal(number)
    assert kedge.wait(60) == -signal.SIGINT
    assert [pid for pid in pids if running(pid)] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_plugin_does_not_outlive_a_kedge_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    path = family(tmp_path, "wait\n")
    program = f"from kedge.resolve.plugin_executable import Executable; Executable('x', {str(path)!r}).steps({{}})"
    with subprocess.Popen([sys.executable, "-c", program]) as kedge:
        pids = members(tmp_path)
        kedge.send_signal(number)
    wait_until(lambda: not any(map(running, pids)), 60, "the end of all")


def test_a_plugin_that_cannot_be_run_is_reported_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "kedge-plugin-x"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    with pytest.raises(PluginFailed, match="cannot be run: No such file"):
        Executable("x", str(path)).steps({})


def test_a_plugin_need_not_read_its_request(tmp_path: Path) -> None:
    path = tmp_path / "kedge-plugin-x"
    path.write_text("#!/bin/sh\necho '{}'\n")
    path.chmod(0o755)
    assert Executable("x", str(path)).steps({"big": "x" * 1_000_000}) == Steps()


def test_the_example_conforms() -> None:
    assert os.access(EXAMPLE, os.X_OK)
    plugin = Executable("timeline", str(EXAMPLE))
    default, named = conforms(plugin, {}, {"file": "my events.txt"})
    assert [callback.event for callback in default.callbacks] == [
        "taskStarts",
        "taskSucceeds",
        "taskFails",
        "containerExit",
    ]
    assert named.environment == {"TIMELINE": "my events.txt"}
    with pytest.raises(ParameterError, match="unknown parameter 'fiel'"):
        plugin.steps({"fiel": "x"})
