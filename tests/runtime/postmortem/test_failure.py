"""The results of a failed attempt: container code, termination message, diagnosis, evidence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import yaml

from kedge import contract
from kedge.contract import LogPolicy
from kedge.diagnose.rules import compiled_rules, source
from kedge.runtime.process import cgroup

PYTHON = sys.executable
SECRET = "correct-horse-battery"


def cause(attempt):
    return attempt.report["diagnosis"]["cause"]


def message(attempt):
    """The parsed termination message."""
    data = (attempt.folder / contract.TERMINATION_LOG).read_bytes()
    assert len(data) <= 4096
    return yaml.safe_load(data.decode().split("\n", 1)[1].rsplit("\n", 1)[0])


def check_quotes(attempt):
    """Every quoted line is at the place on disk that the report names."""
    quotes = attempt.report["diagnosis"]["evidence"]
    assert quotes
    for quote in quotes:
        lines = (attempt.folder / quote["file"]).read_text(errors="replace").split("\n")
        assert lines[quote["line"] - 1].strip()[:1000] == quote["text"]


def test_a_success_is_not_analysed(attempt):
    assert attempt.run("echo 'ImportError: no'") == 0
    assert (attempt.report["diagnosis"], attempt.report["evidence"]) == (None, None)
    assert not (attempt.folder / contract.TERMINATION_LOG).exists()


def test_a_missing_module(attempt):
    assert attempt.run(f"echo start; {PYTHON} -c 'import nope'") == 232
    assert attempt.report["exit_code"] == 232
    assert attempt.report["user_exit_code"] == 1
    assert cause(attempt) == "missing_module"
    check_quotes(attempt)
    told = message(attempt)
    assert (told["exitCode"], told["originUserExitCode"]) == (232, 1)
    assert told["matchedUserLogString"] == "ModuleNotFoundError: No module named 'nope'"
    assert told["errorLogs"]["user"].startswith("start\nTraceback")
    assert "User command failed with exit code 1" in told["errorLogs"]["platform"]


def test_the_last_event_has_the_cause_and_the_report_has_everything(attempt):
    attempt.run(f"{PYTHON} -c 'import nope'")
    last = attempt.events[-1]
    assert last["event"] == contract.FINISHED
    answer = {"cause": "missing_module", "behavior": "permanent", "confidence": "sure"}
    assert (last["exit_code"], last["diagnosis"], last["evidence"]) == (232, answer, None)
    assert answer.items() <= attempt.report["diagnosis"].items()
    assert attempt.report["diagnosis"]["remedy"]


@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        ("kill -SEGV $$", 139, "native_crash"),
        ("no-such-program-here", 220, "command_not_found"),
        ("exit 3", 255, "unknown"),
        ("echo 'Segmentation fault (core dumped)'; exit 1", 234, "native_crash"),
    ],
)
def test_other_ends(attempt, command, code, expected):
    assert attempt.run(command) == code
    assert cause(attempt) == expected
    assert message(attempt)["exitCode"] == code


def test_killed_by_an_unknown_sender(attempt):
    attempt.start("sleep 1000")
    os.killpg(attempt.wait_for_event(contract.RUNNING)["pid"], signal.SIGKILL)
    assert attempt.wait() == 137
    assert cause(attempt) == "sigkill_unattributed"
    told = message(attempt)
    assert (told["exitCode"], told["originUserExitCode"], "matchedUserLogString" in told) == (137, 137, False)


def test_stopped_by_kedge(attempt):
    attempt.start("echo 'ImportError: no'; touch ready; sleep 1000")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert (cause(attempt), attempt.report["killed"]) == ("stopped_by_kedge", False)


def test_a_stop_after_the_end_of_the_command_did_not_end_it(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("debug", taskFails="touch ready; sleep 1000"),))
    attempt.start("kill -KILL $$")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 137
    assert (attempt.report["stopped_by"], cause(attempt)) == ("TERM", "sigkill_unattributed")


def test_a_failed_hook_has_its_code_from_its_own_log(attempt, step):
    hook = "echo SSH barrier reaches max retry count; exit 10"
    attempt.spec = attempt.spec._replace(steps=(step("ssh", taskStarts=hook),))
    assert attempt.run("true") == 249
    assert message(attempt)["matchedPlatformLogString"] == "SSH barrier reaches max retry count"


@pytest.mark.parametrize("event", ["taskStarts", "taskSucceeds"])
def test_the_last_words_of_a_hook_are_quoted_where_no_rule_knows_them(attempt, step, event):
    steps = (
        step("talks", taskStarts="echo before", taskSucceeds="echo before"),
        step("fails", **{event: "echo the flux is out of phase; echo; exit 10", "taskFails": "echo after"}),
        step("talks too", taskStarts="echo before", taskSucceeds="echo before"),
    )
    attempt.spec = attempt.spec._replace(steps=steps)
    attempt.run("echo user")
    assert cause(attempt) == "unknown"
    (quote,) = attempt.report["diagnosis"]["evidence"]
    assert quote["text"].endswith("[openpai-runtime] the flux is out of phase")
    check_quotes(attempt)


def test_a_hook_that_says_nothing_is_not_blamed_for_the_words_of_another(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("talks", taskStarts="echo before"), step("fails", taskStarts="exit 10"))
    )
    attempt.run("true")
    assert (attempt.report["diagnosis"]["evidence"], attempt.report["diagnosis"]["last_words"]) == ([], [])


def test_a_command_that_could_not_start(attempt):
    attempt.spec = attempt.spec._replace(workdir="/nowhere")
    assert attempt.run("true") == 255
    told = message(attempt)
    assert (told["exitCode"], "originUserExitCode" in told) == (255, False)
    assert "/nowhere cannot be entered" in told["errorLogs"]["platform"]


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's")
def test_out_of_memory_in_a_control_group_of_its_own(attempt, small_group):
    enter = ("sh", "-c", f'echo $$ >{small_group}/cgroup.procs; exec "$@"', "sh")
    attempt.start(f"{PYTHON} -c 'x = b\"x\" * (256 << 20)'", prefix=enter)
    assert attempt.wait() == 137
    assert attempt.report["evidence"]["facts"]["oom_kills"] >= 1
    assert cause(attempt) == "host_oom_kill"


@pytest.fixture
def small_group(tmp_path):
    """A memory control group of 64 MiB below this process's."""
    own = cgroup.read_oom_kills()
    if own is None:
        pytest.skip("there is no memory control group")
    folder = f"{own.folder}/{tmp_path.name}-{os.getpid()}"
    try:
        os.mkdir(folder)
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        limits = [name for name in ("memory.limit_in_bytes", "memory.max") if os.path.exists(f"{folder}/{name}")]
        if not limits:
            pytest.skip("the control group has no memory controller")
        with open(f"{folder}/{limits[0]}", "w") as file:
            file.write(str(64 << 20))
        yield folder
    finally:
        os.rmdir(folder)


def test_kills_in_a_group_that_others_share_are_only_a_hint(attempt):
    attempt.run("exit 1")
    facts = attempt.report["evidence"]["facts"]
    assert "oom_kills" not in facts
    assert facts.get("oom_kills_shared", 0) >= 0


def test_free_space_and_time_are_evidence(attempt):
    attempt.run("echo epoch 3; exit 1")
    evidence, report = attempt.report["evidence"], attempt.report
    assert {"work_free_bytes", "tmp_free_bytes", "shm_free_bytes"} <= set(evidence["facts"])
    assert report["started"] < evidence["last_output"] < report["ended"]
    assert evidence["progress"] == {"epoch": 3}


def test_a_task_that_printed_nothing(attempt):
    attempt.run("exit 1")
    assert attempt.report["evidence"]["last_output"] is None
    assert set(message(attempt)["errorLogs"]) == {"platform"}


@pytest.mark.parametrize("rotated", [False, True])
def test_quoted_lines_are_those_of_the_files(attempt, rotated):
    if rotated:
        attempt.spec = attempt.spec._replace(logs=LogPolicy(file_bytes=8192, kept_files=4))
    lines = 3000 if rotated else 1_800_000  # more than the 10 MiB that are looked at
    attempt.run(f"seq {lines}; {PYTHON} -c 'import nope' 2>&1 || echo; seq {2500 if rotated else 100}; exit 1")
    assert cause(attempt) == "missing_module"
    check_quotes(attempt)
    (name,) = {quote["file"] for quote in attempt.report["diagnosis"]["evidence"]}
    assert (name == "user-all/current") != rotated


@pytest.mark.parametrize(
    "command",
    [
        "head -c 20000000 /dev/zero | tr '\\0' x",
        "head -c 20000000 /dev/zero",
        "head -c 3000000 /dev/urandom",
        "head -c 11000000 /dev/zero | tr '\\0' '\\n'",
        "printf '\\377\\376\\0\\033[31mImportError: \\351t\\351\\r\\nlast\\342'",
    ],
    ids=["one-line", "nuls", "noise", "newlines", "no-text"],
)
def test_hostile_output(attempt, command):
    attempt.run(f"{command}; exit 1")
    assert attempt.report["exit_code"] == message(attempt)["exitCode"]
    assert attempt.report["diagnosis"] is not None
    assert not any("analysis" in line for line in attempt.log)


def test_without_google_re2_the_exit_code_decides(attempt):
    assert attempt.run(f"{PYTHON} -c 'import nope'", "--site", "/nowhere") == 255
    assert attempt.report["diagnosis"] is None
    assert message(attempt)["exitCode"] == 255
    assert "google-re2 cannot be loaded" in attempt.log[-1]
    assert attempt.report["evidence"]["facts"]
    assert attempt.run("kill -SEGV $$", "--site", "/nowhere") == 139


def test_an_error_in_the_analysis_loses_neither_report_nor_code(attempt):
    broken = attempt.folder.parent / "rules.json"
    rule = ["short", "bad_config", "root", 1, "any", [], [], [], [["import nope", ["nope"], False]]]
    whole = compiled_rules.of([rule])
    broken.write_bytes(compiled_rules.text(whole._replace(rules=[b'["short"]'])))
    attempt.spec = attempt.spec._replace(rules=(str(broken),))
    assert attempt.run(f"{PYTHON} -c 'import nope'") == 232
    assert attempt.report["diagnosis"] is None
    assert message(attempt)["exitCode"] == 232
    assert "[WARNING] The analysis of the failure is not complete: it met a bug in kedge" in attempt.log
    assert any("TypeError" in line for line in attempt.log)


RULES = """
[site-licence]
cause = "permission_denied"
role = "root"
rank = 90
patterns = ["licence server of the site is gone"]
matches = ["licence server of the site is gone"]
rejects = ["licence server"]
"""


@pytest.mark.parametrize("form", ["source", "compiled"])
def test_rules_of_the_job(attempt, form):
    path = attempt.folder.parent / "site.toml"
    path.write_text(RULES)
    if form == "compiled":
        compiled = compiled_rules.of(source.rules(path, {"permission_denied"}))
        path = path.with_suffix(".json")
        path.write_bytes(compiled_rules.text(compiled))
    attempt.spec = attempt.spec._replace(rules=(str(path),))
    attempt.run("echo 'RuntimeError: licence server of the site is gone'; exit 1")
    assert attempt.report["diagnosis"]["rule"] == "site-licence"


def test_an_exit_specification_of_the_job(attempt):
    path = attempt.folder.parent / "spec.json"
    path.write_text(json.dumps([{"containerExitCode": 77, "patterns": [{"exitCode": 5, "userLogRegex": "b.d"}]}]))
    attempt.spec = attempt.spec._replace(exit_spec=str(path))
    assert attempt.run("echo bad; exit 5") == 77
    assert message(attempt)["matchedUserLogString"] == "bad"


@pytest.mark.parametrize("field", ["rules", "exit_spec"])
def test_files_of_the_job_that_cannot_be_used_are_named(attempt, field):
    attempt.spec = attempt.spec._replace(**{field: ("/nowhere.json",) if field == "rules" else "/nowhere.json"})
    assert attempt.run(f"{PYTHON} -c 'import nope'") == 232
    assert cause(attempt) == "missing_module"
    assert any("[WARNING]" in line and "nowhere.json" in line for line in attempt.log)


def test_torchelastics_error_file_is_evidence(attempt):
    stack = 'Traceback (most recent call last):\\n  File \\"t.py\\", line 8, in f\\nKeyError: 7\\n'
    content = '{"message": {"message": "KeyError: 7", "extraInfo": {"py_callstack": "' + stack + '"}}}'
    attempt.run(f"echo '{content}' >$TORCHELASTIC_ERROR_FILE; exit 1")
    assert attempt.report["diagnosis"]["evidence"][0]["text"] == "KeyError: 7"
    assert (attempt.folder / contract.ERROR_FILE).exists()


def test_the_error_file_may_be_the_users_choice(attempt, tmp_path):
    attempt.spec = attempt.spec._replace(env={"TORCHELASTIC_ERROR_FILE": (str(tmp_path / "error"),)})
    attempt.run("""echo '{"message": "KeyError: 7"}' >$TORCHELASTIC_ERROR_FILE; exit 1""")
    assert attempt.report["diagnosis"]["evidence"][0]["text"] == "KeyError: 7"
    assert (tmp_path / "error").exists()


@pytest.mark.parametrize("kind", ["old", "fifo", "text"])
def test_an_error_file_that_is_none_is_ignored(attempt, tmp_path, kind):
    path = tmp_path / "error"
    path.write_text('{"message": "KeyError: 7"}' if kind == "old" else "KeyError: 7")
    attempt.spec = attempt.spec._replace(environment={"TORCHELASTIC_ERROR_FILE": str(path)})
    touch = {"old": "true", "fifo": f"rm {path}; mkfifo {path}", "text": f"touch {path}"}[kind]
    if kind == "old":
        os.utime(path, (1, 1))
    attempt.run(f"{touch}; exit 1")
    assert cause(attempt) == "unknown"
    assert not any("analysis" in line for line in attempt.log)


def test_secrets_are_in_nothing_that_is_reported(attempt, tmp_path):
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / contract.SECRET_VALUES).write_text(json.dumps({"token": SECRET}))
    attempt.spec = attempt.spec._replace(secrets_dir=str(folder))
    error = '{"message": "ValueError: bad token ' + SECRET + '"}'
    attempt.run(f"echo 'ImportError: {SECRET}'; echo '{error}' >$TORCHELASTIC_ERROR_FILE; exit 1")
    assert message(attempt)["matchedUserLogString"] == "ImportError: ******"
    for name in (contract.REPORT_FILE, contract.EVENTS_FILE, contract.RUNTIME_LOG, contract.TERMINATION_LOG):
        assert SECRET not in (attempt.folder / name).read_text()
    assert not (attempt.folder / contract.ERROR_FILE).exists()


def test_a_second_start_in_the_same_folder_is_judged_by_its_own_output(attempt):
    attempt.run(f"{PYTHON} -c 'import nope'")
    assert attempt.run("exit 3") == 255
    assert cause(attempt) == "unknown"
    assert attempt.run("true") == 0
    assert not (attempt.folder / contract.TERMINATION_LOG).exists()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="mounting needs root and unshare")
def test_in_a_container_the_message_goes_where_it_is_mounted(attempt, tmp_path):
    target = tmp_path / "message"
    target.write_text("x" * 5000)
    mounted = "touch /tmp/pai-termination-log && mount --bind " + str(target) + ' /tmp/pai-termination-log && exec "$@"'
    prefix = ("unshare", "-m", "sh", "-c", mounted, "sh")
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("mount is not allowed here")
    attempt.spec = attempt.spec._replace(logs=LogPolicy(console=True))
    attempt.start("exit 3", prefix=prefix, stderr=subprocess.DEVNULL)
    assert attempt.wait() == 255
    assert target.read_bytes() == (attempt.folder / contract.TERMINATION_LOG).read_bytes()
    assert message(attempt)["originUserExitCode"] == 3
