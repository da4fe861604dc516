"""Whatever tasks, plugins and servers print, a real terminal (interpreted by an emulator) shows it in its place."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.cli.streams import SafeText
from kedge.cli.view.answer import print_root
from kedge.cli.view.log_lines import LinePrinter, print_message
from kedge.cli.view.problems import show_problems
from kedge.runs.job_report import LogQuote, RootCause
from kedge.runs.timed_log import LogSource, TaskLines

COLUMNS = 40
ROWS = 800  # enough that nothing scrolls away
_BELOW = 24
TASKS = ("worker:0", "ps:11")
_PREFIXES = {"worker:0": "worker:0 | ", "ps:11": "ps:11    | ", "kedge": "kedge: "}
_CONTROLS = [
    "\x1b[2J", "\x1b[H", "\x1b[A", "\x1b[9999A", "\x1b[1K", "\x1b[2K", "\x1b[J", "\x1b[1;1H", "\x1b[99D", "\x1b[3G",
    "\x1b[L", "\x1b[M", "\x1b[P", "\x1b[@", "\x1b[S", "\x1b[r", "\x1b[2;3r", "\x1b[?1049h", "\x1b[?7l", "\x1b[?25l",
    "\x1b[?5h", "\x1b[4h", "\x1b[20h", "\x1b[6n", "\x1b[c", "\x1b[s", "\x1b[u", "\x1bM", "\x1bD", "\x1bE", "\x1b7",
    "\x1b8", "\x1bc", "\x1b#8", "\x1b(0", "\x1b%@", "\x1bH", "\x1b[3g", "\x1b]0;owned\x07", "\x1b]2;owned\x1b\\",
    "\x1b]52;c;cm0=\x07", "\x1b]8;;http://x\x07", "\x1bP+q\x1b\\", "\x1b_G\x1b\\", "\x1b^x\x1b\\", "\x1bXx\x1b\\",
    "\x1b", "\x1b[", "\x1b]", "\r", "\b", "\b" * 60, "\v", "\f", "\t", "\a", "\x0e", "\x0f", "\0", "\x7f", "\x85",
    "\x8d", "\x9b2J", "\x9bA", "\x9d0;owned\x9c", "\x90q\x9c", "\u202e", "\u2066", "\u200f", "\u2028", "\u200b",
    "\ufeff",
]  # fmt: skip
_TEXTS = [
    "\x1b[31m", "\x1b[0m", "\x1b[m", "\x1b[1;4;38;5;208m", "\x1b[48;2;1;2;3m", "\x1b[7m", "\x1b[8m", "\x1b[12m", "x",
    " ", " " * 29, "x" * 29, "x" * 100, "漢" * 30, "e\u0301", "👩\u200d💻", "ä", "\ue0b0", "kedge: job succeeded",
    "ps:11    | all is well",
]  # fmt: skip
_RAW = [b"\x9b2J", b"\x9d0;owned\x07", b"\xc2", b"\xe2\x80", b"\xff\xfe", b"\xc0\x9b", b"\xed\xa0\x80"]
hostile = st.one_of(
    st.sampled_from(_CONTROLS).map(str.encode),
    st.sampled_from(_TEXTS).map(str.encode),
    st.sampled_from(_RAW),
    st.binary(max_size=8),
    st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")),
)
lines = st.lists(hostile, max_size=12).map(lambda parts: b"".join(parts).replace(b"\n", b"") + b"\n")


class Terminal:
    """A terminal of COLUMNS columns; `streams` redirects our standard streams to it."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        os.set_blocking(self._ours, False)
        self.screen, self._new = pyte.Screen(COLUMNS, ROWS), pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._file = SafeText(open(theirs, "w", encoding="utf-8"))  # noqa: SIM115

    def close(self) -> None:
        self._file.close()
        os.close(self._ours)

    @contextmanager
    def streams(self) -> Iterator[None]:
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = self._file
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before

    def clear(self) -> None:
        """Reset the terminal."""
        self.screen.reset()

    def show(self, write: Callable[[], object]) -> list[str]:
        """The rows that `write` adds. Earlier rows must be unchanged, and the cursor at the start of a row."""
        start, above = self.screen.cursor.y, self._rows(self.screen.cursor.y)
        with self.streams():
            write()
            sys.stdout.flush()
        while data := self._read():
            self._stream.feed(data)
        end = self.screen.cursor.y
        assert end > start
        assert self._rows(start) == above
        assert "".join(self._rows(end + _BELOW)[end:]).strip() == ""
        self._check_unchanged()
        return self._rows(end)[start:]

    def _check_unchanged(self) -> None:
        screen, new = self.screen, self._new
        assert (screen.cursor.x, screen.cursor.attrs, screen.cursor.hidden) == (0, new.cursor.attrs, False)
        assert (screen.title, screen.icon_name, screen.mode, screen.margins) == ("", "", new.mode, new.margins)
        assert (screen.charset, screen.g0_charset, screen.tabstops) == (new.charset, new.g0_charset, new.tabstops)

    def _rows(self, end: int) -> list[str]:
        """The texts of the rows before `end`."""
        return [
            "".join(row[at].data for at in range(COLUMNS)) for row in map(self.screen.buffer.__getitem__, range(end))
        ]

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 1 << 16)
        except BlockingIOError:
            return b""


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def shown_by(who: str, line: bytes) -> Callable[[], object]:
    if who == "kedge":
        return lambda: print_message(line.decode("utf-8", "surrogateescape"))
    return lambda: (printer := LinePrinter(list(TASKS)))(printed(who, line)) or printer.flush()


def printed(task: str, data: bytes) -> TaskLines:
    role, _, index = task.partition(":")
    return TaskLines(LogSource(role, int(index), 0), data)


@settings(max_examples=25)
@given(said=st.lists(st.tuples(st.sampled_from(("kedge", *TASKS)), lines), min_size=1, max_size=6))
def test_every_row_belongs_to_its_writer_and_is_kept(terminal: Terminal, said: list[tuple[str, bytes]]) -> None:
    terminal.clear()
    for who, line in said:
        first, *rest = terminal.show(shown_by(who, line))
        assert first.startswith(_PREFIXES[who])
        assert all(row.startswith(" " * 7 if who == "kedge" else "         | ") for row in rest)


@settings(max_examples=40)
@given(line=lines)
def test_one_task_alone_cannot_leave_its_line(terminal: Terminal, line: bytes) -> None:
    terminal.clear()
    terminal.show(lambda: print("above"))
    terminal.show(lambda: LinePrinter([], prefixed=False)(printed("worker:0", line)))


@settings(max_examples=40)
@given(message=lines)
def test_an_error_can_quote_anything(terminal: Terminal, message: bytes) -> None:
    terminal.clear()
    terminal.show(lambda: print("above"))
    rows = terminal.show(lambda: show_problems([message.decode("utf-8", "surrogateescape")]))
    assert rows[0].startswith("error: ")


@settings(max_examples=40)
@given(text=lines)
def test_an_answer_can_quote_anything(terminal: Terminal, text: bytes) -> None:
    terminal.clear()
    quote = text.decode(errors="replace")
    said = (LogQuote("log", 1, quote),)
    root = RootCause("worker:0", "unknown", message=quote, frame=quote, exit_code=1, last_words=said)
    terminal.show(lambda: print("above"))
    terminal.show(lambda: print_root(root, "Root cause", quote))


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        (b" 10%|#\r 50%|##\r100%|###\n", ["worker:0 | 100%|###"]),
        (b"x" * 30 + b"kedge: job succeeded\n", ["worker:0 | " + "x" * 28, "         | xxkedge: job succeeded"]),
        (b"\x1b[2Kdone\x1b[A\n", ["worker:0 | ^[[2Kdone^[[A"]),
        ("漢字".encode() * 9 + b"\n", ["worker:0 | " + "漢字" * 7, "         | " + "漢字" * 2]),
    ],
)
def test_lines_are_readable(terminal: Terminal, line: bytes, rows: list[str]) -> None:
    terminal.clear()
    shown = terminal.show(shown_by("worker:0", line))
    assert [row.rstrip() for row in shown] == rows


@pytest.mark.parametrize(
    "line", [b"\x1b]0;owned\x07\n", b"\x1b[31mred\n", b"\x1b[A\r\x1b[Kb\n\n\n", b"\x1b[?25l\n", b"\xc2\x9b1;1H\n"]
)
def test_the_emulator_detects_unfiltered_output(terminal: Terminal, line: bytes) -> None:
    """A check of these tests: written unfiltered, the bytes do break the display."""
    terminal.clear()
    terminal.show(lambda: print("above"))
    with pytest.raises(AssertionError):
        terminal.show(lambda: sys.stdout.buffer.write(line) and sys.stdout.buffer.flush())
