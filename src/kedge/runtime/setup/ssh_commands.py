"""The commands `ssh` and `scp` of tasks that reach each other by ssh, and the variables that make MPI use them.

They are shell scripts in <pai>/ssh/bin, first on the PATH. They run the image's OpenSSH client if it has one that works
(OpenSSH refuses users without an entry in /etc/passwd), else kedge's own.
"""

from __future__ import annotations

import os
import sys

from kedge.contract import TaskSpec
from kedge.light.types import Mapping
from kedge.peers import Peers, quote
from kedge.runtime.files import write_file
from kedge.runtime.setup.environment import DEFAULT_PATH

HOSTFILE_VARIABLE = "KEDGE_HOSTFILE"
_NAMES = ("ssh", "scp")
_LAUNCHER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Folders of other tasks' commands are left out, too: a launcher may pass its own PATH on to another task.
_SCRIPT = """\
#!{shell}
# {name} to the tasks of this job, by the image's OpenSSH client if there is one, else by kedge's own.
rest=${{PATH-}}:
while [ -n "$rest" ]; do
    folder=${{rest%%:*}} rest=${{rest#*:}}
    case $folder in */pai/ssh/bin) continue ;; esac
    if [ -x "$folder/{name}" ] && [ -x "$folder/ssh" ]; then
        case $("$folder/ssh" -V 2>&1) in OpenSSH*) exec "$folder/{name}" -F {config} "$@" ;; esac
    fi
done
exec {own} -F {config} "$@"
"""
# Open MPI's daemons of several tasks on one machine collide when they make the folder that they all would share.
_DAEMONS = ("orted", "prted")
_DAEMON_SCRIPT = """\
#!{shell}
# {name} of Open MPI, with a folder of this task's own for its files.
OMPI_MCA_orte_tmpdir_base={folder} PRTE_MCA_prte_tmpdir_base={folder}
export OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base
rest=${{PATH-}}:
while [ -n "$rest" ]; do
    place=${{rest%%:*}} rest=${{rest#*:}}
    case $place in */pai/ssh/bin) continue ;; esac
    [ ! -x "$place/{name}" ] || exec "$place/{name}" "$@"
done
echo "{name} of Open MPI is not on the PATH" >&2
exit 127
"""
# Inside an allocation of Slurm, launchers would ask it for nodes and start their daemons with srun: Open MPI to version
# 4 and from version 5, MPICH, Intel MPI.
_NOT_BY_SLURM = {
    "OMPI_MCA_ras": "^slurm", "OMPI_MCA_plm": "rsh", "PRTE_MCA_ras": "^slurm", "PRTE_MCA_plm": "ssh",
    "HYDRA_RMK": "user", "HYDRA_LAUNCHER": "ssh", "I_MPI_HYDRA_BOOTSTRAP": "ssh",
}  # fmt: skip
_TCP_INTERFACES = ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude")


def write(spec: TaskSpec, shell: str, site: str | None, tasks_by_role: Peers) -> None:
    """Write the scripts and the file of hosts. `site` is the folder of installed packages. OSError."""
    folder = _folder(spec)
    os.makedirs(f"{folder}/bin", 0o700, exist_ok=True)
    for name in _NAMES:
        own = (sys.executable, "-I", "-S", _LAUNCHER, "--ssh", site or "", name)
        text = _SCRIPT.format(shell=shell, name=name, config=quote(f"{folder}/config"), own=" ".join(map(quote, own)))
        write_file(f"{folder}/bin/{name}", text.encode("utf-8", "surrogateescape"), 0o700)
    for name in _DAEMONS if _on_this_machine(tasks_by_role) else ():
        text = _DAEMON_SCRIPT.format(shell=shell, name=name, folder=quote(folder))
        write_file(f"{folder}/bin/{name}", text.encode("utf-8", "surrogateescape"), 0o700)
    write_file(f"{folder}/hostfile", _hosts(spec, tasks_by_role).encode())


def variables(spec: TaskSpec, given: Mapping[str, str], tasks_by_role: Peers) -> dict[str, str]:
    """The variables to add to those that are given, whose values stay, except that PATH gets a new beginning."""
    commands = f"{_folder(spec)}/bin"
    agent = f"{commands}/ssh"
    if set(agent) & set(" \t:"):  # Open MPI would take it for several words or agents
        agent = "ssh"
    added = {
        HOSTFILE_VARIABLE: f"{_folder(spec)}/hostfile",
        "OMPI_MCA_plm_rsh_agent": agent,  # Open MPI to version 4
        "PRTE_MCA_plm_ssh_agent": agent,  # Open MPI from version 5
        "HYDRA_LAUNCHER_EXEC": agent,  # MPICH
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,  # Intel MPI
        "PDSH_RCMD_TYPE": "ssh",  # DeepSpeed
    }
    if "SLURM_JOB_ID" in given:
        added |= _NOT_BY_SLURM
    if os.geteuid() == 0:  # as in most images; Open MPI would refuse to start
        added |= {f"{name}_ALLOW_RUN_AS_ROOT{end}": "1" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")}
    if _on_this_machine(tasks_by_role):
        # Several daemons of Open MPI on one machine would take each other's shared memory for their own.
        added["OMPI_MCA_btl"] = "self,tcp"
        added["OMPI_MCA_mpi_yield_when_idle"] = "1"  # its ranks would spin on cores that other tasks need
        if not any(name in given for name in _TCP_INTERFACES):
            added[_TCP_INTERFACES[0]] = "lo"  # which Open MPI leaves out by default
    kept = {name: value for name, value in added.items() if name not in given}
    return kept | {"PATH": f"{commands}:{given.get('PATH', DEFAULT_PATH)}"}


def _folder(spec: TaskSpec) -> str:
    return f"{spec.pai}/ssh"


def _hosts(spec: TaskSpec, tasks_by_role: Peers) -> str:
    """One line a task, as Open MPI and DeepSpeed read it."""
    places = ((role, index) for role, tasks in tasks_by_role.items() for index in range(len(tasks)))
    return "".join(f"{role}-{index} slots={_slots(spec, role)}\n" for role, index in places)


def _slots(spec: TaskSpec, role: str) -> int:
    """How many processes a task is good for: as many as it has GPUs, or CPUs if it has no GPU."""
    amounts = spec.environment.get(f"PAI_RESOURCE_{role}", "").split(",")
    numbers = [int(amount) for amount in amounts[:2] if amount.isdigit()]
    return next(filter(None, numbers), 1)


def _on_this_machine(tasks_by_role: Peers) -> bool:
    return all((task.host or "").startswith("127.") for tasks in tasks_by_role.values() for task in tasks)
