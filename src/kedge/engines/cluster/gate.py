"""The barrier of the current job attempt: which tasks are not ready, the deadline, and the peers that all get then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from kedge.contract import duration_text
from kedge.engines.base import Task
from kedge.engines.cluster import barrier
from kedge.engines.cluster.barrier import Peers
from kedge.engines.cluster.member import Member
from kedge.engines.cluster.settings import OWN_PAUSE_SEC, ClusterSettings
from kedge.engines.cluster.waits import TaskWaits
from kedge.engines.controller.states import Emit
from kedge.link.frames import SharedValue
from kedge.runs.job_events import JobEvent

_COMING_SEC = 60.0  # for agents that are there, to find another controller
Whereabouts = Callable[[Task], str]


class Gate:
    """`missing` are the tasks that are not ready. `peers` is set once the barrier was passed, `failed` (the
    reason) if it never can be. `is_late`: because its time is over. `own_places`: the cluster places each task attempt
    separately. `whereabouts` describes the place of a task; notes about missing tasks go to `emit`."""

    def __init__(
        self, members: Mapping[Task, Member], settings: ClusterSettings, whereabouts: Whereabouts, emit: Emit,
        *, own_places: bool,
    ) -> None:  # fmt: skip
        self.own_places = own_places
        self._members, self._settings, self._whereabouts, self._emit = members, settings, whereabouts, emit
        self.missing = set(members)
        self.peers: Peers | None = None
        self.failed, self.is_late = "", False
        self._sent: SharedValue | None = None
        self._note = ""
        now = time.monotonic()
        self.put_off(now)
        self.waits = TaskWaits(emit, whereabouts, now)

    def put_off(self, now: float) -> None:
        """Its time begins only now, as the cluster holds all tasks back."""
        self._end, self._note_sec = now + self._settings.barrier_sec, self._settings.barrier_note_sec
        self._note_at = now + self._note_sec

    def has_waited(self, waited_sec: float) -> None:
        """An earlier controller has waited for so long already. The agents get some time to come to this one."""
        now = time.monotonic()
        self._end = max(self._end - waited_sec, min(self._end, now + _COMING_SEC))

    def looked(self, late_sec: float) -> None:
        """It is looked at again, so much later than was due: if that is long, the job was suspended, or a disk hung."""
        if late_sec > OWN_PAUSE_SEC:
            self._end += late_sec

    @property
    def _is_shut(self) -> bool:
        """Whether tasks still wait for it."""
        return not (self.peers or self.failed)

    @property
    def due(self) -> float:
        """When to look at it again, by time.monotonic(); infinite if never."""
        at_barrier = min(self._end, self._note_at) if self._is_shut else math.inf
        return min(at_barrier, self.waits.due(at_barrier=self._is_shut))

    def passed(self, peers: Peers | None) -> None:
        """All tasks are ready, with these peers. Called again when some of them have moved."""
        if peers is not self.peers:
            self.peers, self._sent = peers, None

    def was_adopted(self, member: Member) -> bool:
        """Whether an earlier controller may have started the task, for all that is known here."""
        return self.peers is not None and not member.agent and not member.is_fresh

    def may_have_started(self, member: Member) -> bool:
        """Whether this controller or an earlier one may have started the task attempt in progress."""
        return member.sent or self.was_adopted(member)

    def known_address(self, member: Member) -> str:
        """The one that the peers of a task have; empty if they have none."""
        return barrier.own(self.peers, member.task)[0] if self.peers and not member.launched_for else ""

    def shared(self) -> SharedValue:
        """The peers, for messages to many tasks."""
        self._sent = self._sent or SharedValue(self.peers)
        return self._sent

    def choose_addresses(self) -> list[Member]:
        """All tasks are ready: choose an address of each for its peers. Tasks without one are missing again. Returns
        the tasks whose address has changed."""
        changed = barrier.choose_addresses(self._members.values())
        for member in barrier.unreachable_peers(self._members.values()):
            member.problem = f"it has no address that other nodes can reach ({member.address or 'none at all'})"
            self.missing.add(member.task)
        return changed

    def failure(self, changed: Iterable[Member], now: float) -> str:
        """Why it cannot be passed any more; empty if it still may be."""
        if any(member.gone or member.problem for member in changed):
            return barrier.failure(self._members.values(), self._whereabouts)
        if self._end <= now:
            self.is_late = True
            return barrier.failure(self._members.values(), self._whereabouts, self._settings.barrier_sec)
        return ""

    def tell(self, now: float) -> None:
        """Emit a note about what tasks wait for, if it is time for that."""
        self.waits.look((self._members[task] for task in self.missing) if self._is_shut else (), now)
        if self._is_shut and self._note_at <= now:
            missing = barrier.missing(self._members.values(), self._whereabouts)
            if missing != self._note:
                self._note = missing
                self._emit(JobEvent.NOTE, text=f"after {duration_text(self._note_sec)}, {missing}")
            self._note_at, self._note_sec = now + self._note_sec, 2 * self._note_sec  # less and less often
