"""The init phase: which programs run, in which order, where, and what their exit codes become."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.dropin import steps
from kedge.testing.wait import wait_until

from .phases import START, RunInit, add_program, environment

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - (INFO|WARNING|ERROR) - \w+\.py:\d+ - .*")
# As the interface proposal prints them, with the indentation mended.
IN_THE_TEXT = """\
initPlugins:
- name: frameworkBarrier
  command: 'frameworkBarrier framework.json'
- name: frameworkParser
  command: 'python frameworkParser.py framework.json'
- name: imageChecker
  command: 'python imageChecker.py'
- name: portChecker
  command: 'python portChecker.py portListFile'
- name: userCommandRender
  command: 'python command_render.py'
"""
IN_THE_POD = """\
initPlugins:
- name: frameworkParser
  command: pai/frameworkBarrier framework.json
- name: frameworkParser
  command: frameworkParser.py framework.json
"""


def spec(*plugins: dict[str, Any]) -> str:
    return json.dumps({"initPlugins": [{"name": f"plugin-{n}"} | each for n, each in enumerate(plugins)]})


def test_programs_run_one_after_the_other_in_init_d_until_one_fails(run_init: RunInit) -> None:
    done = run_init(
        INIT_CONFIG=spec(
            {"command": 'pwd; echo "$PAI_RUNTIME_DIR|$PAI_LOG_DIR"; echo one > first'},
            {"command": "cat first; echo two >&2"},
            {"command": "exit 7"},
            {"command": "echo never"},
        )
    )
    assert done.code == 1
    places = [str(done.work / "init.d"), f"{done.work}/runtime.d|{done.logs}"]
    ends = ["plugin-1 starts", "one", "two", "plugin-2 starts", "child process is plugin-2, exit code is 7"]
    assert done.messages[-8:] == ["plugin-0 starts", *places, *ends]
    assert all(LINE.fullmatch(line) for line in done.log.splitlines() if " - " in line)


def test_executables_of_any_kind_get_their_arguments_as_they_are(run_init: RunInit, work: Path) -> None:
    add_program(work, "show.sh", '#!/bin/sh\nprintf \'<%s>\' "$0" "$@"\n')
    add_program(work, "show.py", f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    words = ["$HOME", "a b", "it's", 5]
    done = run_init(
        INIT_CONFIG=spec({"command": "show.sh 'x y'", "args": words}, {"command": "show.py", "args": words})
    )
    assert done.code == 0
    assert f"<{work}/init.d/show.sh><x y><$HOME><a b><it's><5>" in done.log
    assert "['$HOME', 'a b', \"it's\", '5']" in done.log


@pytest.mark.parametrize(
    ("command", "code"), [("exit 201", 251), ("exit 202", 1), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_exit_codes_are_mapped_by_the_specification_then_by_the_table(
    run_init: RunInit, command: str, code: int
) -> None:
    rows = [{"name": "JobGangAllocationTimeout", "originErrorCode": 201, "mappedErrorCode": 251}]
    assert run_init(INIT_CONFIG=spec({"command": command, "errors": rows})).code == code


@pytest.mark.parametrize(
    ("file", "program_code", "code"),
    [
        ("frameworkBarrier", 200, 250),
        ("pai/frameworkBarrier", 201, 251),
        ("frameworkRetriever", 210, 252),
        ("portChecker.py", 10, 253),
        ("imageChecker.py", 3, 254),
        ("frameworkParser.py", 201, 1),
    ],
)
def test_a_program_in_place_of_a_built_in_one_keeps_its_exit_codes(
    run_init: RunInit, work: Path, file: str, program_code: int, code: int
) -> None:
    add_program(work, file, f"#!{sys.executable}\nraise SystemExit({program_code})\n")
    assert run_init(INIT_CONFIG=spec({"command": file})).code == code
    assert run_init(INIT_CONFIG=spec({"command": f"python {file} x"})).code == code


def test_the_specifications_of_the_proposal_run_the_programs_of_kedge_in_this_process() -> None:
    found = steps.specified(_plugins(IN_THE_TEXT), "/nowhere")
    assert [step.program for step in found] == [None] * 5, "there is no such file"


@pytest.mark.parametrize("text", [IN_THE_TEXT, IN_THE_POD])
def test_the_specifications_of_the_proposal_as_steps(work: Path, text: str) -> None:
    found = steps.specified(_plugins(text), str(work / "init.d"))
    expected = [
        ("frameworkBarrier", ("framework.json",)),
        ("frameworkParser", ("framework.json",)),
        ("imageChecker", ()),
        ("portChecker", ("portListFile",)),
        ("userCommandRender", ()),
    ]
    assert [(step.program, step.words) for step in found] == expected[: len(found)]


def _plugins(text: str) -> tuple[steps.InitPlugin, ...]:
    from kedge.dropin import init_spec

    return init_spec.read(text, "INIT_CONFIG").plugins


def test_shell_syntax_starts_a_built_in_program_as_a_program(run_init: RunInit) -> None:
    done = run_init(INIT_CONFIG=spec({"command": "python portChecker.py no-such-file && echo fine || exit 10"}))
    assert done.code in (0, 1)
    assert re.search(r" - port_checker\.py:\d+ - ", done.log) or "fine" in done.log


def test_the_variable_then_the_file_then_the_built_in_list(run_init: RunInit, work: Path) -> None:
    (work / "config" / "init_plugins.yaml").write_text(spec({"command": "echo from the file"}))
    assert "from the variable" in run_init(INIT_CONFIG=spec({"command": "echo from the variable"})).log
    assert run_init(INIT_CONFIG=" \n").messages[-1] == "from the file"
    (work / "config" / "init_plugins.yaml").write_bytes(b"initPlugins: \xff")
    assert run_init().messages[-1] == f"{work}/config/init_plugins.yaml: it is not UTF-8 text: invalid start byte"
    (work / "config" / "init_plugins.yaml").unlink()
    assert "the built-in list of init programs runs" in run_init().messages
    mounted = work / "config" / "init_plugins.yaml"
    mounted.mkdir()
    (mounted / "key-of-the-configmap").write_text(spec({"command": "echo from the folder"}))
    assert run_init().messages[-1] == "from the folder"


def test_the_built_in_list() -> None:
    barrier = [
        "frameworkBarrier",
        "envGenerator",
        "frameworkParser",
        "portChecker",
        "imageChecker",
        "userCommandRender",
    ]
    for value, first in (("true", "frameworkBarrier"), ("", "frameworkBarrier"), ("false", "frameworkRetriever")):
        found = steps.built_in({"GANG_ALLOCATION": value}, "/nowhere", of_framework=True)
        assert [step.program for step in found] == [first, *barrier[1:]]


def test_files_that_a_site_adds_to_init_d_run_after_the_built_in_list(run_init: RunInit, work: Path) -> None:
    for name in ("50-second", "10-first.sh", "report"):
        add_program(work, name, '#!/bin/sh\necho "this is ${0##*/} in $PWD"\n')
    add_program(work, "no-mode.sh", "#!/bin/sh\necho without a mode\n", 0o644)
    add_program(work, "data.txt", "text", 0o644)
    add_program(work, ".hidden", "#!/bin/sh\nexit 1\n")
    add_program(work, "lib/helper", "#!/bin/sh\nexit 1\n")
    done = run_init()
    told = [line for line in done.messages if line.startswith(("this is", "without"))]
    assert told == [
        f"this is 10-first.sh in {work}", f"this is 50-second in {work}", "without a mode", f"this is report in {work}",
    ]  # fmt: skip
    add_program(work, "60-fails", "#!/bin/sh\nexit 3\n")
    failed = run_init()
    assert (failed.code, failed.messages[-1]) == (1, "child process is 60-fails, exit code is 3")
    listed = run_init(INIT_CONFIG=spec({"command": "echo only this"}))
    assert "this is" not in listed.log.rpartition("INIT_CONFIG run")[2]


def test_a_program_that_does_not_exist(run_init: RunInit, work: Path) -> None:
    add_program(work, "10-broken", "#!/no/such/interpreter\n")
    done = run_init()
    assert done.code == 1
    assert "10-broken cannot be started: it does not exist, or the interpreter in its first line does not" in done.log


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "INIT_CONFIG:1:1: this is not a specification of the init phase; start with"),
        ("initPlugin: []", "INIT_CONFIG:1:1: initPlugin: there is no key 'initPlugin' here; did you mean"),
        ("other: []", "INIT_CONFIG:1:1: 'initPlugins' is missing"),
        ("initPlugins: 3", "INIT_CONFIG:1:14: initPlugins: this must be a list of plugins"),
        ("initPlugins:\n- x", "INIT_CONFIG:2:3: initPlugins[0]: a plugin must be a mapping"),
        ("initPlugins:\n- name: a", "INIT_CONFIG:2:3: initPlugins[0]: this plugin has no 'command'"),
        ("initPlugins:\n- {name: a, command: }", "INIT_CONFIG:2:22: initPlugins[0].command: this must be a text"),
        ("initPlugins:\n- {name: a, comand: x}", "there is no key 'comand' here; did you mean 'command'?"),
        ("initPlugins:\n- {name: a, command: x, args: y}", "initPlugins[0].args: this must be a list of texts"),
        ("initPlugins:\n- {name: a, command: x, args: [[]]}", "INIT_CONFIG:2:32: initPlugins[0].args[0]: an argument"),
        ("initPlugins:\n- {name: a, command: x, errors: 1}", "errors: this must be a list of mappings of exit codes"),
        (
            "initPlugins:\n- {name: a, command: x, errors: [{originErrorCode: 1, mappedErrorCode: 256}]}",
            "INIT_CONFIG:2:72: initPlugins[0].errors[0].mappedErrorCode: an exit code must be a whole number",
        ),
        ("initPlugins:\n- name: a\n   command: x", "INIT_CONFIG:3:11: a ':' is not allowed here"),
        ("initPlugins: - name: a command: b", "INIT_CONFIG is a single line; in the file of a pod, put it after"),
    ],
)  # fmt: skip
def test_a_wrong_specification_is_explained_with_its_place(run_init: RunInit, text: str, message: str) -> None:
    done = run_init(INIT_CONFIG=text)
    assert done.code == 1
    assert message in done.log
    assert done.messages[-1] == "child process is INIT_CONFIG, exit code is 1"


def test_a_repeated_name_is_a_warning(run_init: RunInit) -> None:
    done = run_init(INIT_CONFIG=spec({"name": "a", "command": "echo 1"}, {"name": "a", "command": "echo 2"}))
    assert done.code == 0
    assert "initPlugins[1].name: plugin 1 has the name 'a', too; both run" in done.log
    assert done.messages[-1] == "2"


def test_the_exit_specification_is_copied(run_init: RunInit, work: Path) -> None:
    (work / "config" / "runtime-exit-spec.yaml").write_text("- code: 3\n")
    assert run_init().code == 0
    assert (work / "runtime.d" / "runtime-exit-spec.yaml").read_text() == "- code: 3\n"
    (work / "runtime.d" / "runtime-exit-spec.yaml").unlink()
    (work / "runtime.d" / "runtime-exit-spec.yaml").mkdir()
    failed = run_init()
    assert (failed.code, failed.messages[-1]) == (1, "child process is ERROR_SPEC, exit code is 1")


def test_after_a_restart_of_the_container_earlier_logs_are_kept_apart(run_init: RunInit) -> None:
    logs = run_init().logs
    assert stat.S_IMODE(logs.stat().st_mode) == 0o777
    (logs / "user-stdout").mkdir()
    (logs / "runtime.log").write_text("before")
    run_init()
    (moved,) = logs.glob("prelog_*")
    assert {path.name for path in moved.iterdir()} == {"user-stdout", "runtime.log"}
    (logs / "runtime.log").write_text("again")
    done = run_init()
    assert len(list(logs.glob("prelog_*"))) == 2
    assert {path.name for path in logs.iterdir() if not path.name.startswith("prelog_")} == {"init.log"}
    assert done.log.count("the container was restarted; its earlier logs are in") == 2


def test_the_environment_is_shown_at_the_end(run_init: RunInit) -> None:
    done = run_init(INIT_CONFIG=spec({"command": "echo export A=1 > $PAI_RUNTIME_DIR/runtime_env.sh"}))
    assert done.messages[-1] == "export A=1"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_running_program_and_the_phase(work: Path, number: signal.Signals) -> None:
    command = "trap 'echo asked; exit 5' TERM; echo $$ > started; while :; do sleep 0.05; done"
    variables = environment(work, INIT_CONFIG=spec({"command": command}, {"command": "echo never"}))
    with subprocess.Popen([sys.executable, "-c", START], env=variables, stderr=subprocess.PIPE, text=True) as process:
        started = work / "init.d" / "started"
        wait_until(lambda: started.exists() and started.read_text().strip(), 20)
        process.send_signal(number)
        _, log = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert "asked" in log
    assert f"{number.name} ends the init phase" in log
    assert "never" not in log
    assert not os.path.exists(f"/proc/{started.read_text().strip()}")


def test_what_a_program_leaves_behind_does_not_delay_the_phase(run_init: RunInit, work: Path) -> None:
    done = run_init(INIT_CONFIG=spec({"command": "sleep 60 & echo $! > pid; echo done"}))
    os.kill(int((work / "init.d" / "pid").read_text()), signal.SIGKILL)
    assert (done.code, done.messages[-1]) == (0, "done")
