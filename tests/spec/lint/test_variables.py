"""The variables that job files are checked against are those that tasks have."""

from __future__ import annotations

from kedge.contract import COMMAND_PID_VARIABLE, PROGRAM_PIDS_VARIABLE, TaskSpec
from kedge.peers import Peer, peer_variables
from kedge.plan.environment import job_environment, role_environment, task_environment
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.runtime.setup.environment import own_variables
from kedge.spec.lint.variables import _ALWAYS, _Known
from kedge.spec.parse import parse

JOB = """
protocolVersion: 2
name: j
type: job
prerequisites: [{name: i, type: dockerimage, uri: i}]
taskRoles:
  ps_server:
    instances: 2
    dockerImage: i
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0, ports: {mpi: 1}}
    commands: ["true"]
"""


def variables() -> set[str]:
    """The names of all variables of OpenPAI's and kedge's that one task gets."""
    job = parse(JOB)
    before = job_environment(resolve(job, Inputs(user="u")))
    before |= role_environment(job.task_roles["ps_server"])
    before |= task_environment(before, 0)
    peer = Peer("h", {"mpi": [1], "ssh": [2], "http": [3]})
    spec = TaskSpec(*("j", "j", "j", "ps_server", 0, 0, 0, "u", "/f", "/w", {}, (), (), "h", peer.ports, "/p"))
    peers = peer_variables(spec.role, spec.task_index, {"ps_server": [peer, peer]})
    names = {*before, *(variable.name for variable in (*peers, *own_variables(spec, None)))}
    return {name for name in names if name.startswith(("PAI_", "KEDGE_"))}


def test_every_variable_of_a_task_is_known_and_none_else_is_taken_for_one() -> None:
    given = variables()
    known = _Known({"taskRoles": {"ps_server": {"instances": 2, "resourcePerInstance": {"ports": {"mpi": 1}}}}})
    assert {name: known.wrong(name) for name in given if known.wrong(name)} == {}
    about_roles = {name for name in given if "server" in name or "_PORT_LIST" in name}
    in_hooks = {COMMAND_PID_VARIABLE, PROGRAM_PIDS_VARIABLE}  # only those before a stop have them
    assert given - about_roles == _ALWAYS - {"PAI_CONTAINER_HOST_PORT_LIST", *in_hooks}
