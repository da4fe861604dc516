"""The agent does what the controller asks, and reports the events and the end of the task. The task keeps running
without a connection, too."""

from __future__ import annotations

import os
import time

from kedge.errors import CannotRun, KedgeError
from kedge.light import json
from kedge.light.contextlib import suppress
from kedge.light.types import TYPE_CHECKING, Any, Callable, Mapping
from kedge.link import messages
from kedge.link.frames import LinkFrame
from kedge.runtime.agent import results, shared_folder, supervisor, task_files, tree
from kedge.runtime.agent.keeper import FINISHED, AgentTask
from kedge.runtime.agent.node_folders import NodeFolders
from kedge.runtime.agent.node_ports import NodePorts
from kedge.runtime.agent.running import RunningSupervisor
from kedge.runtime.agent.state import LONGEST_PORTS, load
from kedge.runtime.process import procfs, signals
from kedge.runtime.process.loop import NEVER, Loop

if TYPE_CHECKING:
    from kedge.runtime.agent.mirror import TaskMirror

KEEPER_LOST = 3  # exit code
_KILLED = "the agent of the task was killed while it started the supervisor"
Send = Callable[..., None]
_MOST_NAMED = 20  # processes
_FOR_EVENTS = 1 << 20  # bytes of the room that files leave


class Agent:
    """One task's agent. `state` is what it knows, saved before it reports it; `send(kind, header, body)` sends a
    message to the controller, `room` returns how many bytes should be sent now."""

    def __init__(self, task: AgentTask, folders: NodeFolders, loop: Loop, send: Send, room: Callable[[], int]) -> None:
        self.state = load(folders.files)
        self.exit_code: int | None = None  # once it is to end
        self._send, self._room = send, room
        self._task, self._folders, self._loop, self._keeper = task, folders, loop, os.getppid()
        self._ports = NodePorts()
        self._running: RunningSupervisor | None = None
        self._mirror: TaskMirror | None = None  # of the task attempt, until all is sent
        self._events = 0  # that were passed on
        self._stop_next = False  # the scheduler wants a stop, and no supervisor has got it
        self._kill_until = 0.0
        self._files_due = 0.0  # until when the run folder may be missing

    def take_over(self) -> None:
        """Go on where an agent that was killed has stopped."""
        if not self.state.running:
            self._hold_ports()
        if self.state.ended and not self.state.safe:
            self._begin_mirror()
            self._tell_end()
        if self.state.running:
            self._find_supervisor()
            lines = results.event_lines(self._folder)
            try:
                self._watch(lines)
            except OSError:  # the agent was killed before it had made the files
                return self._ended(None, None, _KILLED)
            self._events = self.state.events
            for event in filter(None, map(results.event, lines[self.state.events :])):
                self._event(event)
        return None

    def _find_supervisor(self) -> None:
        """If the agent was killed before it had saved what it had started: that is a child of the keeper, which makes a
        group of its own before anything else."""
        if self.state.pid is None:
            for each in self._below():
                if each.parent == self._keeper and each.group == each.pid:
                    self._save(pid=each.pid, start_time=each.start_time)

    def check_taken_over(self) -> None:
        """Called when all lines of the keeper were read: a supervisor that is gone, and whose end was reported only to
        the previous agent, has ended."""
        if self._running and self.state.running and not self._supervisor_lives:
            self._supervisor_gone(None)

    @property
    def _supervisor_lives(self) -> bool:
        """Whether the process that was started is there. Another one may have its number after a while."""
        pid = self._running.pid if self._running else None
        found = procfs.process(pid) if pid else None
        return found is not None and self.state.start_time in (0, found.start_time)

    def told(self, line: str) -> None:
        """Handle a line from the keeper."""
        what, *numbers = line.split()
        if what == "signal":
            self._signal(int(numbers[0]))
        elif self._running and self._running.pid == int(numbers[0]):
            self._supervisor_gone(os.waitstatus_to_exitcode(int(numbers[1])))

    def told_state(self) -> dict[str, Any]:
        """The state in the first message of each connection, see AgentState.told."""
        return self.state.told(only_safe=self._is_mirrored)

    @property
    def has_untold_end(self) -> bool:
        """Whether its task has ended, and only this node has the report and the logs of that."""
        return self._is_mirrored and self.state.ended is not None and not self.state.safe

    @property
    def due(self) -> float:
        """When `send_files` must be called, by time.monotonic()."""
        return self._mirror.due if self._mirror and self._files_room() > 0 else NEVER

    def send_files(self) -> None:
        """Send what is new of the task's files; after its end and the last of them, tell the end."""
        if self._mirror:
            self._mirror.poll()
            if self._mirror.done:
                self._end_mirror()
                self._send(messages.ENDED, self.state.ended)

    def another_controller(self) -> None:
        """The controller that has let the agent in is not the one of before, and may not have what that one had."""
        if self._is_mirrored and self.state.task_attempt is not None:
            self._begin_mirror()
            if self._mirror and self.state.ended:
                self._mirror.finish()

    def all_is_safe(self) -> None:
        """The controller has acknowledged everything."""
        if self._mirror and self.state.ended:
            return  # the end was not reported
        if not self.state.safe or self._events != self.state.events:
            self._save(events=self._events, safe=True)

    def keeper_lost(self) -> None:
        """The scheduler counts the task as ended, so nothing of it may continue."""
        if self._running and self._running.pid and self._supervisor_lives:
            tree.kill_alone(self._running.pid)
        self._folders.remove()
        self.exit_code = KEEPER_LOST

    def command(self, frame: LinkFrame) -> None:
        """Do what the controller asks. The same command may come again. KeyError, TypeError: it is not complete."""
        header = frame.header
        if frame.kind == messages.RESERVE:
            self._reserve(header["ports"])
        elif frame.kind == messages.START:
            self._start(header)
        elif frame.kind == messages.CONTROL and header["task_attempt"] == self.state.task_attempt:
            self._control(header["what"])
        elif frame.kind == messages.OFFSETS and self._mirror:
            self._mirror.offsets(frame)
        elif frame.kind in (messages.FINISH, messages.REFUSED):  # refused for good: there is another agent of the task
            self.exit_code = FINISHED  # the keeper ends what is left, and removes the folders

    def _save(self, **changes: Any) -> None:
        self.state = self.state._replace(**changes)
        with suppress(OSError):  # the disk is full: only an agent that is killed now would need it
            self.state.save(self._folders.files)

    def _reserve(self, counts: dict[str, int]) -> None:
        if not self._is_mirrored and (path := shared_folder.missing(self._task.orders.address_file)):
            return self._wait_for_folder(path, counts)
        try:
            if self.state.ports is None or {k: len(v) for k, v in self.state.ports.items()} != counts:
                self._save(ports=self._reserved(counts))
        except (KedgeError, OSError) as error:
            return self._send(messages.RESERVED, {"error": f"node {self._task.node}: {error}"})
        return self._send(messages.RESERVED, {"ports": self.state.ports})

    def _reserved(self, counts: dict[str, int]) -> dict[str, list[int]]:
        """Reserve ports, as many as fit into a message. KedgeError, OSError."""
        ports = self._ports.reserve(counts)
        if len(json.dumps(ports)) > LONGEST_PORTS:
            self._ports.release()
            raise CannotRun(f"{sum(counts.values())} ports are too many for one task on a cluster; the limit is 5000")
        return ports

    def _hold_ports(self) -> None:
        """Hold the ports while no supervisor does, so that no other program takes them before the next attempt."""
        if self.state.ports:
            self._ports.hold_again(self.state.ports)

    def _wait_for_folder(self, path: str, counts: dict[str, int]) -> None:
        """Network file systems may show new folders late: look again for a while."""
        now = time.monotonic()
        self._files_due = self._files_due or now + shared_folder.PATIENCE_SEC
        if now < self._files_due:
            return self._loop.alarm(now + shared_folder.LOOK_SEC, lambda: self._reserve(counts))
        return self._send(messages.RESERVED, {"error": shared_folder.explain(path, self._task.node)})

    def _start(self, start: Mapping[str, Any]) -> None:
        number = start["task_attempt"]
        if self.state.running or (self.state.task_attempt is not None and number <= self.state.task_attempt):
            return None  # it came again
        start = self._at_its_place(start)
        folder = start["spec"]["folder"]
        beginning = {"task_attempt": number, "folder": folder, "pid": None, "start_time": 0, "ended": None, "events": 0}
        self.state = self.state._replace(**beginning)
        self._events = 0
        try:
            self.state.save(self._folders.files)  # a new agent that does not know it would start it a second time
            self._start_supervisor(number, start)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            why = f"the task's supervisor could not be started on node {self._task.node}: {where}{error.strerror}"
            return self._supervisor_gone(None, why)  # should it run nevertheless, it must not
        if self._stop_next:
            self._control(messages.STOP)
        return None

    def _at_its_place(self, start: Mapping[str, Any]) -> Mapping[str, Any]:
        """A START with the paths of this node."""
        if not self._is_mirrored:
            return start
        with suppress(OSError):
            task_files.clear_ended(self.state.folder)
        return task_files.on_node(self._folders, start)

    def _start_supervisor(self, number: int, start: Mapping[str, Any]) -> None:
        self._hold_ports()  # as far as somebody had them before
        files = task_files.paths(self._folders, number)
        task_files.write(self._folders, files, start)
        self._watch([])
        pid = supervisor.start(self._task, files, start["spec"]["folder"], self._ports)
        self._ports.hand_over()
        found = procfs.process(pid)
        self._save(pid=pid, start_time=found.start_time if found else 0)
        assert self._running
        self._running.pid = pid

    def _watch(self, known: list[bytes]) -> None:
        assert self.state.task_attempt is not None
        files = task_files.paths(self._folders, self.state.task_attempt)
        self._running = RunningSupervisor(self._loop, files, self._event, lambda: self._room() > 0, known)
        self._running.pid = self.state.pid
        self._begin_mirror()

    @property
    def _is_mirrored(self) -> bool:
        return self._task.orders.mirrored is not None

    def _begin_mirror(self) -> None:
        self._end_mirror()
        limit, number = self._task.orders.mirrored, self.state.task_attempt
        if limit is not None and number is not None:
            from kedge.runtime.agent.mirror import TaskMirror  # not needed where a folder is shared

            def send(header: dict[str, Any], body: bytes) -> None:
                self._send(messages.FILE, header, body)

            self._mirror = TaskMirror(
                self._folder, number, send, self._files_room, output_limit=limit, output_parent=self._output_parent
            )

    @property
    def _folder(self) -> str:
        """The folder of the task attempt, to read there."""
        return self.state.folder

    @property
    def _output_parent(self) -> str | None:
        """What the folder of outputs is in, if it is not that folder."""
        return None

    def _end_mirror(self) -> None:
        if self._mirror:
            self._mirror.close()
            self._mirror = None

    def _files_room(self) -> int:
        return self._room() - _FOR_EVENTS

    def _event(self, event: dict[str, Any]) -> None:
        self._events += 1
        self._send(messages.EVENT, {"task_attempt": self.state.task_attempt, "line": event})

    def _control(self, what: str) -> None:
        running = self._running
        if running is None:
            return
        if what == messages.KILL:
            self._kill()
            return
        self._stop_next = False
        running.request(what)
        running.wake()

    def _signal(self, number: int) -> None:
        """A signal of the scheduler, which was sent to the keeper."""
        if number in signals.STOPS:
            self._stop_next = True
            self._control(messages.STOP)
        elif number == signals.NOTICE:
            self._control(messages.WARN)
        elif self._running:
            self._running.signal(number)

    def _kill(self) -> None:
        """Kill all that the task has started. What is left of it after the supervisor's end is killed then."""
        tree.kill(self._below())

    def _below(self) -> list[procfs.ProcessStat]:
        return tree.below(self._keeper, {os.getpid()})

    def _supervisor_gone(self, code: int | None, why: str = "") -> None:
        """The supervisor has ended. Usually nothing of the task is left; if it was killed, end the rest."""
        self._kill_until = time.monotonic() + tree.GIVE_UP_SEC
        self._finish_task(code, why or (_KILLED if self.state.pid is None else ""))

    def _finish_task(self, code: int | None, text: str) -> None:
        left = self._below()
        now = time.monotonic()
        if left and now < self._kill_until:
            tree.kill(left)
            self._loop.alarm(now + tree.RESCAN_SEC, lambda: self._finish_task(code, text))
            return
        named = ", ".join(f"{one.pid} ({one.name})" for one in left[:_MOST_NAMED])
        hanging = f"some processes cannot be killed: {named}" if left else ""
        self._ended(results.report(self._folder), code, hanging or text)

    def _ended(self, report: dict[str, Any] | None, code: int | None, text: str) -> None:
        """Tell the end of a task attempt."""
        if self._running:
            self._running.finish()
            self._running = None
        self._hold_ports()
        with suppress(OSError):
            task_files.remove_secrets(self._folders)
        ended = {"task_attempt": self.state.task_attempt, "report": report, "code": code, "text": text}
        self._save(ended=ended, safe=False)
        self._tell_end()

    def _tell_end(self) -> None:
        """Tell the saved end; where files are mirrored, after the last of them."""
        if self._mirror:
            self._mirror.finish()
        else:
            self._send(messages.ENDED, self.state.ended)
