"""A program that an ssh client has started in the task: its process, its pipes or terminal, and its end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

_CHUNK = 1 << 16  # bytes
_STDERR = 1  # the data type of stderr in the protocol (RFC 4254)
_END_OF_FILE = termios.VEOF
TerminalSize = tuple[int, int, int, int]  # columns, rows, and both in pixels


class Channel(Protocol):
    """The part of an asyncssh channel that is used here."""

    def write(self, data: bytes, datatype: int | None = None) -> None: ...
    def write_eof(self) -> None: ...
    def exit(self, status: int) -> None: ...
    def exit_with_signal(self, name: str, core_dumped: bool = False, msg: str = "", lang: str = "") -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class TerminalRequest(NamedTuple):
    """What the client's terminal is like: its type, its size, and its modes by the numbers of the protocol."""

    kind: str
    size: TerminalSize
    modes: Mapping[int, int]


class RemoteProgram:
    """One program of a session. It gets what the client sends, and the client what it prints; neither is buffered
    without limit. Call `look` when a child of this process has ended."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._terminal = -1  # our end of the terminal, if there is one
        self._input = -1  # where the program reads from
        self._outputs: dict[int, int | None] = {}  # what it prints to -> the data type
        self._waiting = bytearray()  # input that the program has not taken yet
        self._no_more_input = self._paused = self._over = False

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], folder: str, wanted: TerminalRequest | None
    ) -> None:
        """Start it in a session of its own. OSError."""
        if wanted:
            self._start_in_terminal(argv, environment, folder, wanted)
        else:
            self._start_with_pipes(argv, environment, folder)
        for fd in self._outputs:
            os.set_blocking(fd, False)
        os.set_blocking(self._input, False)
        self._read_on()

    @property
    def pid(self) -> int | None:
        """Its process, which is also its process group and session."""
        return self._process.pid if self._process else None

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left to look after."""
        return self._over and (self._process is None or self._process.poll() is not None)

    def feed(self, data: bytes) -> None:
        """Pass on what the client has sent."""
        if self._input >= 0:
            self._waiting += data
            self._write()

    def end_input(self) -> None:
        """The client sends no more. A program in a terminal gets the terminal's end-of-file character."""
        if self._input >= 0 and not self._no_more_input:
            self._no_more_input = True
            if self._terminal >= 0:
                with suppress(termios.error):
                    self._waiting += termios.tcgetattr(self._terminal)[6][_END_OF_FILE]
            self._write()

    def pause(self) -> None:
        """The client is slow: let the program wait."""
        self._paused = True
        for fd in self._outputs:
            self._loop.remove_reader(fd)

    def resume(self) -> None:
        """The client is ready again."""
        self._paused = False
        self._read_on()

    def resize(self, size: TerminalSize) -> None:
        """The client's terminal has a new size."""
        if self._terminal >= 0:
            _set_size(self._terminal, size)

    def signal(self, number: int) -> None:
        """Send a signal to the program and what it has started."""
        if self._process and self._process.returncode is None:
            with suppress(OSError):
                os.killpg(self._process.pid, number)

    def hang_up(self) -> None:
        """The client is gone. What does not ignore the hang-up ends."""
        self._over = True
        self.signal(signal.SIGHUP)
        self.signal(signal.SIGCONT)
        self._close_all()

    def look(self) -> None:
        """See whether it has ended."""
        if self._process and self._process.returncode is None and self._process.poll() is not None:
            if self._terminal >= 0:  # the rest may hold the terminal for ever, as with any other terminal
                self._drain()
                self._close_outputs()
            self._finish()

    def _start_with_pipes(self, argv: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
        self._process = subprocess.Popen(
            argv, env=environment, cwd=folder, start_new_session=True, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        process = self._process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._input = _taken(process.stdin)
        self._outputs = {_taken(process.stdout): None, _taken(process.stderr): _STDERR}

    def _start_in_terminal(
        self, argv: Sequence[str], environment: Mapping[str, str], folder: str, wanted: TerminalRequest
    ) -> None:
        ours, theirs = os.openpty()
        try:
            _set_modes(theirs, wanted.modes)
            _set_size(theirs, wanted.size)
            variables = {**environment, "TERM": wanted.kind or "dumb", "SSH_TTY": os.ttyname(theirs)}
            self._process = subprocess.Popen(
                argv, env=variables, cwd=folder, start_new_session=True, bufsize=0,
                stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=_take_terminal,
            )  # fmt: skip
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._terminal = self._input = ours
        self._outputs = {ours: None}

    def _read_on(self) -> None:
        if not self._paused:
            for fd in self._outputs:
                self._loop.add_reader(fd, self._read, fd)

    def _read(self, fd: int) -> bool:
        """Pass on what the program has printed. False if there is nothing more now."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # a terminal that nobody has open any more
            data = b""
        if data:
            self._send(data, self._outputs[fd])
            return True
        self._close_output(fd)
        self._finish()
        return False

    def _drain(self) -> None:
        for fd in list(self._outputs):
            while fd in self._outputs and self._read(fd):
                continue

    def _send(self, data: bytes, kind: int | None) -> None:
        with suppress(OSError):  # the channel is closed
            self._channel.write(data, kind)

    def _write(self) -> None:
        """Give the program as much input as it takes now."""
        try:
            while self._waiting:
                del self._waiting[: os.write(self._input, self._waiting[:_CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(self._input, self._write)
            self._channel.pause_reading()
            return
        except OSError:  # it reads no more
            self._waiting.clear()
            self._no_more_input = self._terminal < 0
        self._loop.remove_writer(self._input)
        if self._no_more_input and self._terminal < 0:
            os.close(self._input)
            self._input = -1
        self._channel.resume_reading()  # last, because it may call `feed` and `end_input`

    def _finish(self) -> None:
        """Report the end once the program has ended and all it printed is sent."""
        if self._over or self._outputs or self._process is None or self._process.poll() is None:
            return
        self._over = True
        code = self._process.returncode
        self._close_all()
        with suppress(OSError):
            if code < 0 and (name := _signal_name(-code)):
                self._channel.exit_with_signal(name)
            else:
                self._channel.exit(code if code >= 0 else 128 - code)

    def _close_output(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        del self._outputs[fd]
        if fd != self._terminal:
            os.close(fd)

    def _close_outputs(self) -> None:
        for fd in list(self._outputs):
            self._close_output(fd)

    def _close_all(self) -> None:
        self._close_outputs()
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            os.close(self._input)
        self._input = self._terminal = -1


def _taken(file: Any) -> int:
    """The descriptor of a file object, which does not close it any more."""
    fd = os.dup(file.fileno())
    file.close()
    return fd


def _take_terminal() -> None:
    """Make stdin the controlling terminal, in the new process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(fd: int, size: TerminalSize) -> None:
    columns, rows, width, height = (min(max(0, number), 0xFFFF) for number in size)
    with suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))


# The numbers of RFC 4254, section 8, by the names of termios: special characters, then flags by their word.
_CHARACTERS = {
    1: "VINTR", 2: "VQUIT", 3: "VERASE", 4: "VKILL", 5: "VEOF", 6: "VEOL", 7: "VEOL2", 8: "VSTART", 9: "VSTOP",
    10: "VSUSP", 12: "VREPRINT", 13: "VWERASE", 14: "VLNEXT", 18: "VDISCARD",
}  # fmt: skip
_FLAGS = {
    30: (0, "IGNPAR"), 31: (0, "PARMRK"), 32: (0, "INPCK"), 33: (0, "ISTRIP"), 34: (0, "INLCR"), 35: (0, "IGNCR"),
    36: (0, "ICRNL"), 38: (0, "IXON"), 39: (0, "IXANY"), 40: (0, "IXOFF"), 41: (0, "IMAXBEL"), 50: (3, "ISIG"),
    51: (3, "ICANON"), 53: (3, "ECHO"), 54: (3, "ECHOE"), 55: (3, "ECHOK"), 56: (3, "ECHONL"), 57: (3, "NOFLSH"),
    58: (3, "TOSTOP"), 59: (3, "IEXTEN"), 60: (3, "ECHOCTL"), 61: (3, "ECHOKE"), 70: (1, "OPOST"), 72: (1, "ONLCR"),
    73: (1, "OCRNL"), 74: (1, "ONOCR"), 75: (1, "ONLRET"),
}  # fmt: skip
_UNSET_CHARACTER = 255


def _set_modes(fd: int, modes: Mapping[int, int]) -> None:
    """Set what the client's terminal has set."""
    attributes = termios.tcgetattr(fd)
    for number, value in modes.items():
        if number in _CHARACTERS:
            character = b"\0" if value == _UNSET_CHARACTER else bytes([value & 0xFF])
            attributes[6][getattr(termios, _CHARACTERS[number])] = character
        elif number in _FLAGS:
            word, name = _FLAGS[number]
            flag = getattr(termios, name, 0)
            attributes[word] = attributes[word] | flag if value else attributes[word] & ~flag
    with suppress(termios.error):
        termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _signal_name(number: int) -> str | None:
    """The name of a signal in the protocol: without SIG."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return None
