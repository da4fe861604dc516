"""What a restarted agent needs to continue after the previous one was killed: a file in its folder on the node."""

from __future__ import annotations

from kedge import untrusted
from kedge.light import json
from kedge.light.types import Any, NamedTuple
from kedge.own_files import replace_file

_FILE = "state.json"
_LARGEST = 64 << 20  # bytes
_LONGEST_TOLD = 48 << 10  # bytes of JSON: it has to fit into a HELLO, beside 64 addresses
LONGEST_PORTS = 40 << 10  # the same of the ports: about 5,800


class AgentState(NamedTuple):
    """`ports` are those of the task, by label. `task_attempt` is the last one that was started in this job attempt, in
    the task's `folder`, by the supervisor with `pid` and `start_time` (None: it could not be started). `ended` is what
    was told of its end. The controller surely has the first `events` of the supervisor's and, if `safe`, its end."""

    ports: dict[str, list[int]] | None = None
    task_attempt: int | None = None
    folder: str = ""
    pid: int | None = None
    start_time: int = 0
    ended: dict[str, Any] | None = None
    events: int = 0
    safe: bool = True

    @property
    def running(self) -> bool:
        """Whether a supervisor was started whose end has not been told."""
        return self.task_attempt is not None and self.ended is None

    def told(self, *, only_safe: bool = False) -> dict[str, Any]:
        """What a controller is told at the beginning of each connection, when messages must still be short: without a
        report that is long, which the controller finds in the task's folder or has already. `only_safe`: an end is told
        by ENDED, after all that comes before, and here only if a controller has had that."""
        ended = self.ended if self.safe or not only_safe else None
        told = {
            "ports": self.ports, "task_attempt": self.task_attempt, "started": self.task_attempt is not None,
            "ended": ended,
        }  # fmt: skip
        if ended and len(json.dumps(told)) > _LONGEST_TOLD:
            told["ended"] = {**ended, "report": None}
        return told

    def save(self, folder: str) -> None:
        """Write the file in one step. OSError."""
        # Not synced: nothing of a task outlives a crash of its node.
        replace_file(f"{folder}/{_FILE}", json.dumps(self._asdict()).encode(), synced=False)


def load(folder: str) -> AgentState:
    """The state that the agent before has saved; that of a new agent if there is none."""
    try:
        return AgentState(**untrusted.read_json(folder, _FILE, _LARGEST))
    except FileNotFoundError:
        return AgentState()
