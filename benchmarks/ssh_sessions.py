"""Measures how long an ssh session takes, and what its server needs: kedge's, and OpenSSH's where it is installed.

    python benchmarks/ssh_sessions.py [ROUNDS]

One session is `ssh HOST true` with OpenSSH's client on this machine. "First" is a session with a connection of its own,
"next" one over the same connection (ControlMaster). "100 at once" are 100 clients, from the start of the first to the
end of the last. The memory is that of the server's process after these, without what it shares; the start is from its
exec until it listens. OpenSSH's is started by kedge, too, as with `imageSshd`; its memory is without that of kedge.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kedge.contract import JOB_SSH_HOST_KEY, JOB_SSH_KEY
from kedge.jobs import ssh_keys

RUNTIME = Path(ssh_keys.__file__).parents[1] / "runtime"
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
AT_ONCE = 100


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if sys.argv[1:] else 20
    clients = AT_ONCE if rounds > 1 else 2
    print(f"{'server':<10}{'start ms':>10}{'first ms':>10}{'next ms':>10}{f'{clients} at once s':>16}{'MB':>8}")
    for name, own in (("kedge", True), *([("OpenSSH", False)] if SSHD else [])):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:<10}" + measure(Path(folder), own, rounds, clients))


def measure(folder: Path, own: bool, rounds: int, clients: int) -> str:
    """The row of one server."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    began = time.perf_counter()
    process = start(folder, port, own)
    try:
        while not listens(port):
            time.sleep(0.002)
        started = time.perf_counter() - began
        ssh = ["ssh", "-F", str(folder / "ssh/config"), "task-0"]
        first = statistics.median(seconds([*ssh, "true"]) for _ in range(rounds))
        control = ["-o", f"ControlPath={folder}/c"]
        master = subprocess.Popen([*ssh[:-1], *control, "-M", "-N", "task-0"])
        while not (folder / "c").exists():
            time.sleep(0.002)
        next_one = statistics.median(seconds([*ssh[:-1], *control, "task-0", "true"]) for _ in range(rounds))
        master.kill()  # SIGTERM is lost if it comes just before ssh waits
        master.wait()
        began = time.perf_counter()
        for each in [subprocess.Popen([*ssh, "true"]) for _ in range(clients)]:
            each.wait()
        together = time.perf_counter() - began
        memory = private_mb(process.pid) if own else sum(map(private_mb, children_of(process.pid)))
    finally:
        process.terminate()
        process.wait()
    return f"{started * 1000:>10.0f}{first * 1000:>10.0f}{next_one * 1000:>10.0f}{together:>16.1f}{memory:>8.1f}"


def start(folder: Path, port: int, own: bool) -> subprocess.Popen[bytes]:
    """Start a server, with the files of a task."""
    keys = ssh_keys.made()
    (folder / "secrets").mkdir()
    (folder / "peers.json").write_text(
        json.dumps({"roles": {"task": [{"host": "127.0.0.1", "ports": {"ssh": [port]}}]}})
    )
    parameters = {"jobssh": True, "key": keys[JOB_SSH_KEY], "hostKey": keys[JOB_SSH_HOST_KEY], "imageSshd": not own}
    site = str(Path(__import__("asyncssh").__file__).parents[1])
    request = {"kind": "ssh-server", "parameters": parameters, "pai": str(folder), "tasks": 1, "secrets": []}
    request["site"] = site
    path = folder / "request"
    path.write_text(json.dumps(request))
    variables = {"PAI_CONTAINER_SSH_PORT": str(port), "PAI_CURRENT_CONTAINER_IP": "127.0.0.1"}
    variables["KEDGE_PEERS_FILE"] = str(folder / "peers.json")
    fds = os.open(path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    argv = [sys.executable, "-I", "-S", str(RUNTIME), "--action", *map(str, fds)]
    process = subprocess.Popen(argv, env=os.environ | variables, pass_fds=fds, stdout=subprocess.DEVNULL)
    for fd in fds:
        os.close(fd)
    return process


def listens(port: int) -> bool:
    """Whether a server accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def seconds(argv: list[str]) -> float:
    """How long a program takes that must succeed."""
    began = time.perf_counter()
    subprocess.run(argv, check=True)
    return time.perf_counter() - began


def children_of(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def private_mb(pid: int) -> float:
    """The memory that a process and its children share with no other process, in MB. A session may be just ending."""
    try:
        text, children = Path(f"/proc/{pid}/smaps_rollup").read_text(), children_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    own = sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1000
    return own + sum(map(private_mb, children))


if __name__ == "__main__":
    main()
