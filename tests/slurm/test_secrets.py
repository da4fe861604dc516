"""The values of secrets on a real cluster: they reach the tasks, and are nowhere when the job has ended."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster
from .kedge_on_slurm import OnSlurm
from .test_jobs import WAITS

VALUE = "a value that nobody else has"
COMMAND = f"wc -c < ../pai/secrets/secrets.yaml; {WAITS}"


def background(kedge: OnSlurm) -> str:
    run = kedge("run", "-d", "--secret", f"token={VALUE}", kedge.job(COMMAND, secrets={"token": None})).stdout.strip()
    kedge.wait_for_output("ready")
    assert VALUE in (kedge.jobs / run / "cluster" / "secrets.json").read_text()
    return str(run)


def holding(kedge: OnSlurm, run: str) -> list[Path]:
    """The files with the value, or with the keys of the link: of the run, and of its agents on the nodes."""
    folders = [kedge.jobs / run]
    folders += [path for parent in ("/tmp", "/dev/shm") for path in Path(parent).glob(f"kedge-agent-*{run}*")]
    found = []
    for path in (path for folder in folders for path in folder.rglob("*")):
        with suppress(OSError):  # it has gone, or is a folder or a FIFO
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(fd, "rb") as file:
                data = file.read() or b""
            found += [path] if VALUE.encode() in data or b"PRIVATE KEY" in data else []
    return found


def test_large_secrets_reach_the_tasks(kedge: OnSlurm) -> None:
    options = []
    for name in ("first", "second"):
        (kedge.folder / name).write_text((1 << 20) * "x")
        options += ["--secret", f"{name}=@{kedge.folder / name}"]
    secrets = dict.fromkeys(("first", "second"))
    kedge("run", *options, kedge.job("wc -c < ../pai/secrets/secrets.yaml", secrets=secrets))
    assert int(kedge.task_log()) > 2 << 20


def test_nothing_is_left_after_scancel(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge)
    assert len(holding(kedge, run)) > 1
    slurm.run("scancel", kedge.number(run))
    wait_until(lambda: not holding(kedge, run), DEADLINE, "the end")


def test_nothing_is_left_after_a_stop(kedge: OnSlurm) -> None:
    run = background(kedge)
    kedge("stop", run)
    wait_until(lambda: not holding(kedge, run), DEADLINE, "the end")


def test_what_a_job_leaves_that_was_killed_for_good_goes_when_somebody_looks(
    kedge: OnSlurm, slurm: SlurmCluster
) -> None:
    run = background(kedge)
    controller = kedge.controller()
    os.kill(_parent(controller), signal.SIGKILL)  # the batch script
    os.kill(controller, signal.SIGKILL)
    wait_until(lambda: slurm.state(kedge.number(run)) not in ("RUNNING", "COMPLETING"), DEADLINE, "the end")
    heartbeat = kedge.jobs / run / "cluster" / "heartbeat"
    assert (heartbeat.parent / "secrets.json").exists()
    heartbeat.write_text("{}")
    os.utime(heartbeat, (0, 0))  # as it would be in half a minute
    kedge("ps")
    assert [path for path in holding(kedge, run) if kedge.jobs in path.parents] == []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
