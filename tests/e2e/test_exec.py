"""kedge exec on terminals: what the conformance kit cannot try with every engine."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable

from .conftest import Kedge
from .terminals import Terminal

SLEEPS = "echo ready; sleep 1000"


def resized(terminal: Terminal, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    os.kill(terminal.pid, signal.SIGWINCH)


def test_the_terminal_in_a_container_follows_the_window(in_containers: Callable[[str], Kedge]) -> None:
    kedge = in_containers("debian")
    process = kedge.start("run", kedge.job(SLEEPS))
    kedge.wait_for_output("ready")
    script = "until [ \"$(stty size)\" = '33 99' ]; do sleep 0.1; done; echo big; read line; stty size"
    terminal = Terminal(kedge, "exec", "-it", "job", "worker:0", "--", "sh", "-c", script)
    resized(terminal, 33, 99)
    terminal.shows("big")
    terminal.press(b"\n")
    assert terminal.code() == 0
    assert terminal.seen.rstrip().endswith("33 99")
    kedge("stop", "job")
    kedge.finish(process, 1)


def test_a_program_without_a_terminal_has_none(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(SLEEPS))
    kedge.wait_for_output("ready")
    script = "if [ -t 0 ] || [ -t 1 ] || [ -t 2 ]; then echo some; else echo none; fi"
    terminal = Terminal(kedge, "exec", "job", "worker:0", "--", "sh", "-c", script)
    terminal.shows("none")
    assert terminal.code() == 0
    kedge("stop", "job")
    kedge.finish(process, 1)


def test_the_values_of_secrets_are_in_no_file(kedge: Kedge) -> None:
    """The environment that programs get is kept in memory."""
    job = kedge.job(
        SLEEPS, secrets={"token": "a-very-secret-value"}, extras={"kedge": {"env": {"T": "<% $secrets.token %>"}}}
    )
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    assert kedge("exec", "job", "worker:0", "sh", "-c", "echo $T").stdout == "a-very-secret-value\n"
    found = [path for path in kedge.only_run().rglob("*") if path.is_file() and b"a-very-secret" in path.read_bytes()]
    assert found == []
    kedge("stop", "job")
    kedge.finish(process, 1)


def test_a_role_of_several_tasks_and_an_unknown_task(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(SLEEPS, roles={"worker": {"instances": 2}}))
    kedge.wait_for_output("ready")
    assert "name one of them, for example worker:0" in kedge("exec", "job", "worker", "true", code=2).stderr
    assert "no task or role" in kedge("exec", "job", "worker:2", "true", code=2).stderr
    kedge("stop", "job")
    kedge.finish(process, 1)
