"""The steps of a job attempt, with a stand-in for srun that says what the real one says."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.base import Task
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.slurm.in_allocation import step_record
from kedge.engines.slurm.in_allocation.node_question import NodeFacts
from kedge.engines.slurm.in_allocation.steps import SlurmSteps, StepEnding
from kedge.errors import CannotRun, DiskFull
from kedge.runs.cluster_files import ClusterFiles
from kedge.testing.wait import wait_until

SRUN = """\
import os, signal, sys, time
orders, told = sys.stdin.read(), sys.argv[1]
open(told + ".orders", "w").write(orders)
print("srun: launching StepId=7.0 on host n1, 2 tasks: [0-1]", file=sys.stderr, flush=True)
open(told, "w").close()
exec(sys.argv[2])
"""
WAITS = "time.sleep(60)"


class OnePlan:
    """As much of a plan as the steps look at."""

    def __init__(self, **roles: int) -> None:
        self.roles = [OneRole(name, instances) for name, instances in roles.items()]

    def role(self, name: str) -> Any:
        return next(role for role in self.roles if role.name == name)


class OneRole:
    def __init__(self, name: str, instances: int) -> None:
        self.name, self.instances = name, instances


class Rig:
    def __init__(self, folder: Path) -> None:
        self.files = ClusterFiles(folder)
        self.files.make()
        self.program = WAITS
        self.plan: Any = OnePlan(worker=2)
        self.cancelled: list[str] = []
        self.ended: list[tuple[int, str, str, Mapping[int, str]]] = []
        self.said: list[str] = []
        self.made: list[SlurmSteps] = []

    def steps(self) -> SlurmSteps:
        ending = StepEnding(self.cancelled.append, lambda *facts: self.ended.append(facts), self.said.append)
        made = SlurmSteps(self.plan, self.files, self.line, self.orders, ending)
        self.made.append(made)
        return made

    def line(self, attempt: int, role: str, without: Collection[str]) -> Sequence[str]:
        return (sys.executable, "-c", SRUN, str(self.told(attempt, role)), self.program)

    def told(self, attempt: int, role: str) -> Path:
        return self.files.folder / f"started-{attempt}-{role}"

    def orders(self, attempt: int, role: str, tokens: Sequence[str]) -> bytes:
        return f"{attempt} {role} {' '.join(tokens)}\n".encode()

    def tokens(self) -> dict[str, list[str]]:
        return {role.name: [f"t{n}" for n in range(role.instances)] for role in self.plan.roles}

    def launch(self, program: str = WAITS) -> SlurmSteps:
        self.program = program
        steps = self.steps()
        steps.launch(0, self.tokens())
        for role in self.plan.roles:
            wait_until(self.told(0, role.name).exists)
        return steps


def collect(steps: SlurmSteps, done: Callable[[list[Gone]], Any], seconds: float = 20.0) -> list[Gone]:
    """What `poll` says until it is enough; waits as the controller's loop does, but looks more often."""
    found: list[Gone] = []
    end = time.monotonic() + seconds
    poller = select.poll()
    poller.register(steps.fileno(), select.POLLIN)
    while not done(found):
        assert time.monotonic() < end, found
        poller.poll(min(100, max(0, 1000 * (steps.due - time.monotonic()))))
        found += steps.poll()
    return found


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "cluster")
    yield made
    for steps in made.made:
        for step in steps.running:
            step.signal(signal.SIGKILL)


def test_tasks_have_the_limit_of_open_files_that_the_user_has(rig: Rig, tmp_path: Path) -> None:
    """The controller raises its own one, and Slurm hands on that of srun."""
    rig.program = f"import resource; open({str(tmp_path)!r} + '/limit', 'w').write(ascii(resource.getrlimit(7)))"
    steps = rig.steps()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    steps.open_files = 77
    steps.launch(0, rig.tokens())
    collect(steps, bool)
    assert (tmp_path / "limit").read_text() == ascii((77, hard))


def test_its_tasks_get_their_orders_on_stdin(rig: Rig) -> None:
    rig.launch()
    assert Path(f"{rig.told(0, 'worker')}.orders").read_text() == "0 worker t0 t1\n"
    assert not [path for path in rig.files.folder.glob("step-*") if b"t0" in path.read_bytes()]


def test_where_a_task_is(rig: Rig) -> None:
    steps = rig.launch()
    collect(steps, lambda found: "node n1" in steps.whereabouts(Task("worker", 0)))
    assert "step-0-worker.log" in steps.whereabouts(Task("worker", 1))


def test_a_task_that_ends_alone(rig: Rig) -> None:
    say = "print('srun: error: n1: task 1: Exited with exit code 4', file=sys.stderr, flush=True)"
    steps = rig.launch(f"{say}; {WAITS}")
    (gone,) = collect(steps, bool)
    assert gone[:3] == (Task("worker", 1), 0, GoneKind.ENDED)
    assert gone.code == 4
    assert steps.running


def test_a_task_whose_program_is_not_on_its_node(rig: Rig) -> None:
    say = (
        "print('slurmstepd-n1: error: execve(): apptainer: No such file or directory\\n"
        "srun: error: n1: tasks 0-1: Exited with exit code 2', file=sys.stderr, flush=True)"
    )
    gone = collect(rig.launch(f"{say}; {WAITS}"), lambda found: len(found) == 2)
    assert {each.reason for each in gone} == {GoneKind.NOT_STARTED}
    assert gone[0].text == "apptainer: No such file or directory (on its node)"


def test_all_tasks_have_gone_with_their_srun(rig: Rig) -> None:
    steps = rig.launch("sys.exit(5)")
    found = collect(steps, lambda found: len(found) == 2)
    assert {gone.task for gone in found} == {Task("worker", 0), Task("worker", 1)}
    assert {gone.text for gone in found} == {"the srun of worker ended with exit code 5"}
    assert not steps.running


def test_each_task_has_gone_once(rig: Rig) -> None:
    say = "print('srun: error: n1: task 1: Killed', file=sys.stderr, flush=True)"
    steps = rig.launch(f"{say}; time.sleep(0.1); sys.exit(137)")
    found = collect(steps, lambda found: not steps.running)
    assert sorted(gone.task.task_index for gone in found) == [0, 1]


def test_an_srun_that_cannot_start_its_step(rig: Rig) -> None:
    rig.plan = OnePlan(worker=3)
    why = "Unable to create step for job 7: Memory required by task is not available"
    steps = rig.launch(f"print('srun: error: {why}', file=sys.stderr); sys.exit(1)")
    found = collect(steps, lambda found: len(found) == 3)
    # Two tasks were launched, as the stand-in says for any role, and the third of `worker` was not.
    assert [gone.text for gone in found if gone.reason == GoneKind.NOT_STARTED] == [why]


def test_a_log_that_many_agents_have_written_to(rig: Rig) -> None:
    """A controller that takes over reads all of it."""
    say = (
        "os.ftruncate(2, 80 << 20); "  # as if they had written as much
        "print('\\nsrun: error: n1: task 1: Killed', file=sys.stderr, flush=True)"
    )
    (gone,) = collect(rig.launch(f"{say}; {WAITS}"), bool)
    assert (gone.task, gone.code) == (Task("worker", 1), -signal.SIGKILL)


def test_a_killed_task_ends_alone(rig: Rig) -> None:
    steps = rig.launch()
    steps.kill(Task("worker", 1))
    assert steps.due == 0.0
    steps.poll()
    assert rig.ended == [(0, "worker", "7.0", {1: "n1"})]
    assert (rig.cancelled, rig.said) == ([], [])
    steps.kill(Task("worker", 1))  # that has not helped
    steps.poll()
    assert len(rig.ended) == 1
    assert rig.cancelled == ["7.0"]
    assert rig.said == ["worker:1 could not be killed alone, so all tasks of worker are killed"]


def test_a_task_that_has_gone_is_not_killed(rig: Rig) -> None:
    say = "print('srun: error: n1: task 1: Killed', file=sys.stderr, flush=True)"
    steps = rig.launch(f"{say}; {WAITS}")
    collect(steps, bool)
    steps.kill(Task("worker", 1))
    steps.poll()
    assert (rig.cancelled, rig.ended) == ([], [])


def test_when_all_tasks_are_killed_their_step_ends(rig: Rig) -> None:
    steps = rig.launch()
    steps.kill(Task("worker", 0))
    steps.kill(Task("worker", 1))
    steps.poll()
    assert (rig.ended, rig.said) == ([], [])
    assert rig.cancelled == ["7.0"]
    steps.running[0].signal(signal.SIGTERM)  # what scancel brings about
    found = collect(steps, lambda found: len(found) == 2)
    assert {gone.text for gone in found} == {"the srun of worker was killed by signal 15"}


def test_another_controller_finds_its_steps(rig: Rig) -> None:
    first = rig.launch()
    second = rig.steps()
    second.adopt(0, rig.tokens())
    (step,) = second.running
    assert step.record.process == first.running[0].record.process
    assert not second.poll()
    step.signal(signal.SIGKILL)
    found = collect(second, lambda found: len(found) == 2)
    assert {gone.reason for gone in found} == {GoneKind.ENDED}


def test_another_controller_finds_what_has_gone(rig: Rig) -> None:
    first = rig.launch("sys.exit(0)")
    collect(first, lambda found: not first.running)
    second = rig.steps()
    second.adopt(0, rig.tokens())
    assert len(collect(second, lambda found: len(found) == 2)) == 2
    assert not second.running


def test_another_controller_starts_what_was_never_started(rig: Rig) -> None:
    first = rig.launch()
    rig.plan = OnePlan(worker=2, server=1)
    second = rig.steps()
    second.adopt(0, rig.tokens())
    wait_until(rig.told(0, "server").exists)
    assert {step.role for step in second.running} == {"worker", "server"}
    assert len(first.running) == 1


@pytest.mark.parametrize("when", ["before", "recorded", "open"])
def test_no_srun_starts_twice_whenever_its_controller_is_killed(rig: Rig, when: str) -> None:
    """The controller is killed before it has recorded the process, after that, or when its gate is open."""
    starts = rig.files.folder / "starts"
    rig.program = f"open({str(starts)!r}, 'a').write('once '); {WAITS}"
    pid = os.fork()
    if pid == 0:
        _launch_and_die(rig, when)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    second = rig.steps()
    second.adopt(0, rig.tokens())
    assert collect(second, lambda found: rig.told(0, "worker").exists() and starts.exists()) == []
    # The gate's process has ended by itself, and nothing else runs beside the one step.
    told = os.fsencode(rig.told(0, "worker"))
    wait_until(lambda: len(_processes_with(told)) == 1)
    assert [step.record.process.pid for step in second.running] == _processes_with(told)
    assert starts.read_text() == "once "


def _launch_and_die(rig: Rig, when: str) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def add_and_die(*facts: Any) -> None:
        add(*facts)
        die()

    add = step_record.add
    if when != "open":
        step_record.add = die if when == "before" else add_and_die
    rig.steps().launch(0, rig.tokens())
    die()


def _processes_with(argument: bytes) -> list[int]:
    """The processes that have it in their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if argument in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_a_step_that_cannot_be_recorded_does_not_start(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise DiskFull("full")

    monkeypatch.setattr(step_record, "add", full)
    with pytest.raises(DiskFull):
        rig.steps().launch(0, rig.tokens())
    assert _processes_with(os.fsencode(rig.told(0, "worker"))) == []
    assert not rig.told(0, "worker").exists()


def test_a_program_that_is_not_there(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "line", lambda attempt, role, without: ("no-srun-here",))
    with pytest.raises(CannotRun, match=r"no-srun-here cannot be started on .*: No such file"):
        rig.steps().launch(0, rig.tokens())


def test_the_process_of_another_boot_is_not_ours(rig: Rig) -> None:
    first = rig.launch()
    record = first.running[0].record
    step_record.add(rig.files.steps, record._replace(attempt=1, boot="another"))
    steps = rig.steps()
    steps.adopt(1, rig.tokens())
    assert not steps.running


def test_closing_ends_all(rig: Rig) -> None:
    steps = rig.launch()
    record = steps.running[0].record
    steps._ending = steps._ending._replace(cancel=lambda step: steps.running[0].signal(signal.SIGTERM))
    steps.close()
    assert not record.is_here


def test_a_node_that_is_down(rig: Rig) -> None:
    steps = rig.launch()
    collect(steps, lambda found: "node n1" in steps.whereabouts(Task("worker", 0)))
    steps.told({"n1": NodeFacts(True, 0.0), "n9": NodeFacts(True, 0.0)})
    found = collect(steps, lambda found: len(found) == 2)
    assert {gone.reason for gone in found} == {GoneKind.NODE_LOST}
    assert steps.lost_nodes == {"n1"}
    assert not steps.restarted_nodes


def test_a_node_that_was_started_again(rig: Rig) -> None:
    steps = rig.launch()
    collect(steps, lambda found: "node n1" in steps.whereabouts(Task("worker", 0)))
    steps.told({"n1": NodeFacts(False, time.time() - 3600)})
    assert steps.poll() == []
    steps.told({"n1": NodeFacts(False, steps.running[0].started - 0.9)})  # told in whole seconds
    found = collect(steps, lambda found: len(found) == 2)
    assert {gone.reason for gone in found} == {GoneKind.NODE_LOST}
    assert "was rebooted" in found[0].text
    assert steps.restarted_nodes == steps.lost_nodes == {"n1"}


def test_why_slurm_ends_a_step_is_known_once(rig: Rig) -> None:
    say = "print('slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***', file=sys.stderr, flush=True)"
    steps = rig.launch(f"{say}; {WAITS}")
    collect(steps, lambda found: steps.causes())
    assert steps.causes() == {(GoneKind.CANCELLED, "STEP 7.0 ON n1 CANCELLED AT now")}
    steps.forget_causes()
    assert not steps.causes()


def test_a_step_that_kedge_ends_is_not_ended_from_outside(rig: Rig) -> None:
    say = "print('slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***', file=sys.stderr, flush=True)"
    steps = rig.launch(f"{say}; {WAITS}")
    steps.kill(Task("worker", 0))
    steps.kill(Task("worker", 1))
    steps.poll()
    steps.look()
    assert not steps.causes()


def test_why_slurm_ended_a_step_is_known_after_its_end(rig: Rig) -> None:
    say = "print('slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***', file=sys.stderr, flush=True)"
    steps = rig.launch(f"{say}; sys.exit(1)")
    collect(steps, lambda found: not steps.running)
    assert steps.causes() == {(GoneKind.CANCELLED, "STEP 7.0 ON n1 CANCELLED AT now")}
    steps.forget_causes()
    assert not steps.causes()


def test_nothing_is_kept_of_attempts_that_are_over(rig: Rig) -> None:
    """A job of a thousand tasks may have many."""
    steps = rig.launch("sys.exit(5)")
    collect(steps, lambda found: len(found) == 2)
    kept = {name: value for name, value in vars(steps).items() if isinstance(value, dict | set | list) and value}
    assert kept == {}
