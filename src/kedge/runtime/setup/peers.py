"""The addresses of the job's tasks: the peers file, with this task's own data filled in.

The file is JSON: {"roles": {"worker": [{"host": "10.0.0.1" or null, "ports": {"ssh": [22001], …}}, …]}}; the position
in a list is the task's index.
"""

from __future__ import annotations

from kedge import untrusted
from kedge.contract import TaskSpec
from kedge.peers import UNKNOWN, Peer, Peers
from kedge.runtime.files import read_file


def read_peers(spec: TaskSpec) -> Peers:
    """All tasks by role. Without a peers file only this task is known.

    OSError or ValueError when the file cannot be read or does not have the form above."""
    peers: Peers = {}
    if spec.peers_file:
        peers = _parse(read_file(spec.peers_file))
    tasks = peers.setdefault(spec.role, [])
    tasks += [UNKNOWN] * (spec.task_index + 1 - len(tasks))
    tasks[spec.task_index] = Peer(spec.host, spec.ports)
    return peers


def _parse(data: bytes) -> Peers:
    try:
        roles = untrusted.parse(data)["roles"]
        return {role: [_peer(task["host"], task["ports"]) for task in tasks] for role, tasks in roles.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"expected an object of roles with lists of tasks ({error!r})") from error


def _peer(host: object, ports: object) -> Peer:
    # Written out, because a job of 500 tasks does this 500 times in each of them: ten times as fast as `fits`.
    if not (host is None or isinstance(host, str)) or not isinstance(ports, dict):
        raise TypeError("a value has the wrong type")
    for numbers in ports.values():
        if not isinstance(numbers, list) or not {int}.issuperset(map(type, numbers)):
            raise TypeError("a value has the wrong type")
    return Peer(host, ports)
