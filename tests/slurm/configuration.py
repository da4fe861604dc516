"""The slurm.conf of a test cluster: two nodes on this machine that claim more than it has, and quick decisions."""

from __future__ import annotations

import os
import random
import socket
import stat
from pathlib import Path

NODES = ("n1", "n2")
PARTITIONS = ("main", "short", "spare", "graced", "urgent")
GPUS = 4  # on each node
USUAL = f"CPUs=64 RealMemory=200000 Gres=gpu:{GPUS}"
# As on most clusters of today: cores have two threads, and Slurm gives whole cores (with WHOLE_CORES). GPUs differ.
THREADED = "CPUs=8 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=16000 Gres=gpu:a100:2,gpu:v100:2"
WHOLE_CORES = "SelectTypeParameters=CR_Core_Memory\n"
_GIVEN: set[int] = set()  # the ports that this process has found

_SLURM = """\
ClusterName=kedge-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=15
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
# More cores than the machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
GresTypes=gpu
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
InactiveLimit=0
ReturnToService=2
# A busy machine answers late; a node is lost soon all the same.
MessageTimeout=10
BatchStartTimeout=60
SlurmdTimeout=10
SlurmctldTimeout=10
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} {node}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} {node}
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 PriorityTier=2 PreemptMode=OFF
PartitionName=short Nodes=n1,n2 MaxTime=1 PriorityTier=2 PreemptMode=OFF
# What runs in `spare` is requeued for what is submitted to `urgent`.
PartitionName=spare Nodes=n1,n2 MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE
# The same, with some time between the signal and the end.
PartitionName=graced Nodes=n1,n2 MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=15
PartitionName=urgent Nodes=n1,n2 MaxTime=60 PriorityTier=3 PreemptMode=OFF
"""


def write(folder: Path, extra: str, node: str = USUAL) -> None:
    """Write slurm.conf with `extra` lines (in which `{folder}` may stand), gres.conf and the key of munge. `node` is
    what each of them has: USUAL or THREADED."""
    values = {"host": socket.gethostname().partition(".")[0], "folder": folder, "ports": free_ports(3), "node": node}
    (folder / "slurm.conf").write_text((_SLURM + extra).format(**values))
    kinds = [f"Type={kind} " for kind in ("a100", "v100")] if node == THREADED else [""]
    files = _gpus(folder, len(kinds))
    lines = (f"NodeName=n[1-2] Name=gpu {kind}{file}" for kind, file in zip(kinds, files, strict=True))
    (folder / "gres.conf").write_text("\n".join([*lines, ""]))
    for name in ("state", "munge", "own", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir(mode=0o755)
    (folder / "own").chmod(0o1777)
    (folder / "munge.key").touch(0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))


def free_ports(count: int) -> list[int]:
    """Ports below those that the kernel gives to other programs. Another program can still take one first."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(10000, 30000)
        if port in _GIVEN:  # perhaps nothing listens there yet
            continue
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError:
                continue
            found.append(port)
            _GIVEN.add(port)
    return found


def _gpus(folder: Path, kinds: int) -> list[str]:
    """Devices like /dev/null, as many of each kind, so that Slurm gives each job its own ones and names them to its
    tasks."""
    each = GPUS // kinds
    try:
        for number in range(GPUS):
            os.mknod(folder / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        return [f"Count={each}"] * kinds
    return [f"File={folder}/nvidia[{first}-{first + each - 1}]" for first in range(0, GPUS, each)]


def no_cgroups() -> str:
    """Why no cluster can use control groups here, or ""."""
    return "" if Path("/sys/fs/cgroup/memory/cgroup.procs").exists() else "the test needs control groups of version 1"


def write_cgroups(folder: Path) -> None:
    """Write cgroup.conf, with which the kernel kills processes of a step that needs more memory than it was given."""
    lines = ("CgroupMountpoint=/sys/fs/cgroup", "CgroupPlugin=cgroup/v1", "ConstrainRAMSpace=yes", "AllowedSwapSpace=0")
    (folder / "cgroup.conf").write_text("\n".join([*lines, ""]))
