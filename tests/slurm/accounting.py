"""slurmdbd with a MariaDB of its own, for a test cluster that keeps accounts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster
from .configuration import free_ports

PROGRAMS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb")

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
"""


def missing() -> str:
    """Why no accounts can be kept here, or ""."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=_PATH)]
    return f"no {', '.join(absent)} (Debian: apt-get install slurmdbd mariadb-server)" if absent else ""


def lines(port: int) -> str:
    """The lines for slurm.conf: accounts at this port, enforced, and what each process uses, once a second."""
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={{folder}}/munge/socket
AccountingStorageEnforce=associations,limits,qos
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
# Unlike proctrack/pgid it also counts processes in a process group of their own.
ProctrackType=proctrack/linuxproc
"""


def start(slurm: SlurmCluster, port: int) -> None:
    """Start MariaDB and slurmdbd, which listens at `port`, before the cluster itself."""
    database = free_ports(1)[0]
    _start_mariadb(slurm, database)
    configuration = slurm.folder / "slurmdbd.conf"
    configuration.touch(0o600)
    configuration.write_text(_SLURMDBD.format(folder=slurm.folder, port=port, database=database))
    slurm.start_munged()
    slurm.start_daemon("slurmdbd", ("slurmdbd", "-D"))
    wait_until(
        lambda: slurm.run("sacctmgr", "--immediate", "add", "cluster", "kedge-test", check=False), DEADLINE, "slurmdbd"
    )


def _start_mariadb(slurm: SlurmCluster, port: int) -> None:
    folder, temporary = slurm.folder / "mariadb", slurm.folder / "mariadb-tmp"
    temporary.mkdir()  # each MariaDB removes the temporary tables of others at its start
    command = ("mariadb-install-db", "--no-defaults", f"--datadir={folder}", f"--tmpdir={temporary}")
    options = ("--user=root", "--skip-test-db", "--auth-root-authentication-method=normal")
    subprocess.run([*command, *options], env={"PATH": _PATH}, check=True, capture_output=True)
    socket = slurm.folder / "mariadb.socket"
    places = (f"--datadir={folder}", f"--tmpdir={temporary}", f"--socket={socket}", f"--port={port}")
    small = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M", "--skip-log-bin")
    slurm.start_daemon(
        "mariadb", ("mariadbd", "--no-defaults", "--user=root", "--bind-address=127.0.0.1", *places, *small)
    )
    orders = "create database slurm_acct_db; create user slurm@'127.0.0.1' identified by 'slurm'; "
    orders += "grant all on slurm_acct_db.* to slurm@'127.0.0.1'"
    wait_until(lambda: _accepts(socket, orders), DEADLINE, "MariaDB")


def _accepts(socket: Path, orders: str) -> bool:
    argv = ("mariadb", "--no-defaults", f"--socket={socket}", "--user=root", "--execute", orders)
    return subprocess.run(argv, env={"PATH": _PATH}, capture_output=True, check=False).returncode == 0
