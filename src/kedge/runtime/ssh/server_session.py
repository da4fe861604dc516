"""One session of an ssh client with the task: a command, a shell, or a transfer of files."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import asyncssh

from kedge.runtime.ssh.remote_program import RemoteProgram, TerminalRequest, TerminalSize

SFTP = "sftp"
_SFTP_VERSION = 3


class Surroundings(NamedTuple):
    """What programs run in: the task's shell, its variables now, and its working directory. `running` are the programs
    of all sessions."""

    shell: str
    variables: Callable[[], Mapping[str, str]]
    folder: str
    running: set[RemoteProgram]


class TaskFiles(asyncssh.SFTPServer):  # type: ignore[misc]
    """Serves files by SFTP. OpenSSH's scp fails without an exit code."""

    def __init__(self, chan: asyncssh.SSHChannel[bytes]) -> None:
        super().__init__(chan)
        self._channel: Any = chan

    def exit(self) -> None:
        if self._channel.get_subsystem() == SFTP:
            with suppress(OSError):  # the client is gone
                self._channel.exit(0)


class TaskSession(asyncssh.SSHServerProcess[bytes]):  # type: ignore[misc]
    """asyncssh serves files by SFTP and scp; everything else is a program of the task."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(_no_process, TaskFiles, _SFTP_VERSION, allow_scp=True)
        self._surroundings = surroundings
        self._channel: Any = None
        self._program: RemoteProgram | None = None

    def connection_made(self, chan: Any) -> None:
        self._channel = chan
        super().connection_made(chan)

    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == SFTP

    def session_started(self) -> None:
        command = self._channel.get_command()
        if self._channel.get_subsystem() == SFTP or _is_scp_server(command):
            super().session_started()
        else:
            self._start(command)

    def _start(self, command: str | None) -> None:
        here = self._surroundings
        self._program = RemoteProgram(self._channel)
        here.running.add(self._program)
        try:
            argv = [here.shell] if command is None else [here.shell, "-c", command]
            self._program.start(argv, {**here.variables(), **self._connection()}, here.folder, self._terminal())
        except (OSError, ValueError) as error:
            here.running.discard(self._program)
            self._channel.write(f"kedge: {command or here.shell} cannot be started: {error}\n".encode(), 1)
            self._channel.exit(126)

    def _connection(self) -> dict[str, str]:
        """The variables that sshd sets, and one that keeps shells from guessing who has started them."""
        peer, own = (self._channel.get_extra_info(name) or ("", 0) for name in ("peername", "sockname"))
        return {
            "SHLVL": "1",  # otherwise some builds of bash read ~/.bashrc for commands, too
            "SSH_CLIENT": f"{peer[0]} {peer[1]} {own[1]}",
            "SSH_CONNECTION": f"{peer[0]} {peer[1]} {own[0]} {own[1]}",
        }

    def _terminal(self) -> TerminalRequest | None:
        kind = self._channel.get_terminal_type()
        if kind is None:
            return None
        return TerminalRequest(kind, self._channel.get_terminal_size(), self._channel.get_terminal_modes())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self._program:
            self._program.feed(data)
        else:
            super().data_received(data, datatype)

    def eof_received(self) -> bool:
        if self._program:
            self._program.end_input()
            return True  # the program may still print
        return bool(super().eof_received())

    def pause_writing(self) -> None:
        if self._program:
            self._program.pause()
        else:
            super().pause_writing()

    def resume_writing(self) -> None:
        if self._program:
            self._program.resume()
        else:
            super().resume_writing()

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._program:
            size: TerminalSize = (width, height, pixwidth, pixheight)
            self._program.resize(size)

    def signal_received(self, signal: str) -> None:
        if self._program and (number := _signal_number(signal)):
            self._program.signal(number)

    def break_received(self, msec: int) -> bool:
        if self._program:
            self._program.signal(signal.SIGINT)
        return self._program is not None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._program:
            self._program.hang_up()
            if self._program.ended:
                self._surroundings.running.discard(self._program)
        else:
            super().connection_lost(exc)


def _no_process(_process: object) -> None:
    """asyncssh would call it for what runs no transfer of files; that is started here instead."""


def _is_scp_server(command: str | None) -> bool:
    """Whether it is the other side of an scp of the old protocol, and not a copy that the user starts from there."""
    words = (command or "").split()
    options = [word for word in words[1:] if word.startswith("-")]
    return words[:1] == ["scp"] and any("t" in word or "f" in word for word in options if not word.startswith("--"))


def _signal_number(name: str) -> int | None:
    return signal.Signals.__members__.get(f"SIG{name}")
