"""Tries of hooks, their time limits, and the report of failed hooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kedge import contract
from kedge.contract import Callback, Retry, SecretRef, Step
from kedge.testing.wait import wait_until

COUNT = 'echo x >> tries; [ "$(wc -l < tries)" -ge {} ]'


CHECK = """kill -0 $(cat daemon)
for pid in $(cat pids); do
  ! kill -0 $pid 2>/dev/null || exit 9
done
echo the daemon lives"""


def tried(attempt):
    return len((Path(attempt.spec.workdir) / "tries").read_text().splitlines())


def test_a_hook_that_succeeds_at_the_third_try(attempt, step):
    item = step("item", taskStarts=COUNT.format(3) + "; export A=1")._replace(retry=Retry(4))
    attempt.spec = attempt.spec._replace(steps=(item,))
    assert attempt.run('[ "$A" = 1 ]') == 0
    assert tried(attempt) == 3
    assert "[INFO] hook of item: try 2 of 5" in attempt.log
    assert "[INFO] hook of item: try 3 of 5" in attempt.log
    assert attempt.report["hooks"] is None


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_a_hook_that_never_succeeds(attempt, step, policy):
    item = step("item", policy, taskStarts="echo x >> tries\nwget-it  --from   here")._replace(retry=Retry(2, 0.01))
    attempt.spec = attempt.spec._replace(steps=(item,))
    assert attempt.run("true") == (255 if policy == "fail" else 0)
    assert tried(attempt) == 3
    assert attempt.report["hooks"] == [
        {"step": "item", "event": "taskStarts", "command": "wget-it  --from   here", "tries": 3, "code": 127,
         "policy": policy}
    ]  # fmt: skip
    assert "[INFO] hook of item: try 3 of 3 in 0.01 seconds" in attempt.log
    failed = "exited with code 127 in: wget-it  --from   here"
    told = [e for e in attempt.events if e["event"] == contract.HOOK_RETRYING]
    assert [(e["step"], e["message"], e["next_try"], e["tries"], e["delay_sec"]) for e in told] == [
        ("item", failed, number, 3, 0.01) for number in (2, 3)
    ]
    said = f"a hook of item {failed} (after 3 tries)"
    assert any(said in line for line in attempt.log)
    if policy == "fail":
        assert attempt.report["message"] == said
        assert attempt.report["user_exit_code"] == 127
    finished = attempt.events[-1]
    assert finished["event"] == contract.FINISHED
    assert finished["hooks"] is None


@pytest.mark.parametrize("ignores_term", [False, True])
def test_a_try_that_takes_too_long_is_ended_with_all_its_processes(attempt, step, alive, ignores_term):
    trap = "trap '' TERM; " if ignores_term else ""
    script = f"{trap}setsid sleep 1000 & echo $! >> pids; sleep 1000"
    daemon = step("daemon", taskStarts="sleep 1000 & echo $! > daemon")
    item = step("item", taskStarts=script)._replace(timeout_sec=3.0, retry=Retry(1))
    daemon = daemon._replace(callbacks=(*daemon.callbacks, Callback("containerExit", (CHECK,))))
    attempt.spec = attempt.spec._replace(steps=(daemon, item), stop=contract.StopPolicy("TERM", 0.3))
    assert attempt.run("true") == 255
    (hook,) = attempt.report["hooks"]
    assert (hook["step"], hook["code"], hook["tries"]) == ("item", 124, 2)
    assert "did not end within 3 seconds" in attempt.report["message"]
    pids = [int(pid) for pid in (Path(attempt.spec.workdir) / "pids").read_text().split()]
    assert len(pids) == 2
    assert not [pid for pid in pids if alive(pid)]
    assert "the daemon lives" in attempt.log
    assert attempt.report["stopped_by"] is None


def test_a_stop_ends_the_wait_for_the_next_try(attempt, step):
    item = step("item", taskStarts="exit 3")._replace(retry=Retry(5, 1000.0))
    attempt.spec = attempt.spec._replace(steps=(item,))
    attempt.start("true")
    wait_until(lambda: any("try 2 of 6" in line for line in attempt.log))
    attempt.signal(15)
    assert attempt.wait() == 255
    assert attempt.report["hooks"][0]["tries"] == 1
    assert attempt.report["stopped_by"] == "TERM"


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("echo fine\nfalse\necho never", "false"),
        ("f() {\n  cat   /no/such/file\n}\nf", "cat   /no/such/file"),
        ("exit 7", "exit 7"),
        ("echo a | grep b", "echo a | grep b"),
        ("cd /no/such/folder && true\ncat >/no/x/y", "cat >/no/x/y"),
        ("echo a\n( exit 3 )\necho b", "( exit 3 )"),
        ("echo a; cat <<E >/no/x\nb\nE\n", "echo a; cat <<E >/no/x"),
        ("echo a\nif true; then\n  false\nfi", "false"),
    ],
)
def test_the_command_that_failed_is_named_as_it_was_written(attempt, step, script, command):
    attempt.spec = attempt.spec._replace(steps=(step("item", taskStarts=script),))
    attempt.run("true")
    assert attempt.report["hooks"][0]["command"] == command


def test_a_secret_in_the_failed_command_is_shown_as_its_tag(attempt, tmp_path):
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / contract.SECRET_VALUES).write_text(json.dumps({"pin": "42", "token": "long>enough value"}))
    pin, token = SecretRef("pin", "<% $secrets.pin %>"), SecretRef("token", "<% $secrets.token %>")
    script = ("no-such-tool --pin=", pin, " '", token, "'")
    attempt.spec = attempt.spec._replace(
        secrets_dir=str(folder), steps=(Step("item", (Callback("taskStarts", script),)),)
    )
    attempt.run("true")
    shown = "no-such-tool --pin=<% $secrets.pin %> '<% $secrets.token %>'"
    assert attempt.report["hooks"][0]["command"] == shown
    assert "long>enough" not in (attempt.folder / contract.REPORT_FILE).read_text()


def test_a_failed_exit_hook_is_reported_beside_the_commands_own_failure(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("item", taskFails="exit 5", containerExit="exit 6"),))
    attempt.run("exit 3")
    assert attempt.report["user_exit_code"] == 3
    told = [(hook["event"], hook["code"]) for hook in attempt.report["hooks"]]
    assert told == [("taskFails", 5), ("containerExit", 6)]
