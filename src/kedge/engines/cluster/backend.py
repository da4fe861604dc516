"""Runs the tasks of a job through their agents, which connect to the controller over the link."""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Callable, Mapping

from kedge.contract import Report
from kedge.engines.base import Deadline, Ended, Started, Task, TaskPlaced, TaskReachable, TaskUnreachable, Update
from kedge.engines.cluster import agent_messages, barrier, descriptors, settlement, task_ends
from kedge.engines.cluster.agent_messages import AgentEnd
from kedge.engines.cluster.attempt_close import finish_agents
from kedge.engines.cluster.base import Cluster, Gone, GoneKind
from kedge.engines.cluster.gate import Gate
from kedge.engines.cluster.heartbeat import Heartbeat
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import Heard, Joined, LinkUpdate, Lost, Message, OwnerRequest, Silent
from kedge.engines.cluster.member import Member, ports_of
from kedge.engines.cluster.mirrors import Mirrors
from kedge.engines.cluster.peers_record import PeersRecord
from kedge.engines.cluster.placement import ClusterPlaces, task_tokens
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.cluster.task_starts import TaskStarts
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.states import Emit
from kedge.link import messages
from kedge.link.keys import LinkKeys, task_token
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

_AT_ONCE = 50  # starts in one turn, so that the link is served between them
_AGAIN_SEC = 60.0  # until the cluster is asked again to kill a task


class ClusterBackend:
    """Starts and follows the tasks of a job on a cluster. It never waits, except in `close`; the controller does, on
    `fileno`.

    `requests` is called with what the user's commands ask for over the link, and with who does. `server` must admit
    whom `expects` names. CannotRun: this process may not open enough files.
    """

    def __init__(
        self, plan: Plan, run: Run, secrets: Secrets, keys: LinkKeys, server: LinkServer, cluster: Cluster, emit: Emit,
        requests: Callable[[str, str], None], settings: ClusterSettings | None = None,
    ) -> None:  # fmt: skip
        shared = (settings or ClusterSettings()).shares_folder
        descriptors.check(plan.task_count, mirrored=not shared)
        self._plan, self._run, self._keys, self._server, self._cluster = plan, run, keys, server, cluster
        self._emit, self._requests, self._settings = emit, requests, settings or ClusterSettings()
        self._places = ClusterPlaces(plan, run, shared=shared)
        self._record = PeersRecord(plan, run, self._places, emit, in_events=not shared)
        self._mirrors = None if shared else Mirrors()
        self._starts = TaskStarts(server, self._places, self._record, self._mirrors, secrets)
        self.heartbeat = Heartbeat(run)
        self._attempt: int | None = None
        self._updates: list[Update] = []
        self._look_at = math.inf  # at all tasks, for what is due
        self._new_attempt()
        self._selector = selectors.DefaultSelector()
        self._selector.register(server, selectors.EVENT_READ)
        self._selector.register(cluster, selectors.EVENT_READ)

    def _new_attempt(self) -> None:
        self._members = {Task(*item): Member(Task(*item)) for item in self._plan.tasks()}
        self._changed: dict[Task, Member] = {}  # at which `poll` looks next
        own, whereabouts = self._cluster.relaunches, self._cluster.whereabouts
        self._gate = Gate(self._members, self._settings, whereabouts, self._emit, own_places=own)
        self._finished: list[Member] = []  # whose agents are not needed any more
        self._give_back = False  # all places, which other jobs may wait for
        self._updates.clear()

    # Called by the controller's loop.

    def expects(self, attempt: int, role: str, index: int, task_attempt: int) -> bool:
        """Whether the agent of this task may join: it is one of the job attempt that runs, and was launched for the
        latest attempt of the task."""
        member = self._members.get(Task(role, index)) if attempt == self._attempt else None
        return member is not None and task_attempt == member.launched_for

    def place(self, attempt: int) -> None:
        self._finish_attempt()
        self._places.make_attempt(attempt)
        self._begin_attempt(attempt)
        self._record.begin(attempt, own_places=self._cluster.relaunches)
        for member in self._members.values():
            member.is_launched = True
        self._cluster.launch(attempt, task_tokens(self._keys, self._plan, attempt))

    def adopt(self, attempt: int, running: Mapping[Task, int]) -> None:
        if not self._run.attempt(attempt).is_dir():  # the controller before was killed in `place`
            self._places.make_attempt(attempt)
        self._begin_attempt(attempt)
        self._gate.passed(self._record.find(attempt))
        self._gate.has_waited(self._record.waited_sec(attempt))
        self._look(self._gate.due)
        now = time.monotonic()
        nodes = self._record.nodes()
        for task, task_attempt in running.items():
            self._members[task].adopted(now, nodes.get(task, ""), task_attempt if self._cluster.relaunches else 0)
        self._cluster.adopt(attempt, task_tokens(self._keys, self._plan, attempt))
        self._look(now + self._settings.unreachable_sec)

    def _begin_attempt(self, attempt: int) -> None:
        self._attempt = attempt
        self._new_attempt()
        self._look(self._gate.due)

    def start(self, task: Task, attempt: int, task_attempt: int, deadlines: tuple[Deadline, ...]) -> None:
        folder = self._places.folder(task, attempt, task_attempt)
        member = self._members[task]
        if self._cluster.relaunches and not (member.is_launched and member.launched_for == task_attempt):
            self._relaunch(member, attempt, task_attempt)
        member.begin(Launch(task, folder, attempt, task_attempt, time.time_ns()), deadlines)
        self._compare(member)
        self._changed[task] = member

    def _relaunch(self, member: Member, attempt: int, task_attempt: int) -> None:
        """Launch the agent of this task attempt, if it has none. Agents of earlier attempts may not come back."""
        if member.launched_for != task_attempt:
            self._server.send(member.task, messages.FINISH, {})
            self._server.forget_task(member.task, attempt)
            member.renew(task_attempt)
        now = time.monotonic()
        member.is_launched, member.place_by = True, now + self._settings.barrier_sec
        self._gate.waits.for_place(member, now)
        self._look(min(member.place_by, self._gate.due))
        token = task_token(self._keys, attempt, *member.task, task_attempt)
        self._cluster.relaunch(member.task, attempt, task_attempt, token)

    def warn(self, task: Task) -> None:
        self._control(self._members[task], messages.WARN)

    def stop(self, task: Task) -> None:
        member = self._members[task]
        if member.launch and not self._ends_before_start(member, member.launch):
            member.stopping = True
            self._control(member, messages.STOP)

    def end_grace(self, task: Task) -> None:
        self._control(self._members[task], messages.END_GRACE)

    def kill(self, task: Task) -> None:
        member = self._members[task]
        if member.launch and not self._ends_before_start(member, member.launch):
            self._control(member, messages.KILL)
            self._look(member.kill(time.monotonic(), self._settings.kill_sec, self._settings.flush_sec))

    def _ends_before_start(self, member: Member, launch: Launch) -> bool:
        if not (started := self._gate.may_have_started(member)):
            self._end(member, reports.stopped_before_start(launch))
        return not started

    def fileno(self) -> int:
        return self._selector.fileno()

    @property
    def due(self) -> float:
        if self._updates or self._changed or self._finished or self._give_back:
            return 0.0
        return min(self._server.due, self._cluster.due, self.heartbeat.due, self._look_at)

    def poll(self) -> list[Update]:
        self.heartbeat.beat()
        self._finish_ended()
        for update in self._server.poll():
            self._take(update)
        for gone in self._cluster.poll():
            self._take_gone(gone)
        if self._changed or self._look_at <= time.monotonic():
            self._look_around()
        updates, self._updates = self._updates, []
        return updates

    def _finish_ended(self) -> None:
        """What the last `poll` has returned is recorded: an agent that serves one task attempt has no more to do."""
        finished, self._finished = self._finished, []
        for member in finished:
            if member.launch is None:
                self._server.send(member.task, messages.FINISH, {})
        if self._give_back and self._attempt is not None:
            self._give_back = False
            self._cluster.end(self._attempt)

    def close(self) -> None:
        """Release everything; waits until the agents have cleaned up, or the time for that is over."""
        self._finish_attempt()
        self._server.poll()  # the last requests of the owner are answered
        self._cluster.close()
        self._selector.close()
        self._server.close()

    def _finish_attempt(self) -> None:
        """Let the agents of the job attempt end, and wait for that: the next ones need their places."""
        if self._attempt is None:
            return
        members = list(self._members.values())
        finish_agents(self._server, self._cluster, members, self._settings.finish_sec, self._take_request)
        self._cluster.end(self._attempt)
        self._server.forget_attempt(self._attempt)
        self._attempt = None
        if self._mirrors:
            self._mirrors.close()

    # Messages from the link.

    def _take(self, update: LinkUpdate) -> None:
        if isinstance(update, OwnerRequest):
            self._take_request(update)
        elif update.attempt != self._attempt:
            return
        elif isinstance(update, Joined):
            self._joined(self._members[update.task], update)
        elif isinstance(update, Message):
            self._message(self._members[update.task], update)
        elif isinstance(update, Lost):
            self._members[update.task].silent_since = update.since
        elif isinstance(update, Silent):
            self._silent(self._members[update.task], update.since)
        elif isinstance(update, Heard):
            self._heard(self._members[update.task])

    def _take_request(self, request: OwnerRequest) -> None:
        self._requests(request.kind, "" if request.by == self._plan.user else request.by)

    def _joined(self, member: Member, joined: Joined) -> None:
        self._heard(member)
        if member.gone:
            self._give_up(member)
        if joined.again:
            return
        restarted = bool(member.agent)
        if member.met(joined.hello, self._gate.known_address(member)):
            self._updates.append(TaskPlaced(member.task, member.node, member.address))
        role = self._plan.role(member.task.role)
        member.ports, member.problem = ports_of(member.state.get("ports"), role), ""
        if restarted:
            self._restarted(member)
        if member.ports is None:
            self._gate.missing.add(member.task)
            self._server.send(member.task, messages.RESERVE, {"ports": dict(role.resources.ports)})
        if self._cluster.relaunches and not member.launch and member.state.get("ended"):
            self._finished.append(member)
        if self._gate.peers:
            self._gate.passed(self._record.updated(joined.attempt, self._gate.peers, member))
        self._compare(member)
        self._changed[member.task] = member

    def _restarted(self, member: Member) -> None:
        """Another agent process has connected for a task. It continues where the previous one stopped, or knows nothing
        of it: then what that one ran is gone, and so are its ports."""
        if not member.launch or not member.sent:
            return
        if member.ports is None:
            what = f"the agent of {member.where()} has ended, and its successor knows nothing of the task"
            report = reports.read(member.launch) or task_ends.of_lost_agent(member.launch, what)
            self._end(member, report, place_lost=True)
            self._give_up(member)
            return
        member.sent = False  # what was sent may be lost; it does nothing if it comes twice
        asked = {messages.STOP: member.stopping, messages.KILL: member.killed}
        member.pending = [what for what, was_asked in asked.items() if was_asked]

    def _compare(self, member: Member) -> None:
        """Learn from its agent the state of a task attempt that an earlier controller may have started."""
        launch, state = member.launch, member.state
        if launch is None or not member.agent or member.sent or state.get("task_attempt") != launch.task_attempt:
            return
        member.sent = True
        if state.get("started"):
            self._updates.append(Started(member.task))
        self._gate.waits.over(member)
        if isinstance(state.get("ended"), dict) and (not self._mirrors or self._mirrors.complete(launch)):
            self._ended(member, agent_messages.end(state["ended"]))
        for what in member.pending:
            self._control(member, what)

    def _message(self, member: Member, message: Message) -> None:
        self._heard(member)
        if message.kind == messages.RESERVED:
            member.reserved(message.header, self._plan.role(member.task.role))
            self._changed[member.task] = member
        elif not member.launch or message.header.get("task_attempt") != member.launch.task_attempt:
            return
        elif message.kind == messages.EVENT:
            if update := agent_messages.update(message.header, member.task):
                self._updates.append(update)
        elif message.kind == messages.FILE and self._mirrors:
            self._store(self._mirrors, member, member.launch, message)
        elif message.kind == messages.ENDED:
            self._ended(member, agent_messages.end(message.header))

    def _store(self, mirrors: Mirrors, member: Member, launch: Launch, message: Message) -> None:
        """Store what an agent sends of its task's files, before that is acknowledged."""
        if answer := mirrors.take(launch, message.header, message.body):
            self._server.send(member.task, messages.OFFSETS, answer)
        if member.kill_at is not None:  # its agent does what it was told
            member.kill_at = min(time.monotonic() + self._settings.kill_sec, member.kill_by)

    def _silent(self, member: Member, since: float) -> None:
        member.silent_since = since
        self._changed[member.task] = member

    def _heard(self, member: Member) -> None:
        member.silent_since = None
        if member.unreachable:
            member.unreachable = False
            self._updates.append(TaskReachable(member.task))

    def _ended(self, member: Member, end: AgentEnd) -> None:
        """The agent reports the end of the supervisor, after all earlier messages."""
        if member.launch:
            now = time.monotonic()
            member.end = end
            if self._cluster.relaunches:
                member.word_by = now + self._settings.word_sec
                self._cluster.supervisor_ended(member.launch.attempt)
            self._settle(member, now)

    # Reports of the cluster.

    def _take_gone(self, gone: Gone) -> None:
        member = self._members[gone.task]
        if gone.attempt != self._attempt or member.gone or gone.task_attempt not in (None, member.launched_for):
            return
        member.gone, member.report_by = gone, time.monotonic() + self._settings.report_sec
        if gone.reason == GoneKind.NODE_LOST:
            self._give_up(member)
        self._changed[member.task] = member

    def _give_up(self, member: Member) -> None:
        """A task counts as ended, so nothing of it may continue, even if its node was only unreachable. A silent agent
        is told to kill it when it comes back."""
        if member.launch and member.sent:
            self._control(member, messages.KILL)
        elif not member.launch:
            self._server.send(member.task, messages.FINISH, {})

    def _settle(self, member: Member, now: float) -> None:
        """End a task attempt of which the agent or the cluster has reported the end, once the other one has had time
        to report, too. The supervisor itself writes the file of the report."""
        if (launch := member.launch) is None or not (member.end or member.gone):
            return
        found = reports.read(launch) if self._gate.may_have_started(member) else None
        found = found or (member.end.report if member.end else None)
        flushing = self._mirrors is not None and not self._mirrors.complete(launch)
        if now < (until := settlement.waits_until(member, found, flushing=flushing)):
            self._look(until)
            return
        report = settlement.report(member, launch, found, own_place=self._cluster.relaunches)
        self._end(member, report, place_lost=member.gone is not None and not self._cluster.relaunches)

    # Next steps.

    def _look(self, when: float) -> None:
        """Look at all tasks at that time at the latest."""
        self._look_at = min(self._look_at, when)

    def _look_around(self) -> None:
        """Take the next steps for the tasks that have changed; for all tasks when something is due."""
        now, changed, self._changed = time.monotonic(), self._changed, {}
        self._gate.looked(now - self._look_at)
        if self._look_at <= now:
            changed, self._look_at = self._members, math.inf
        for member in changed.values():
            self._settle(member, now)
            if not member.gone:
                self._watch(member, now)
        if self._gate.failed:
            self._fail_the_rest(changed)
        elif self._gate.peers is None:
            self._look_at_barrier(changed, now)
        if self._gate.peers:
            self._send_starts(changed)
        self._gate.tell(now)
        self._look(self._gate.due)

    def _watch(self, member: Member, now: float) -> None:
        """Call a task unreachable, or have it killed, when it is time."""
        if member.launch is None:
            return
        if member.launched_for and not self._gate.may_have_started(member):
            self._watch_place(member, member.launch, now)
        if member.silent_since is not None and not member.unreachable and self._gate.may_have_started(member):
            at = member.silent_since + self._settings.unreachable_sec
            if at <= now:
                member.unreachable = True
                self._updates.append(TaskUnreachable(member.task, member.silence_text(now - member.silent_since)))
            else:
                self._look(at)
        if member.kill_at is not None:
            if member.kill_at <= now:
                self._cluster.kill(member.task)
                member.kill_at = now + _AGAIN_SEC
            self._look(member.kill_at)

    def _watch_place(self, member: Member, launch: Launch, now: float) -> None:
        """A further attempt of a task waits for its agent, as all tasks do at the barrier."""
        waits = not member.agent or member.ports is None
        if member.problem or (waits and member.place_by <= now):
            waited = None if member.problem else self._settings.barrier_sec
            text = barrier.failure([member], self._cluster.whereabouts, waited)
            self._end(member, task_ends.of_barrier(launch, text))
            self._cluster.kill(member.task)
        elif waits:
            self._look(member.place_by)

    def _look_at_barrier(self, changed: Mapping[Task, Member], now: float) -> None:
        gate = self._gate
        gate.missing.update(changed)  # who was there may have gone since
        gate.missing.difference_update(task for task, member in changed.items() if member.is_ready)
        if not gate.missing:
            self._pass_barrier()
        elif text := gate.failure(changed.values(), now):
            self._fail(text)

    def _pass_barrier(self) -> None:
        self._changed.update(self._members)
        for member in self._gate.choose_addresses():
            self._updates.append(TaskPlaced(member.task, member.node, member.address))
        if not self._gate.missing:
            assert self._attempt is not None
            # Before any task starts: it is also the record of that.
            self._gate.passed(self._record.write(self._attempt, barrier.peers_of(self._plan, self._members)))

    def _fail(self, text: str) -> None:
        """The barrier cannot be passed. First the tasks end for which it is so, as the root of it all."""
        self._gate.failed = text
        for member in sorted(self._members.values(), key=lambda one: not (one.gone or one.problem)):
            if member.launch and not member.is_ready:
                self._end(member, settlement.at_barrier(member, member.launch, self._gate), place_lost=True)
        self._give_back = self._cluster.relaunches
        self._changed.update(self._members)

    def _fail_the_rest(self, changed: Mapping[Task, Member]) -> None:
        for member in changed.values():
            if member.launch and not self._gate.may_have_started(member):
                self._end(member, settlement.at_barrier(member, member.launch, self._gate), place_lost=True)

    def _send_starts(self, changed: Mapping[Task, Member]) -> None:
        count = 0
        for task, member in changed.items():
            if member.launch and not member.sent and member.agent and not member.gone and not member.lacks_ports:
                if member.stopping or member.killed:  # its agent has come back, and had not started it
                    self._end(member, reports.stopped_before_start(member.launch))
                elif count == _AT_ONCE:
                    self._changed[task] = member
                else:
                    if report := self._starts.send(member, member.launch, self._gate):
                        self._end(member, report)
                    count += 1

    def _control(self, member: Member, what: str) -> None:
        """Tell the agent, or remember to do so when it comes back to this controller."""
        if member.launch and member.sent:
            header = {"task_attempt": member.launch.task_attempt, "what": what}
            self._server.send(member.task, messages.CONTROL, header)
        elif member.launch and self._gate.was_adopted(member):
            member.pending.append(what)

    def _end(self, member: Member, report: Report, place_lost: bool = False) -> None:
        """A task attempt has ended: report it to the controller's loop, once."""
        if member.launch:
            if self._mirrors and self._gate.may_have_started(member):
                complete, missing = self._mirrors.complete(member.launch), self._mirrors.end(member.launch)
                report = report if complete else report._replace(message=f"{report.message}; {missing}")
                if missing:
                    self._emit(JobEvent.NOTE, text=f"{member.task}: {missing}", in_summary=report.exit_code == 0)
            member.launch, member.kill_at, member.unreachable = None, None, False
            if self._cluster.relaunches:
                self._finished.append(member)
            self._updates.append(Ended(member.task, report, place_lost))
