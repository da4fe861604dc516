"""Runs seen from another login node than that of their submission, and from one that cannot ask Slurm."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.e2e.conftest import TIMEOUT, Kedge

from kedge.testing.wait import wait_until

from .cluster import SlurmCluster
from .kedge_on_slurm import OnSlurm

# What follows sees another host name, no processes of others, and of /tmp, /run and /dev/shm only the given folders.
_ELSEWHERE = """
hostname login2
mount -t tmpfs none /run
mkdir /run/tmp
mount --rbind /tmp /run/tmp
mount -t tmpfs none /tmp
mount -t tmpfs none /dev/shm
while [ "$1" != -- ]; do
    mkdir -p "$1"
    [ ! -d "/run/tmp${1#/tmp}" ] || mount --rbind "/run/tmp${1#/tmp}" "$1"
    shift
done
shift
umount --lazy /run/tmp
cd "$0"
exec "$@"
"""
_UNSHARE = ("unshare", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private")
GENTLE = (
    "trap 'echo got TERM; exit 0' TERM; echo text > $KEDGE_OUTPUT_DIR/file; echo ready; while :; do sleep 0.1; done"
)


class OtherLoginNode(OnSlurm):
    """kedge of the same user on another login node."""

    def __init__(self, kedge: OnSlurm) -> None:
        super().__init__(kedge.folder, kedge.slurm, Path(kedge.environment["XDG_CACHE_HOME"]))
        self._shared = (kedge.folder, kedge.slurm.folder, kedge.environment["XDG_CACHE_HOME"])

    def argv(self, args: tuple[object, ...]) -> list[str]:
        shared = map(str, self._shared)
        return [*_UNSHARE, "sh", "-ec", _ELSEWHERE, str(self.folder), *shared, "--", *super().argv(args)]

    execute = Kedge.execute


def test_all_commands_work_from_another_login_node(kedge: OnSlurm) -> None:
    run = kedge("run", "-d", kedge.job(GENTLE)).stdout.strip()
    kedge.wait_for_output("ready")
    other = OtherLoginNode(kedge)
    assert "running" in other("ps").stdout
    assert "worker:0  running" in other("show", run).stdout
    assert other("logs", run, "--tail", 1).stdout == "worker:0 | ready\n"
    assert other("exec", run, "worker:0", "--", "sh", "-c", "echo $KEDGE_JOB_ID; exit 7", code=7).stdout == f"{run}\n"
    other("wait", "--timeout", "0", run, code=1)
    other("rm", run, code=2)
    other("cp", f"{run}/worker-0:file", kedge.folder / "copied")
    assert (kedge.folder / "copied").read_text() == "text\n"
    assert other("stop", run).stdout == f"{run} stopped\n"
    assert "got TERM\n" in kedge.task_log()  # sh may add that its sleep was terminated, too
    assert "file" in other("outputs", run).stdout
    other("wait", run, code=1)
    other("rm", run)
    assert kedge.runs() == []


def test_a_stop_between_two_controllers_is_as_gentle_as_any(kedge: OnSlurm) -> None:
    """The batch script waits a little before it starts a killed controller again."""
    run = kedge("run", "-d", kedge.job(GENTLE)).stdout.strip()
    kedge.wait_for_output("ready")
    batch_log = kedge.jobs / run / "cluster" / "batch.log"
    for restart in (1, 2):
        os.kill(kedge.controller(), signal.SIGKILL)
        wait_until(lambda text=f"restart {restart} of": text in batch_log.read_text(), TIMEOUT)  # type: ignore[misc]
        if restart == 1:
            before = kedge.controller()
            wait_until(lambda before=before: kedge.controller() != before, TIMEOUT)  # type: ignore[misc]
    assert kedge("stop", run).stdout == f"{run} stopped\n"
    assert "got TERM\n" in kedge.task_log()  # sh may add that its sleep was terminated, too
    assert "by a stop request" in kedge("show", run).stdout
    assert kedge.leftovers() == []


def test_a_machine_that_cannot_ask_slurm_says_so(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    nowhere = {"PATH": str(Path(sys.executable).parent)}
    run = kedge("run", "-d", kedge.job(GENTLE)).stdout.strip()
    kedge.wait_for_output("ready")
    refused = kedge("exec", run, "worker:0", "true", code=4, **nowhere)
    assert "Slurm has not started the program beside worker:0: there is no squeue on PATH" in refused.stderr
    kedge("stop", run)
    slurm.submit("sleep 1000", "--nodes=2", "--exclusive")
    waiting = kedge("run", "-d", kedge.job(GENTLE)).stdout.strip()
    for args in (("ps",), ("logs", waiting)):
        wait_until(
            lambda args=args: "is unknown: there is no squeue on PATH" in kedge(*args, **nowhere).stderr, TIMEOUT
        )  # type: ignore[misc]
    assert "state unknown" in kedge("ps", **nowhere).stdout
    assert "there is no squeue on PATH" in kedge("stop", waiting, code=4, **nowhere).stderr
    assert kedge("stop", waiting).stdout == f"{waiting} stopped\n"
