"""Syntax errors that the shell finds in a job's scripts, and their lines in the job file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.errors import InputError, Problem
from kedge.spec.lint import shell
from kedge.spec.lint.scripts import scripts
from kedge.spec.parse import load
from kedge.spec.yaml import read

HEAD = """\
protocolVersion: 2
name: j
type: job
prerequisites:
  - {name: img, type: dockerimage, uri: u}
parameters: {n: 3, msg: "it's", lines: "a\\nb'"}
taskRoles:
  w:
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands:
"""  # eleven lines


def warnings(folder: Path, commands: str, tail: str = "") -> list[tuple[int, int, str]]:
    """Line, column and message of each warning about a job with these commands, which start in line 12."""
    file = folder / "job.yaml"
    indented = "".join(f"      {line}\n" for line in commands.split("\n"))
    file.write_text(HEAD + indented + tail)
    job, _ = load(file)
    return [(found.line, found.column, found.message) for found in job.warnings]


@pytest.fixture(autouse=True, scope="module")
def _needs_bash() -> None:
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")


REFUSED = [
    ("- fi", (12, 9), "bash cannot read this script: syntax error near unexpected token 'fi'"),
    ("- echo a\n- |\n  echo b\n  done", (15, 9), "syntax error near unexpected token 'done'"),
    ("- >\n  echo a\n\n  echo b; fi", (15, 9), "syntax error near unexpected token 'fi'"),
    ('- "echo \\"a\\nfi"', (12, 9), "the closing '\"' is missing"),
    ("- echo 'a", (12, 9), 'the closing "\'" is missing'),
    ("- if true; then\n- echo a", (13, 9), "it ends while a construct is still open (if, do, case, {, …)"),
    ("- echo\n- cat <<EOF\n- a\n- EOFF", (13, 9), "this here-document runs to the end of the script"),
    ("- echo <% $parameters.msg %>\n- a", (12, 9), 'the closing "\'" is missing'),
    ("- echo <% $parameters.n\n  %>\n- fi", (14, 9), "near unexpected token 'fi'"),
    ("- fi\n- &a |\n  echo\n- *a", (12, 9), "near unexpected token 'fi'"),
]


@pytest.mark.parametrize(("commands", "place", "message"), REFUSED)
def test_a_syntax_error_is_reported_at_its_line_in_the_job_file(
    tmp_path: Path, commands: str, place: tuple[int, int], message: str
) -> None:
    (found,) = warnings(tmp_path, commands)
    assert found[:2] == place
    assert message in found[2]


ACCEPTED = [
    "- for i in 1 2; do\n- echo $i\n- done",
    "- cat <<EOF\n- it's <% $secrets.x %>\n- EOF",
    "- |\n  a=(1\n  2)\n  [[ $a =~ (x|y) ]] && diff <(a) >(b)",
    "- shopt -s extglob\n- ls !(a|b)",
    "- x=$(( <% $parameters.n %> + 1 )); echo ${a:<% $parameters.n %>}",
    "- for i in <% $parameters.lines %>; do :; done",
    "- 'if [ <% $secrets.x %> = y ]; then echo; fi  # it''s'",
    "- python -c 'print(1)' || exit\n- ''\n- '  '",
]
SECRET = 'secrets: {x: "it\'s"}\n'


@pytest.mark.parametrize("commands", ACCEPTED)
def test_valid_bash_is_not_reported(tmp_path: Path, commands: str) -> None:
    assert [found for found in warnings(tmp_path, commands, SECRET) if "is not used" not in found[2]] == []


def test_deployments_share_the_script_of_a_role_and_hooks_do_not(tmp_path: Path) -> None:
    tail = """\
    prerequisites: [h]
deployments:
  - {name: d, taskRoles: {w: {preCommands: ["if true; then"], postCommands: ["fi"]}}}
  - {name: e, taskRoles: {w: {preCommands: ["(("]}}}
defaults: {deployment: d}
extras:
  com.microsoft.pai.runtimeplugin:
    - {plugin: cmd, parameters: {preCommands: ["echo", "fi"]}}
"""
    head = HEAD.replace(
        "parameters:", "  - {name: h, type: script, callbacks: [{event: taskStarts, commands: [do]}]}\nparameters:"
    )
    file = tmp_path / "job.yaml"
    file.write_text(f"{head}      - echo\n{tail}")
    job, _ = load(file)
    assert [found.where for found in job.warnings] == [
        "prerequisites[1].callbacks[0].commands[0]",
        "extras.com.microsoft.pai.runtimeplugin[0].parameters.preCommands[1]",
    ]


@pytest.mark.parametrize(
    ("command", "is_read"),
    [
        ("python train.py --lr 0.1 --out=./x_$RANK/${NAME}", False),
        ("echo 'it is (so)' \"well $X\" && cd /a; b | tee c.log 2>&1", False),
        ("", False),
        ("a=1 b > x 2>> y", False),
        ("if a", True),
        ("echo fi", True),  # valid, but any keyword counts
        ("echo $(x)", True),
        ('echo "$(x)"', True),
        ("a &&", True),
        ("; a", True),
        ("a > ", True),
        ("(a)", True),
        ("echo 'a", True),
    ],
)
def test_only_scripts_that_may_be_invalid_are_checked(command: str, is_read: bool) -> None:
    document = read(json.dumps({"taskRoles": {"w": {"commands": [command]}}}))
    assert bool(list(scripts(document.value, document.source, ()))) == is_read


@given(st.text("ab $'\"\\n;|&>=2{}(#!`\\-", max_size=12) | st.sampled_from(["fi", "do", "echo x; }", "a ||"]))
@settings(max_examples=100, deadline=None)
def test_scripts_that_are_not_checked_are_valid_bash(text: str) -> None:
    document = read(json.dumps({"taskRoles": {"w": {"commands": [text]}}}))
    if not list(scripts(document.value, document.source, ())):
        subprocess.run(["bash", "-n"], input=text.encode() + b"\n", check=True, capture_output=True)


def test_a_shell_without_line_numbers_or_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busybox, true = shutil.which("busybox"), shutil.which("true")
    assert true
    monkeypatch.setattr(shell.shutil, "which", lambda name: busybox if name == "sh" else None)
    assert warnings(tmp_path, "- fi") == []  # busybox started under its own name is no shell
    monkeypatch.setattr(shell.shutil, "which", lambda name: None)
    assert warnings(tmp_path, "- fi") == []
    monkeypatch.setattr(shell.shutil, "which", lambda name: str(tmp_path / "no-shell"))
    assert warnings(tmp_path, "- fi") == []


def test_sh_is_used_if_bash_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sh = shutil.which("dash") or shutil.which("sh")
    monkeypatch.setattr(shell.shutil, "which", lambda name: sh if name == "sh" else None)
    ((line, _, message),) = warnings(tmp_path, "- echo\n- fi")
    assert (line, "cannot read this script: syntax error" in message.lower()) == (13, True)


def test_a_shell_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bash"
    slow.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(1000)\n")
    slow.chmod(0o755)
    monkeypatch.setattr(shell.shutil, "which", lambda name: str(slow))
    monkeypatch.setattr(shell, "_TIMEOUT", 0.1)
    assert warnings(tmp_path, "- fi\n- echo " + "'a' " * 100_000) == []


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "env").write_text(f"touch {marker}\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env"))
    monkeypatch.setenv("ENV", str(tmp_path / "env"))
    assert warnings(tmp_path, f"- touch {marker}; echo $(touch {marker})\n- ': ${{x:=`touch {marker}`}}'") == []
    assert not marker.exists()


def test_commands_are_checked_even_if_the_file_has_errors(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(HEAD.replace("cpu: 1", "cpu: x") + "      - fi\n")
    with pytest.raises(InputError) as caught:
        load(file)
    problems: list[Any] = [problem for problem in caught.value.problems if isinstance(problem, Problem)]
    assert [problem.severity for problem in problems] == ["error", "warning"]
    assert json.dumps([problem.to_json() for problem in problems])
