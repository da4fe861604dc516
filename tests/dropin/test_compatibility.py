"""A task from its init phase to its end, as OpenPAI's runtime image runs it: variables, scripts, logs, exit codes, and
the termination message. The inputs are those that FrameworkController and OpenPAI give to a pod."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import re2

import kedge

from .framework_files import SECOND_UID, VARIABLES, checked_example
from .phases import START, environment
from .test_env_generator import OF_OPENPAI

RUNTIME = Path(kedge.__file__).parent / "runtime"
SITE = str(Path(re2.__file__).parents[1])  # where installed packages are
# The specification of OpenPAI's proposal, without the programs that need a cluster or a registry.
INIT_CONFIG = """\
initPlugins:
- name: frameworkParser
  command: 'python frameworkParser.py ../framework.json'
- name: portChecker
  command: 'python portChecker.py portListFile'
- name: userCommandRender
  command: 'python command_render.py'
"""
POD = VARIABLES | {
    "PAI_FRAMEWORK_NAME": "test_user~test",
    "PAI_JOB_NAME": "test_user~test",
    "PAI_USER_NAME": "test_user",
    "PAI_TASK_ROLE_LIST": "taskrole,taskrole_1",
    "PAI_RESOURCE_taskrole": "1,4,8192,0",
    "PAI_CURRENT_TASK_ROLE_NAME": "taskrole",
    "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
}
EXIT_SPEC = """\
- containerExitCode: 234
  patterns: [{userLogRegex: Segmentation fault}]
- containerExitCode: 249
  patterns: [{platformLogRegex: SSH barrier reaches max retry count}]
"""
PREFIX = re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \w+ \d{4}\] \[openpai-runtime\] ")


class Task(NamedTuple):
    """A task that has ended, with its folders."""

    code: int
    logs: Path
    runtime_d: Path
    termination: Path

    @property
    def lines(self) -> list[str]:
        """The lines of runtime.log, without their prefix."""
        lines = (self.logs / "runtime.log").read_text().splitlines()
        assert all(PREFIX.match(line) for line in lines)
        return [PREFIX.sub("", line) for line in lines]

    def stream(self, name: str) -> str:
        return (self.logs / name / "current").read_text()


RunTask = Callable[..., Task]


@pytest.fixture
def run_task(work: Path, tmp_path: Path) -> RunTask:
    """Runs both phases with a command of the user. `config` is the job's `extras`; other names are variables."""
    (work / "config/runtime-exit-spec.yaml").write_text(EXIT_SPEC)
    started_in = tmp_path / "home"
    started_in.mkdir()

    def run(command: str, config: str = "", **variables: str) -> Task:
        framework = checked_example()
        framework["metadata"]["annotations"]["config"] += config
        (work / "framework.json").write_text(json.dumps(framework))
        pod = POD | variables
        init = environment(work, **({"INIT_CONFIG": INIT_CONFIG, "USER_CMD": command} | pod))
        started = subprocess.run([sys.executable, "-c", START], env=init, cwd="/", capture_output=True, text=True)
        assert started.returncode == 0, started.stderr
        termination = tmp_path / "termination-log"
        own = {"PAI_TERMINATION_LOG": str(termination), "PAI_AMD_VISIBLE_DEVICES": "0"}
        code = subprocess.run(
            [sys.executable, "-I", "-S", str(RUNTIME), str(work / "runtime.d/kedge-task.json"), "--site", SITE],
            env=environment(work, **(pod | own)), cwd=started_in, capture_output=True, timeout=60,
        ).returncode  # fmt: skip
        return Task(code, work / "logs" / pod["FC_POD_UID"], work / "runtime.d", termination)

    return run


TWO_HOOKS = """\
extras:
  com.microsoft.pai.runtimeplugin:
  - plugin: cmd
    parameters: {preCommands: [echo pre one], postCommands: [echo post one]}
  - plugin: cmd
    parameters: {preCommands: ['echo pre two >&2'], postCommands: [echo post two]}
"""


def test_a_task_that_succeeds(run_task: RunTask) -> None:
    task = run_task("echo hello\necho problem >&2", TWO_HOOKS)
    assert task.code == 0
    assert task.lines == [
        "[INFO] Starting to exec precommands", "pre one", "pre two", "[INFO] Precommands finished",
        "[INFO] USER COMMAND START", "[INFO] USER COMMAND END", "post two", "post one",
    ]  # fmt: skip
    assert (task.stream("user-stdout"), task.stream("user-stderr")) == ("hello\n", "problem\n")
    assert sorted(task.stream("user-all").splitlines()) == ["hello", "problem"]
    names = {"init.log", "runtime.log", "user-stdout", "user-stderr", "user-all"}
    assert names <= {path.name for path in task.logs.iterdir()}
    assert not task.termination.exists()
    scripts = {path.name for path in task.runtime_d.glob("*.sh")}
    hooks = {f"plugin_{kind}{number}.sh" for kind in ("pre", "post") for number in (0, 1)}
    assert scripts == {"runtime_env.sh", "user.sh", *hooks}
    script = task.runtime_d / "user.sh"
    assert script.read_text() == "set -o errexit -o nounset -o pipefail\necho hello\necho problem >&2\n"
    assert script.stat().st_mode & 0o777 == 0o700


def test_the_variables_of_a_task(run_task: RunTask, tmp_path: Path) -> None:
    task = run_task("env")
    values = dict(line.split("=", 1) for line in task.stream("user-stdout").splitlines() if "=" in line)
    expected = dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in OF_OPENPAI)
    assert {name: values.get(name) for name in expected} == expected
    assert {name: values.get(name) for name in POD} == POD
    assert values["PAI_WORK_DIR"] == str(tmp_path / "home")
    assert values["PAI_TASK_INDEX"] == "0"
    assert values["PAI_AMD_VISIBLE_DEVICES"] == "0"  # only the user's container has it
    assert values["RUNTIME_LOG_PIPE"] == str(task.runtime_d / "runtime_log_pipe")
    generated = (task.runtime_d / "runtime_env.sh").read_text().splitlines()
    assert set(OF_OPENPAI) < set(generated)


def test_the_idiom_of_the_manual_finds_a_port_in_both_spellings(run_task: RunTask) -> None:
    name = "PAI_PORT_LIST_${%s}_${PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX}_mpi"
    spellings = [name % variable for variable in ("PAI_CURRENT_TASK_ROLE_NAME", "FC_TASKROLE_NAME")]
    task = run_task(
        "\n".join(f'name={each}; echo "$name ${{!name}}"' for each in spellings),
        FC_TASKROLE_NAME="taskrole1", PAI_CURRENT_TASK_ROLE_NAME="taskrole_1", FC_POD_UID=SECOND_UID,
    )  # fmt: skip
    assert task.stream("user-stdout").splitlines() == [
        "PAI_PORT_LIST_taskrole_1_0_mpi 20966,21891", "PAI_PORT_LIST_taskrole1_0_mpi 20966,21891",
    ]  # fmt: skip


def test_the_termination_message(run_task: RunTask) -> None:
    task = run_task('echo out1\necho "Segmentation fault"\nexit 3')
    assert task.code == 234
    message = task.termination.read_text()
    assert message == (task.logs / "pai-termination-log").read_text()
    head, _, platform = message.partition("  platform: |\n")
    assert head.splitlines() == [
        "[PAI_RUNTIME_ERROR_START]", "exitCode: 234", "originUserExitCode: 3",
        "matchedUserLogString: Segmentation fault", "errorLogs:", "  user: |", "    out1", "    Segmentation fault",
    ]  # fmt: skip
    assert platform.endswith("\n\n[PAI_RUNTIME_ERROR_END]")
    lines = [PREFIX.sub("", line.strip()) for line in platform.splitlines()[:-2]]
    assert lines == [
        "[INFO] Starting to exec precommands", "[INFO] Precommands finished", "[INFO] USER COMMAND START",
        "[INFO] User command failed with exit code 3",
    ]  # fmt: skip
    assert "[INFO] USER COMMAND END" not in task.lines


def test_a_pattern_finds_what_a_hook_wrote_to_stderr(run_task: RunTask) -> None:
    """OpenPAI's runtime missed it: stderr of hooks did not reach its log."""
    text = "SSH barrier reaches max retry count. Failed instances: worker-1 Exit..."
    task = run_task("echo never", TWO_HOOKS.replace("'echo pre two >&2'", f"'echo {text} >&2', 'exit 10'"))
    assert task.code == 249
    assert task.lines[:3] == ["[INFO] Starting to exec precommands", "pre one", text]
    assert not any("USER COMMAND" in line for line in task.lines)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 1", 255), ("exit 200", 255), ("echo $UNDEFINED_VARIABLE", 255), ("false | true", 255),
        ("kill -KILL $$", 137), ("kill -SEGV $$", 139), ("kill -TERM $$", 143), ("exit 134", 134),
    ],
)  # fmt: skip
def test_exit_codes(work: Path, run_task: RunTask, command: str, code: int) -> None:
    (work / "config/runtime-exit-spec.yaml").unlink()  # the built-in one has OpenPAI's rows
    task = run_task(command)
    assert task.code == code
    assert task.termination.read_text().startswith(f"[PAI_RUNTIME_ERROR_START]\nexitCode: {code}\n")


def test_the_message_always_fits(run_task: RunTask) -> None:
    """OpenPAI's runtime failed to cut such a log, and wrote no message at all."""
    task = run_task("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do printf '汉%.0s' $(seq 400); echo; done\nexit 1")
    data = task.termination.read_bytes()
    assert len(data) <= 4096
    assert "汉" in data.decode()
    assert data.endswith(b"[PAI_RUNTIME_ERROR_END]")


def test_the_file_env_comes_over_all_variables(work: Path, run_task: RunTask) -> None:
    program = work / "init.d" / "site"
    lines = "MINE=a b\\nPAI_HOST_IP_taskrole_0=10.0.0.9\\nno variable\\n"
    program.write_text(f"#!/bin/sh\nprintf '{lines}' >> $PAI_RUNTIME_DIR/env\n")
    program.chmod(0o755)
    config = INIT_CONFIG + "- {name: site, command: ./site}\n"
    task = run_task('echo "$MINE $PAI_HOST_IP_taskrole_0"', INIT_CONFIG=config)
    assert task.stream("user-stdout") == "a b 10.0.0.9\n"
    assert any("that are not NAME=VALUE are ignored: 'no variable'" in line for line in task.lines)


def test_secrets_reach_the_command_alone(work: Path, run_task: RunTask) -> None:
    (work / "secrets").mkdir()
    (work / "secrets/secrets.yaml").write_text("token: a&b'hunter2\n")
    task = run_task('printf %s "<% $secrets.token %>" | wc -c')
    assert (task.code, task.stream("user-stdout").strip()) == (0, "11")
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    texts = [path for path in files if "hunter2" in path.read_text(errors="replace")]
    kept = {path.relative_to(work).parts[0] for path in texts}
    assert kept == {"secrets", "kedge-secrets"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in texts if "kedge-secrets" in path.parts)
