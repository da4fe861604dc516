"""How attempts end: codes, reasons, reports, events, markers."""

from __future__ import annotations

import json
import os
import re

import pytest

from kedge import contract
from kedge.runtime import outcome

MARKERS = [
    "[INFO] Starting to exec precommands",
    "[INFO] Precommands finished",
    "[INFO] USER COMMAND START",
]


def test_a_command_that_succeeds(attempt):
    assert attempt.run("true") == 0
    assert attempt.log == [*MARKERS, "[INFO] USER COMMAND END"]
    assert attempt.report["reason"] == contract.SUCCEEDED
    assert attempt.report["user_exit_code"] == attempt.report["exit_code"] == 0


def test_a_command_that_fails(attempt):
    assert attempt.run("exit 3") == 255
    assert attempt.log == [*MARKERS, "[INFO] User command failed with exit code 3"]
    report = attempt.report
    assert (report["reason"], report["user_exit_code"], report["exit_code"]) == (contract.COMMAND_FAILED, 3, 255)
    assert (report["task"], report["stopped_by"], report["killed"]) == ("worker:0", None, False)


def test_the_lines_of_runtime_log_carry_the_date_in_the_c_locale(attempt):
    attempt.run("true", env={**os.environ, "LC_ALL": "de_DE.UTF-8", "TZ": "UTC"})
    lines = (attempt.folder / contract.RUNTIME_LOG).read_text().splitlines()
    date = r"\[(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [JFMASOND][a-z]{2} [ 123]\d \d\d:\d\d:\d\d UTC 20\d\d\]"
    assert all(re.match(date + r" \[openpai-runtime\] \[", line) for line in lines)


@pytest.mark.parametrize(("number", "code"), [("SEGV", 139), ("KILL", 137), ("HUP", 255), ("PIPE", 141), ("XFSZ", 255)])
def test_death_by_a_signal(attempt, number, code):
    assert attempt.run(f"kill -{number} $$") == code
    report = attempt.report
    assert report["reason"] == contract.COMMAND_KILLED
    assert number in report["message"]
    (exited,) = [event for event in attempt.events if event["event"] == contract.EXITED]
    assert exited["signal"] == number
    assert exited["code"] == report["user_exit_code"] > 128


def test_every_exit_code_and_signal_has_its_outcome():
    for code in range(1, 256):
        result = outcome.of_command(code << 8)
        assert (result.reason, result.user_code) == (contract.COMMAND_FAILED, code)
        assert result.exit_code == (code if code in contract.SIGNAL_CODES else 255)
    for number in range(1, 65):
        result = outcome.of_command(number)
        assert (result.reason, result.user_code) == (contract.COMMAND_KILLED, 128 + number)


@pytest.mark.parametrize(("script", "code"), [("false; echo on", 1), ("echo $NOT_SET", 1), ("false | true", 1)])
def test_commands_run_with_errexit_nounset_and_pipefail(attempt, script, code):
    attempt.run(script)
    assert attempt.report["user_exit_code"] == code
    assert attempt.stream("user-stdout") == b""


def test_events_are_complete_and_end_with_the_report(attempt):
    attempt.run("true")
    events = attempt.events
    assert [event["event"] for event in events] == ["starting", "running", "exited", "finished"]
    assert {event["task"] for event in events} == {"worker:0"}
    assert events[0]["pid"] == attempt.process.pid
    assert events[1]["shell"].endswith("bash")
    assert attempt.report.items() <= events[-1].items()
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)


def test_events_are_copied_to_the_status_pipe(attempt):
    reader, writer = os.pipe2(os.O_NONBLOCK)
    attempt.run("true", "--status", str(writer), pass_fds=[writer])
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert pipe.read() == (attempt.folder / contract.EVENTS_FILE).read_bytes()


@pytest.mark.parametrize("case", ["full", "closed"])
def test_a_status_pipe_that_takes_nothing_is_ignored(attempt, case):
    reader, writer = os.pipe2(os.O_NONBLOCK)
    if case == "full":
        assert os.write(writer, b"x" * (1 << 20)) < 1 << 20
    else:
        os.close(reader)
    assert attempt.run("true", "--status", str(writer), pass_fds=[writer]) == 0
    os.close(writer)
    if case == "full":
        os.close(reader)
    assert attempt.events[-1]["event"] == "finished"


def test_a_long_message_does_not_make_a_long_event(attempt):
    attempt.spec = attempt.spec._replace(workdir="/nowhere/" + "ä" * 2000)
    attempt.run("true")
    lines = (attempt.folder / contract.EVENTS_FILE).read_bytes().splitlines(keepends=True)
    assert max(map(len, lines)) <= 4096
    assert "…" in json.loads(lines[-1])["message"]
    assert "ä" * 2000 in attempt.report["message"]


def test_an_unforeseen_error_is_a_bug_with_a_traceback_in_the_log_only(attempt, capfd):
    attempt.spec = attempt.spec._replace(ports={"http": 80})  # not a list
    assert attempt.run("true") == 1
    assert attempt.report["reason"] == contract.RUNTIME_ERROR
    assert "bug in kedge" in attempt.report["message"]
    assert any("Traceback" in line for line in attempt.log)
    assert capfd.readouterr() == ("", "")
