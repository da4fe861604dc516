"""What an agent is told when it starts: one line of JSON on its stdin, the same for all tasks of a role."""

from __future__ import annotations

from kedge import untrusted
from kedge.light import json
from kedge.light.types import Any, NamedTuple


class AgentOrders(NamedTuple):
    """Where the controller is, and who the agent may be.

    `certificate` (PEM) is the controller's. `run` is the run's id. `address_file` is the path of the file in which a
    restarted controller says where it is now, if this node can read it. `tokens` holds one for each task of the role;
    the agent finds its index in its environment. `mirrored` is None where the node and the controller share the run
    folder. Otherwise the agent's task works in a folder of the node, and what it leaves is sent to the controller:
    logs, records, and so many bytes of outputs. `task_attempt` is the one for which the agent was launched: it serves
    this one alone where each has an agent of its own; else it is 0, and the agent serves all of them.
    """

    addresses: list[str]
    port: int
    certificate: str
    run: str
    address_file: str | None
    attempt: int
    role: str
    tokens: list[str]
    mirrored: int | None = None
    task_attempt: int = 0

    def line(self) -> bytes:
        """The orders as one line."""
        return f"{json.dumps(self._asdict())}\n".encode()

    @classmethod
    def from_line(cls, line: bytes) -> AgentOrders:
        """The inverse of `line`; ignores other keys. ValueError."""
        data: Any = untrusted.parse(line)
        if not isinstance(data, dict) or any(not _fits(data.get(name, 0.5), kind) for name, kind in _KINDS.items()):
            raise ValueError("the line on stdin does not hold the orders of an agent")
        return cls(**{name: data[name] for name in cls._fields})


_KINDS: dict[str, Any] = {
    "addresses": list, "port": int, "certificate": str, "run": str, "address_file": (str, type(None)), "attempt": int,
    "role": str, "tokens": list, "mirrored": (int, type(None)),
    "task_attempt": int,
}  # fmt: skip


def _fits(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is not list or all(isinstance(each, str) for each in value))
