"""What is learned from srun's messages. The texts are those of Slurm 22.05."""

from __future__ import annotations

import signal

import pytest

from kedge.engines.cluster.base import GoneKind
from kedge.engines.slurm.in_allocation.step_log import StepFacts, exit_code, numbers


def facts(text: str) -> StepFacts:
    found = StepFacts()
    for line in text.strip().splitlines():
        found.take(line)
    return found


def test_where_tasks_are() -> None:
    found = facts("""
srun: launching StepId=12.1 on host n1, 3 tasks: [0-2]
srun: launching StepId=12.1 on host n2, 1 tasks: 3
srun: launch/slurm: _task_start: Node n2, 1 tasks started
""")
    assert found.id == "12.1"
    assert found.nodes == {0: "n1", 1: "n1", 2: "n1", 3: "n2"}
    assert not found.exits
    assert found.cause is None


def test_the_step_of_a_component_of_a_heterogeneous_job() -> None:
    assert facts("srun: launching StepId=12+1.0 on host n2, 2 tasks: 0,4").id == "12+1.0"


def test_many_tasks_on_a_node() -> None:
    """Dealt to the nodes in turn, so that their numbers make a long list. The real srun wrote such lines in full."""
    own = ",".join(str(number) for number in range(1, 400, 2))
    found = facts(f"""
srun: launching StepId=12.0 on host n2, 200 tasks: [{own}]
srun: error: n2: tasks {own}: Exited with exit code 1
""")
    assert found.nodes == dict.fromkeys(range(1, 400, 2), "n2")
    assert found.exits.keys() == found.nodes.keys()
    assert found.exits[399].code == 1


def test_how_tasks_end() -> None:
    found = facts("""
srun: error: n2: task 3: Exited with exit code 3
srun: error: n1: tasks 0-1: Killed
srun: error: n1: task 2: Out Of Memory
""")
    assert found.exits[3][:3] == ("n2", "Exited with exit code 3", 3)
    assert [found.exits[index].code for index in (0, 1)] == [-signal.SIGKILL] * 2
    assert [index for index, exit_ in found.exits.items() if exit_.out_of_memory] == [2]


def test_the_first_word_about_a_task_counts() -> None:
    found = facts("srun: error: n1: task 0: Out Of Memory\nsrun: error: n1: task 0: Killed\n")
    assert found.exits[0].out_of_memory


def test_a_node_that_fails() -> None:
    assert facts("srun: error: Node failure on n2").failed_nodes.keys() == {"n2"}


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("CANCELLED AT 2026-11-23T11:22:24", GoneKind.CANCELLED),
        ("CANCELLED AT 2026-11-23T11:22:24 DUE TO TIME LIMIT", GoneKind.OUT_OF_TIME),
        ("CANCELLED AT 2026-11-23T11:22:24 DUE TO PREEMPTION", GoneKind.PREEMPTED),
        ("CANCELLED AT 2026-11-23T11:22:24 DUE TO JOB REQUEUE", GoneKind.PREEMPTED),
        ("CANCELLED AT 2026-11-23T11:22:24 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", GoneKind.NODE_LOST),
        ("FAILED (non-zero exit code or other failure mode)", None),
    ],
)
def test_why_slurm_ends_a_step(words: str, kind: GoneKind | None) -> None:
    found = facts(f"slurmstepd-n1: error: *** STEP 2.0 ON n1 {words} ***")
    assert found.cause == kind
    assert found.cause_text == (f"STEP 2.0 ON n1 {words}" if kind else "")


def test_a_known_reason_is_not_forgotten_for_a_cancellation_that_follows() -> None:
    found = facts("""
slurmstepd-n1: error: *** STEP 2.0 ON n1 CANCELLED AT 2026-11-23T11:22:24 DUE TO PREEMPTION ***
slurmstepd-n1: error: *** STEP 2.0 ON n1 CANCELLED AT 2026-11-23T11:22:25 ***
""")
    assert found.cause == GoneKind.PREEMPTED


@pytest.mark.parametrize(
    "why",
    [
        "Unable to create step for job 3: More processors requested than permitted",
        "Job 3 step creation temporarily disabled, retrying (Requested nodes are busy)",
        "Task launch for StepId=3.0 failed on node n2: Communication connection failure",
    ],
)
def test_why_a_step_does_not_start(why: str) -> None:
    assert facts(f"srun: error: {why}").why == why


def test_what_a_task_prints_is_not_a_word_of_slurm() -> None:
    found = facts("Node failure on n2\nn1: task 0: Killed\nkedge agent: unable to do anything")
    assert (found.failed_nodes, found.exits, found.why) == ({}, {}, "")


def test_lists_of_numbers() -> None:
    assert list(numbers("[0-2,7]")) == [0, 1, 2, 7]
    assert list(numbers("5")) == [5]


def test_words_for_signals() -> None:
    assert exit_code("Segmentation fault (core dumped)") == -signal.SIGSEGV
    assert exit_code("Exited with exit code 137") == 137
    assert exit_code("something else") is None


def test_slurm_ends_a_step_that_needs_too_much_memory() -> None:
    """As printed with JobAcctGatherParams=OverMemoryKill: the step is then called cancelled."""
    found = facts("""
slurmstepd-n1: error: StepId=1.0 exceeded memory limit (609341440 > 419430400), being killed
srun: Exceeded job memory limit
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-23T13:53:08 ***
slurmstepd-n1: error: StepId=1.0 exceeded memory limit (568471552 > 419430400), being killed
srun: error: n1: task 0: Killed
""")
    assert found.cause == GoneKind.OUT_OF_MEMORY
    text = "its tasks on n1 together used 581 MiB, above the limit of 400 MiB; Slurm then ends the whole role"
    assert found.cause_text == text


def test_slurm_says_which_node_only_where_one_machine_has_several() -> None:
    found = facts("slurmstepd: error: StepId=1.0 exceeded memory limit (2097152 > 1048576), being killed")
    assert found.cause_text.startswith("its tasks on one node together used 2 MiB, above the limit of 1 MiB;")


def test_a_program_that_is_not_on_the_node() -> None:
    found = facts("""
slurmstepd-n1: error: execve(): apptainer: No such file or directory
srun: error: n1: tasks 0-1: Exited with exit code 2
""")
    assert found.not_executed
    assert found.why == "apptainer: No such file or directory (on its node)"
    assert found.exits[1].code == 2


def test_an_srun_without_containers() -> None:
    text = """
srun: unrecognized option '--container-image=busybox:1.36'
Try "srun --help" for more information
"""
    assert facts(text).why.startswith("srun has no option --container-image, so this cluster has no pyxis")
