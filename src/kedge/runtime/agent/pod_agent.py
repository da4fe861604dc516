"""What the agent does in the pod of a task: its supervisor runs in another container, perhaps as another user, so it
can only ask for what it does itself elsewhere. A pod has one task attempt."""

from __future__ import annotations

import importlib
import os

from kedge import untrusted
from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.light.types import TYPE_CHECKING, Any, Callable, Mapping
from kedge.link import messages, pod_folders
from kedge.link.frames import LinkFrame
from kedge.runtime import control
from kedge.runtime.agent import pod_files, results
from kedge.runtime.agent.agent import Agent, Send
from kedge.runtime.agent.keeper import AgentTask
from kedge.runtime.agent.node_folders import NodeFolders
from kedge.runtime.agent.pod_supervisor import PodSupervisor
from kedge.runtime.process.loop import Loop

if TYPE_CHECKING:
    from kedge.runtime.agent.pod_code_fetch import CodeFetch

_EARLY = "the supervisor ended before it got its task"


class PodAgent(Agent):
    """The agent of the task in a pod. The ports that the controller wants are taken once the supervisor runs, so that
    the job's tasks begin together when the last image has been pulled."""

    def __init__(self, task: AgentTask, folders: NodeFolders, loop: Loop, send: Send, room: Callable[[], int]) -> None:
        super().__init__(task, folders, loop, send, room)
        assert task.pod
        self._root, self._killed = task.pod.root, False
        self._wanted_ports: dict[str, int] | None = None
        self._code: CodeFetch | None = None
        self._attempt_folder = -1  # a descriptor: the task can put something else at the path
        self._supervisor = PodSupervisor(
            loop, task.pod, pod_files.paths(self._root), self._event, lambda: self._room() > 0, self._there, self._gone
        )

    def check_taken_over(self) -> None:
        """The FIFO reports the end of the supervisor, to a restarted agent, too. But one that may not have got its task
        must not get it now."""
        if self._running and self.state.pid is None:
            self._kill()

    def command(self, frame: LinkFrame) -> None:
        """Do what the controller asks."""
        if frame.kind == messages.RESERVE and "code" in frame.header:
            self._fetch_code(frame.header["code"])
        elif frame.kind == messages.CODE and self._code:
            self._code.take(frame)
        elif frame.kind in (messages.FINISH, messages.REFUSED):
            self._kill()  # the keeper, which ends what is left elsewhere, cannot
        super().command(frame)

    def _there(self) -> None:
        self._save(pid=1)
        self._answer_reserve()

    def _reserve(self, counts: dict[str, int]) -> None:
        self._wanted_ports = counts
        if self.state.pid is None or (self._code and not self._code.done):
            return
        if self._code and self._code.error:
            self._send(messages.RESERVED, {"error": f"node {self._task.node}: {self._code.error}"})
        else:
            super()._reserve(counts)

    def _fetch_code(self, offered: Mapping[str, Any]) -> None:
        """Before the answer to RESERVE. It may come again, from another controller."""
        if self._code is None:
            module = importlib.import_module("kedge.runtime.agent.pod_code_fetch")  # few jobs have so much code
            self._code = module.CodeFetch(self._root, offered, self._loop, self._want_code, self._answer_reserve)
        self._code.ask()

    def _want_code(self, offset: int) -> None:
        self._send(messages.CODE_WANTED, {"offset": offset})

    def _answer_reserve(self) -> None:
        """Answer RESERVE, if it came: something that the answer waited for has happened."""
        if self._wanted_ports is not None:
            self._reserve(self._wanted_ports)

    def _at_its_place(self, start: Mapping[str, Any]) -> Mapping[str, Any]:
        return pod_files.on_pod(start, self._root)

    def _start_supervisor(self, number: int, start: Mapping[str, Any]) -> None:
        self._ports.hand_over()  # the supervisor cannot hold them, but in the pod's network nobody else is
        if self._supervisor.gone:
            return self._supervisor_gone(None, _EARLY)
        pod_files.write(start, self._root)
        self._watch([])
        self._save(pid=1)
        return self._supervisor.request(control.SPEC)

    def _watch(self, known: list[bytes]) -> None:
        self._supervisor.skip(known)
        self._running = self._supervisor
        self._begin_mirror()

    @property
    def _folder(self) -> str:
        """No link that the task makes leads out of it."""
        if self._attempt_folder < 0:
            pai = self._root + pod_folders.PAI
            with suppress(OSError):
                self._attempt_folder = untrusted.open_folder(pai, os.path.relpath(self.state.folder, pai))
        return f"/proc/self/fd/{self._attempt_folder}"

    @property
    def _output_parent(self) -> str | None:
        return self._root + pod_folders.PAI

    def _kill(self) -> None:
        if not self._supervisor.gone:
            self._killed = True
            self._supervisor.request(control.KILL)

    def _gone(self) -> None:
        """The supervisor has ended, and with it its container. Why it wrote no report, if so, the cluster may know."""
        if self._running:
            self._supervisor_gone(-signal.SIGKILL if self._killed else None)

    def _supervisor_gone(self, code: int | None, why: str = "") -> None:
        self._kill()  # if it could not get its task
        self._ended(results.report(self._folder), code, why)
