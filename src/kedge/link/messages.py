"""The messages of the link. Each kind below is the key `kind` of its header.

An agent numbers what it sends with `seq` (1, 2, …; from 1 again for another controller), except HELLO and HEARTBEAT,
and keeps it until it is acknowledged. The controller numbers its commands with `number`; the agent says in `got` how
far it has come. Both send again, after a connection was lost, what the other one does not have.
"""

from __future__ import annotations

from kedge.light.types import Any, Mapping, MappingProxyType, NamedTuple
from kedge.link.frames import BadFrame

VERSION = 1  # of the protocol
FIRST_FRAME_SEC = 10.0  # from the connection to a complete HELLO
HEARTBEAT_SEC = 20.0  # the agent sends one, and the controller answers it with ACK
DEAD_SEC = 60.0  # after so long without a byte each side takes the connection for lost

# From an agent.
HELLO = "hello"  # Hello; from the owner {"version", "owner": token}
RESERVED = "reserved"  # {"ports": {label: [..]}} or {"error": text}
EVENT = "event"  # {"task_attempt", "line": an event of the supervisor}
CODE_WANTED = "code-wanted"  # {"offset"}: the next bytes of the code's archive
ENDED = "ended"  # {"task_attempt", "report": {..}|null, "code": exit code of the supervisor (-n: signal)|null, "text"}
FILE = "file"  # {"task_attempt", "mirror": random id, "op": 1, 2, .., "do": see link/mirroring, ..} and bytes
HEARTBEAT = "heartbeat"  # {}

# From the controller.
WELCOME = "welcome"  # {"controller": random id, "ack"}
ACK = "ack"  # {"ack": the last seq that has been processed}
REFUSED = "refused"  # {"error": text, "final": bool}: final means that this agent is not wanted any more
RESERVE = "reserve"  # {"ports": {label: count}}, and "code": OfferedCode where the agent is to fetch it before
CODE = "code"  # {"offset", "size": of the whole archive} and bytes
START = "start"  # {"task_attempt", "spec", "peers", "secrets": {"document", "texts"}|null}: the task attempt may start
CONTROL = "control"  # {"task_attempt", "what": one of CONTROLS}
FINISH = "finish"  # {}: the job attempt is over for this task: the agent cleans up and exits
# {"task_attempt", "files": {path: {"size", "fingerprint"}}, "complete": END, too}: what is stored, see link/mirroring
OFFSETS = "offsets"

WARN, STOP, END_GRACE, KILL = "warn", "stop", "end-grace", "kill"
CONTROLS = (WARN, STOP, END_GRACE, KILL)

# From the owner of the run, after HELLO.
REQUEST = "request"  # {"request": one of REQUESTS, "by": user}
ANSWER = "answer"  # {"done": true} or {"error": text}, from the controller
REQUESTS = ("stop", "kill", "release", "notice", "interrupt", "hangup")


class Hello(NamedTuple):
    """The first message of an agent: who it is, where, and what it knows.

    `agent` is random for each agent process, `got` the number of the last command that it has from `controller` (an id;
    empty at first). `state` is what a controller needs that knows nothing of the task: {"ports": {label: [..]}|null,
    "task_attempt": int|null, "started": bool, "ended": what ENDED said|null}. `task_attempt` is the one for which it
    was launched, see AgentOrders.
    """

    token: str
    attempt: int
    role: str
    task_index: int
    agent: str
    node: str
    addresses: list[str]
    boot_id: str
    pid: int
    got: int = 0
    controller: str = ""
    state: Mapping[str, Any] = MappingProxyType({})
    version: int = VERSION
    task_attempt: int = 0

    def header(self) -> dict[str, Any]:
        """The header of the message."""
        return {"kind": HELLO, **self._asdict(), "state": dict(self.state)}

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Hello:
        """The inverse of `header`; ignores other keys. BadFrame if a value is missing or has the wrong type."""
        values = {name: header.get(name) for name in cls._fields}
        for name, kind in _KINDS.items():
            if type(values[name]) is not kind:
                raise BadFrame(f"hello has a wrong value for `{name}`")
        if not all(type(address) is str for address in values["addresses"] or ()):
            raise BadFrame("hello has a wrong value for `addresses`")
        return cls(**values)  # type: ignore[arg-type]


_KINDS = {
    "token": str, "attempt": int, "role": str, "task_index": int, "agent": str, "node": str, "addresses": list,
    "boot_id": str, "pid": int, "got": int, "controller": str, "state": dict, "version": int,
    "task_attempt": int,
}  # fmt: skip
