"""A real Slurm cluster of two nodes on this machine, with daemons, ports and a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from kedge.testing.wait import wait_until

from . import configuration
from .configuration import NODES, PARTITIONS

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "munged", "unshare")
DEADLINE = 120.0  # seconds, for anything that Slurm does


def missing() -> str:
    """Why no cluster can be started here, or "" if it can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=_PATH)]
    if absent:
        return f"no {', '.join(absent)} (Debian: apt-get install slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "a Slurm cluster for tests needs root, as its slurmd starts jobs of any user"


_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


class SlurmCluster:
    """Daemons that run until `close`, or the end of a `with`, which shows their logs. `variables` are what commands
    need to speak to them.

    Each node has a mount namespace of its own; `own` is a folder that they do not share.
    """

    def __init__(self, extra: str = "", node: str = configuration.USUAL) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kedge-slurm-"))
        self.folder.chmod(0o755)  # jobs of other users read slurm.conf
        self.own = self.folder / "own"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
        self.variables = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.environment = {**inherited, **self.variables}
        self.pids: dict[str, int] = {}
        configuration.write(self.folder, extra, node)
        guard = Path(__file__).with_name("guard.py")
        self._guard = subprocess.Popen(
            [sys.executable, "-IS", guard, self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        print(self.logs())
        self.close()

    def start(self) -> None:
        """Start all daemons and wait until both nodes take jobs."""
        self.start_munged()
        self.start_slurmctld()
        for node in NODES:
            self.start_slurmd(node)
        self.wait_for_nodes()

    def run(self, *argv: str, check: bool = True, user: str | None = None) -> str:
        """The output of a command of Slurm, as a user of this machine."""
        done = subprocess.run(
            argv, env=self.environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, user=user,
            timeout=DEADLINE, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """The id of a batch job with this script."""
        return self.run("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}").strip()

    def state(self, job: str) -> str:
        """The state of a job, such as RUNNING, as squeue names it; "" once Slurm has forgotten it."""
        return self.run("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}", check=False).strip()

    def node_state(self, node: str) -> str:
        """The state of a node, such as idle or down."""
        # Not from sinfo: it has called a node mixed long after slurmctld was started again and all jobs had ended.
        return self.run("scontrol", "--oneliner", "show", "node", node).partition(" State=")[2].split()[0].lower()

    def wait_for_state(self, job: str, state: str) -> None:
        """Wait until a job is in this state."""
        wait_until(lambda: self.state(job) == state, DEADLINE, f"job {job} {state}")

    def wait_for_nodes(self) -> None:
        """Wait until no node does anything and both take jobs."""
        try:
            wait_until(lambda: all(self.node_state(node) == "idle" for node in NODES), DEADLINE, "both nodes idle")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{[self.node_state(node) for node in NODES]}\n{self.logs()}") from None

    def start_munged(self) -> None:
        """Start the daemon by which the others and the users know each other, unless it runs."""
        if self._runs("munged"):
            return
        munge = self.folder / "munge"
        files = {
            "socket": munge / "socket",
            "pid-file": munge / "pid",
            "log-file": munge / "log",
            "seed-file": munge / "seed",
        }
        options = [f"--{name}={path}" for name, path in files.items()]
        key = f"--key-file={self.folder / 'munge.key'}"
        self.start_daemon("munged", ("munged", "--foreground", "--force", "--num-threads=2", key, *options))
        wait_until((munge / "socket").exists, DEADLINE, "munged")

    def start_slurmctld(self) -> None:
        """Start slurmctld and wait until it answers."""
        self.start_daemon("slurmctld", ("slurmctld", "-D"))
        wait_until(lambda: " UP" in self.ping() or not self._runs("slurmctld"), DEADLINE, "slurmctld")
        assert self._runs("slurmctld"), f"slurmctld has ended\n{self.logs()}"

    def stop_slurmctld(self) -> None:
        """End slurmctld in an orderly way: jobs continue."""
        self._end("slurmctld", signal.SIGTERM)

    def start_slurmd(self, node: str, options: str = "") -> None:
        """Start the daemon of a node, in a namespace in which the folder `own` is the node's."""
        script = f"mount -t tmpfs -o mode=1777 none {self.own} && exec slurmd -D -N {node} {options}"
        self.start_daemon(node, ("unshare", "--mount", "--propagation", "slave", "sh", "-c", script))

    def restart_node(self, node: str) -> None:
        """End all processes of a node and start it again, before Slurm takes it for lost."""
        self.lose_node(node)
        self.start_slurmd(node, "-b")

    def kill_slurmd(self, node: str) -> None:
        """Kill only the daemon of a node; its jobs continue, without anybody who can ask for them."""
        self._end(node, signal.SIGKILL)

    def lose_node(self, node: str) -> None:
        """Kill all processes of a node at once, as if it had lost its power."""
        namespace = os.readlink(f"/proc/{self.pids[node]}/ns/mnt")
        while processes := [pid for pid in _pids() if _namespace(pid) == namespace]:
            for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them can do anything about the death of another
                # Parents last: with the death of a parent, the kernel would wake suspended orphans by SIGHUP.
                for pid in sorted(processes, key=_depth, reverse=True):
                    _kill(pid, number)
            wait_until(lambda killed=processes: not any(map(is_alive, killed)), DEADLINE, f"the end of {node}")  # type: ignore[misc]
        del self.pids[node]

    def heal(self) -> None:
        """Cancel all jobs, start the daemons that are not running, and wait until both nodes are idle."""
        if not self._runs("slurmctld"):
            self.start_slurmctld()
        self.run("scancel", "--full", "--state=PENDING", check=False)
        for partition in PARTITIONS:  # scancel takes no list of them
            self.run("scancel", f"--partition={partition}", check=False)
        for node in NODES:
            if not self._runs(node):
                self.start_slurmd(node)
            if self.node_state(node).startswith(("down", "drain")):
                self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        self.wait_for_nodes()

    def logs(self) -> str:
        """The ends of what the daemons have logged."""
        parts = []
        for file in sorted(self.folder.glob("*.log")):
            lines = [line for line in file.read_text(errors="replace").splitlines() if "mpi/pmix" not in line]
            parts.append("\n".join([f"--- {file.name}", *lines[-30:]]))
        return "\n".join(parts)

    def close(self) -> None:
        """End all daemons and jobs and remove the folder."""
        assert self._guard.stdin
        assert self._guard.stdout
        self._guard.stdin.close()
        self._guard.wait(DEADLINE)
        self._guard.stdout.close()

    def start_daemon(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a program that ends with the cluster; its output goes to a file `NAME.out`."""
        assert self._guard.stdin
        assert self._guard.stdout
        variables = {**self.environment, "PATH": _PATH, **(environment or {})}
        order = {"argv": argv, "environment": variables, "output": str(self.folder / f"{name}.out")}
        self._guard.stdin.write(json.dumps(order) + "\n")
        self._guard.stdin.flush()
        self.pids[name] = int(self._guard.stdout.readline())

    def ping(self) -> str:
        """What scontrol says about slurmctld: UP or DOWN."""
        return self.run("scontrol", "ping", check=False)

    def _runs(self, name: str) -> bool:
        return name in self.pids and is_alive(self.pids[name])

    def _end(self, name: str, number: int) -> None:
        pid = self.pids.pop(name)
        _kill(pid, number)
        wait_until(lambda: not is_alive(pid), DEADLINE, f"the end of {name}")


def is_alive(pid: int) -> bool:
    """Whether this process still runs; a zombie does not."""
    return _stat(pid)[0] not in (b"Z", b"X", b"")


def _stat(pid: int) -> list[bytes]:
    """The state of a process and the pid of its parent; both empty once it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:2]
    except OSError:
        return [b"", b""]


def _depth(pid: int) -> int:
    """How many processes this one descends from."""
    return 1 + _depth(int(parent)) if (parent := _stat(pid)[1]) else 0


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:  # it has ended
        return ""


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
