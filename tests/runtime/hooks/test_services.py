"""Services: programs that a start hook starts and that run beside the command."""

from __future__ import annotations

import os
import signal

import pytest

from kedge import contract
from kedge.contract import Action, Callback, Retry, Step
from kedge.testing.wait import wait_until

WAITS = "while :; do sleep 0.05; done"


def service(script: str, name: str = "side", policy: str = "fail") -> Step:
    return Step(name, (Callback(contract.TASK_STARTS, (script,), service=name),), policy)


def service_events(attempt):
    events = (contract.SERVICE_STARTED, contract.SERVICE_ENDED)
    return [(event["event"], event["name"]) for event in attempt.events if event["event"] in events]


def test_a_service_runs_beside_the_command_and_ends_after_the_exit_hooks(attempt, step, alive):
    script = f"echo $$ > side.pid; trap 'echo bye; exit 0' TERM; echo hello; {WAITS}"
    last = step("last", containerExit="kill -0 $(cat side.pid) && echo it still runs")
    attempt.spec = attempt.spec._replace(steps=(last, service(script)))
    assert attempt.run("until [ -s side.pid ]; do sleep 0.02; done; kill -0 $(cat side.pid)") == 0
    log = attempt.log
    assert "[side] hello" in log
    assert log.index("it still runs") < log.index("[side] bye")
    assert not any("left running" in line for line in log), "a service is not left over"
    assert service_events(attempt) == [("service-started", "side"), ("service-ended", "side")]
    ended = attempt.events[-2]
    assert (ended["event"], ended["code"], ended["task_over"]) == (contract.SERVICE_ENDED, 0, True)
    assert not alive(int((attempt.folder / "work/side.pid").read_text()))


def test_the_death_of_a_service_is_an_event_and_not_the_tasks_failure(attempt):
    attempt.spec = attempt.spec._replace(steps=(service("echo oh; echo '[side] named'; exit 3"),))
    attempt.start("until [ -e go ]; do sleep 0.02; done; echo done")
    ended = attempt.wait_for_event(contract.SERVICE_ENDED)
    assert (ended["name"], ended["code"], ended["signal"], ended["task_over"]) == ("side", 3, None, False)
    (attempt.folder / "work/go").touch()
    assert attempt.wait() == 0
    at = attempt.log.index("[WARNING] The service side exited with code 3; the task goes on without it")
    assert "[side] oh" in attempt.log[:at]
    assert "[side] named" in attempt.log[:at]


def test_a_service_that_ignores_term_is_killed_with_all_its_processes(attempt, alive):
    script = f"trap '' TERM; (echo $(sh -c 'echo $PPID') > child.pid; {WAITS}) & {WAITS}"
    attempt.spec = attempt.spec._replace(steps=(service(script),))
    assert attempt.run("until [ -s child.pid ]; do sleep 0.02; done") == 0
    ended = attempt.events[-2]
    assert (ended["event"], ended["signal"]) == (contract.SERVICE_ENDED, "KILL")
    assert not alive(int((attempt.folder / "work/child.pid").read_text()))
    assert attempt.report["killed"] is False


def test_a_daemon_that_a_service_leaves_behind_ends_with_the_task(attempt, alive):
    attempt.spec = attempt.spec._replace(steps=(service("setsid sh -c 'echo $$ > d.pid; exec sleep 1000' & exit 0"),))
    assert attempt.run("until [ -s d.pid ]; do sleep 0.02; done; kill -0 $(cat d.pid)") == 0
    assert not alive(int((attempt.folder / "work/d.pid").read_text()))


def test_after_a_stop_a_service_lives_until_the_exit_hooks_are_done(attempt, step):
    last = step("last", taskFails="kill -0 $(cat side.pid) && echo it still runs")
    attempt.spec = attempt.spec._replace(steps=(last, service(f"echo $$ > side.pid; {WAITS}")))
    attempt.start("trap 'exit 3' TERM; touch ready; while :; do sleep 0.05; done")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    attempt.wait()
    assert attempt.report["user_exit_code"] == 3
    assert "it still runs" in attempt.log


def test_a_stubborn_service_does_not_use_up_the_grace_period(attempt):
    attempt.spec = attempt.spec._replace(
        steps=(service(f"trap '' TERM; {WAITS}"),), stop=contract.StopPolicy("TERM", 1000.0)
    )
    attempt.start("touch ready; sleep 1000")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    attempt.wait()
    assert attempt.report["stopped_by"] == "TERM"
    assert not attempt.report["killed"]


def test_a_flood_of_output_is_cut(attempt):
    flood = f"touch flooding; while :; do echo {'x' * 2000}; done"
    attempt.spec = attempt.spec._replace(steps=(service(flood),))
    log = attempt.folder / contract.RUNTIME_LOG
    attempt.start("until [ -e go ]; do sleep 0.02; done")
    wait_until(lambda: log.exists() and b"the rest is not kept" in log.read_bytes()[-4096:])
    size = log.stat().st_size
    (attempt.folder / "work/go").touch()
    assert attempt.wait() == 0
    assert size < 16 << 20
    assert log.stat().st_size < size + 10_000


def test_secrets_in_a_services_output_are_masked(attempt, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / contract.SECRET_VALUES).write_text('{"token": "a secret value"}')
    text = ("echo ", contract.SecretRef("token", "<% $secrets.token %>"), "; touch printed")
    step = Step("side", (Callback(contract.TASK_STARTS, text, service="side"),))
    attempt.spec = attempt.spec._replace(steps=(step,), secrets_dir=str(secrets))
    assert attempt.run("until [ -e printed ]; do sleep 0.02; done") == 0
    lines = [line for line in attempt.log if line.startswith("[side] ")]
    assert lines
    assert not any("a secret value" in line for line in attempt.log)


GIT = Action("git", {"repo_uri": "/nothing/here", "clone_dir": "code"})


@pytest.mark.parametrize(("policy", "code"), [("fail", 1), ("ignore", 0)])
def test_an_action_that_ends_before_it_is_ready_is_a_failed_hook(attempt, policy, code):
    attempt.spec = attempt.spec._replace(
        steps=(Step("side", (Callback(contract.TASK_STARTS, action=GIT, service="side"),), policy),)
    )
    assert bool(attempt.run("touch ran")) == bool(code)
    (failed,) = attempt.report["hooks"]
    assert (failed["step"], failed["policy"]) == ("side", policy)
    assert (attempt.folder / "work/ran").exists() == (policy == "ignore")
    assert service_events(attempt) == []


def test_an_action_that_is_not_ready_in_time_is_ended(attempt, web):
    web.hang_after = 0
    action = Action("download", {"uri": f"{web.url}/x", "path": "x"})
    callback = Callback(contract.TASK_STARTS, action=action, service="side")
    attempt.spec = attempt.spec._replace(steps=(Step("side", (callback,), timeout_sec=0.5),))
    attempt.run("true")
    assert attempt.report["reason"] == contract.HOOK_FAILED
    assert "the service side was not ready within 0.5 seconds" in attempt.report["message"]
    assert attempt.report["hooks"][0]["code"] == contract.SHELL_TIMED_OUT


def test_a_stop_while_a_service_starts(attempt, web):
    web.hang_after = 0
    action = Action("download", {"uri": f"{web.url}/x", "path": "x"})
    callback = Callback(contract.TASK_STARTS, action=action, service="side")
    attempt.spec = attempt.spec._replace(steps=(Step("side", (callback,)),))
    attempt.start("touch ran")
    wait_until(lambda: web.requests, 60)
    attempt.signal(signal.SIGTERM)
    attempt.wait()
    assert attempt.report["stopped_by"] == "TERM"
    assert not (attempt.folder / "work/ran").exists()


def test_a_retried_hook_starts_its_service_anew(attempt):
    count = "echo x >> tries; [ $(wc -l < tries) = 2 ]"
    callbacks = (
        Callback(contract.TASK_STARTS, (f"echo $$ >> pids; {WAITS}",), service="side"),
        Callback(contract.TASK_STARTS, (f"until [ -s pids ]; do sleep 0.02; done; {count}",)),
    )
    attempt.spec = attempt.spec._replace(steps=(Step("side", callbacks, retry=Retry(1)),))
    assert attempt.run("until [ $(wc -l < pids) = 2 ]; do sleep 0.02; done; ! kill -0 $(head -n 1 pids)") == 0
    names = [event for event, _ in service_events(attempt)]
    assert names == ["service-started", "service-ended", "service-started", "service-ended"]


def test_a_hook_that_times_out_leaves_services_alone(attempt):
    slow = Step("slow", (Callback(contract.TASK_STARTS, ("sleep 1000",)),), "ignore", timeout_sec=0.3)
    forks = "while :; do sh -c 'sleep 0.05'; done"
    attempt.spec = attempt.spec._replace(steps=(service(f"echo $$ > side.pid; {forks}"), slow))
    assert attempt.run("kill -0 $(cat side.pid)") == 0


def test_a_service_outlives_the_supervisors_signals_of_the_command(attempt):
    """Signals that are passed on reach only the command."""
    attempt.spec = attempt.spec._replace(steps=(service(f"echo $$ > side.pid; {WAITS}"),))
    attempt.start("trap 'kill -0 $(cat side.pid); exit $?' USR1; touch ready; while :; do sleep 0.05; done")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGUSR1)
    assert attempt.wait() == 0


def test_the_spec_of_a_service_is_kept_as_json(attempt):
    attempt.spec = attempt.spec._replace(steps=(service("true"),))
    assert contract.TaskSpec.from_json(attempt.spec.to_json()) == attempt.spec
    assert os.path.exists(attempt.launcher)
