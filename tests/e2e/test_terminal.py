"""A job whose tasks print terminal control sequences: what a person sees, and what a program reads."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pyte
import pytest

from kedge.contract import CURRENT, USER_ALL

from .conftest import TIMEOUT, Kedge

COLUMNS, ROWS = 80, 500
HOSTILE = (
    b"before\x1bc\x1b[2J\x1b[H\x1b[5A\x1b]0;owned\x07\x1b]52;c;cm0=\x07\x9b2J\xc2\x9b2J\xe2\x80\xae\x1b[?25l\x1b[12m\n"
    + b"x" * 69
    + b"kedge: job succeeded\n"
    + b"\x1b[31mred\n 1%|\r99%|##\nworker:0 | plain\n"
)
SHOWN = [
    "worker:0 | before^[c^[[2J^[[H^[[5A^[]0;owned^G^[]52;c;cm0=^G\\x9b2J\\u009b2J\\u202",
    "         | e^[[?25l^[[12m",
    "worker:0 | " + "x" * 68,
    "         | xkedge: job succeeded",
    "worker:0 | red",
    "worker:0 | 99%|##",
    "worker:0 | worker:0 | plain",
]


def seen(kedge: Kedge, *args: object) -> pyte.Screen:
    """What a command leaves on a terminal."""
    ours, theirs = pty.openpty()
    script = f'stty cols {COLUMNS} rows {ROWS} && exec "$@"'
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", *kedge.argv(args)],
        cwd=kedge.folder, env={**kedge.environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    try:
        while data := os.read(ours, 1 << 16):
            stream.feed(data)
    except OSError:  # this is how a terminal reports its end
        pass
    os.close(ours)
    assert process.wait(TIMEOUT) in (0, 1)
    return screen


def rows(screen: pyte.Screen) -> list[str]:
    return [row.rstrip() for row in screen.display if row.strip()]


def written(kedge: Kedge, *args: object) -> bytes:
    """What a command writes to a pipe."""
    return subprocess.run(kedge.argv(args), env=kedge.environment, capture_output=True, check=True).stdout


@pytest.fixture
def hostile(kedge: Kedge) -> Path:
    (kedge.folder / "hostile").write_bytes(HOSTILE)
    return kedge.job(f"cat {kedge.folder}/hostile; exit 3")


def test_a_job_can_colour_its_lines_but_not_control_the_terminal(kedge: Kedge, hostile: Path) -> None:
    live, later = seen(kedge, "run", hostile), seen(kedge, "logs", "job")
    place = rows(live).index(SHOWN[0])
    assert rows(live)[place : place + len(SHOWN)] == SHOWN
    assert rows(later) == SHOWN
    assert any(row.startswith("Root cause") for row in rows(live)[place + len(SHOWN) :])
    red = rows(later).index("worker:0 | red")
    assert [later.buffer[row][11].fg for row in (red, red + 1)] == ["red", "default"]  # the colour ends with its line
    for screen in (live, later, seen(kedge, "logs", "job", "worker:0"), seen(kedge, "show", "job"), seen(kedge, "ps")):
        assert (screen.title, screen.cursor.hidden, screen.cursor.attrs.fg) == ("", False, "default")


def test_a_pipe_gets_the_raw_bytes_of_one_task_and_so_does_raw(kedge: Kedge, hostile: Path) -> None:
    kedge("run", hostile, code=1)
    assert written(kedge, "logs", "job", "worker:0") == HOSTILE
    assert written(kedge, "logs", "--raw", "-f", "job", "worker:0") == HOSTILE
    lines = [b"worker:0 | " + line + b"\n" for line in HOSTILE.split(b"\n")[:-1]]
    assert written(kedge, "logs", "--raw", "job") == b"".join(lines)
    assert (kedge.task() / USER_ALL / CURRENT).read_bytes() == HOSTILE
    assert seen(kedge, "logs", "--raw", "job", "worker:0").title == "owned"


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_note_has_the_same_colour_in_every_command(kedge: Kedge, command: str) -> None:
    screen = seen(kedge, command, kedge.job("true", extras={"hivedScheduler": {}}))
    (row,) = (y for y, text in enumerate(screen.display) if text.startswith("note: checked, but without effect"))
    assert {screen.buffer[row][x].fg for x in range(4)} == {"brown"}  # ANSI yellow, as pyte names it
