"""What the controller remembers of an agent while connections come and go: what is stored, what must be sent again."""

from __future__ import annotations

from typing import Any

from kedge.engines.base import Task
from kedge.link import messages
from kedge.link.frames import BadFrame, LinkFrame, encoded, encoded_pieces
from kedge.link.stream import LinkStream


class LinkSession:
    """One agent process of one task in one job attempt. `heard` is when it last sent something, `answered` when it last
    got an ACK only to confirm that."""

    def __init__(self, task: Task, attempt: int, agent: str, now: float) -> None:
        self.task, self.attempt, self.agent = task, attempt, agent
        self.heard = self.answered = now
        self.silent = False
        self.stream: LinkStream | None = None
        self._returned = 0  # the last seq that `poll` has returned
        self._stored = 0  # the last one that has been processed
        self._said = 0  # the last one that was acknowledged
        self._number = 0  # of the last command
        self._commands: list[tuple[int, list[bytes]]] = []  # that the agent may not have

    def join(self, stream: LinkStream, got: int, controller: str) -> None:
        """The agent has connected: welcome it, and send again what it does not have. `got` is the last command that it
        has from this controller."""
        self.stream = stream
        stream.send(encoded({"kind": messages.WELCOME, "controller": controller, "ack": self._stored}))
        self._said = self._stored
        self.confirm_commands(got)
        for _, frame in self._commands:
            stream.send(*frame)

    def command(self, kind: str, header: dict[str, Any], body: bytes) -> None:
        """Send a command, now and after each reconnection until the agent has it. BadFrame: it is too large."""
        frame = encoded_pieces({**header, "kind": kind, "number": self._number + 1}, body)
        self._number += 1
        self._commands.append((self._number, frame))
        if self.stream:
            self.stream.send(*frame)

    def take(self, frame: LinkFrame) -> bool:
        """Whether a numbered message is new. BadFrame if one before it is missing."""
        seq = frame.header.get("seq")
        if type(seq) is not int or seq > self._returned + 1:
            raise BadFrame(f"a message has the number {seq!r:.40} instead of {self._returned + 1}")
        new = seq == self._returned + 1
        self._returned += new
        return new

    def confirm_commands(self, got: Any) -> None:
        """Forget the commands that the agent has, up to the number `got`."""
        if self._commands and type(got) is int and got >= self._commands[0][0]:
            self._commands = [(number, frame) for number, frame in self._commands if number > got]

    def store(self) -> None:
        """All that was returned has been processed: acknowledge it."""
        self._stored = self._returned
        self.catch_up()

    def catch_up(self) -> None:
        """Acknowledge what has been processed since the last time, if the agent has read all before: one that never
        reads takes no memory."""
        if self._said < self._stored:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tell the agent what has been processed; also the sign that the controller is there, which one that is slow to
        read has anyway."""
        if self.stream and self.stream.idle:
            self.stream.send(encoded({"kind": messages.ACK, "ack": self._stored}))
            self._said = self._stored
