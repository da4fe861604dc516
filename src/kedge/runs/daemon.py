"""A process that goes on when the one that started it ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def start(log: Path, body: Callable[[Callable[[], None]], None]) -> None:
    """Call `body` in a new process without a terminal, and return once it has called its argument, or has ended.

    By fork alone: what this process knows, secrets included, the new one knows too, and nothing has to be passed on.
    This process must have one thread. What the new one prints, a traceback included, goes to `log`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        # A child of the child is no session leader: no terminal can become its own, and nobody needs to wait for it.
        if os.fork() == 0:
            _become(log, body, writer)
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    os.read(reader, 1)  # end of file: everybody has closed the other end
    os.close(reader)


def _become(log: Path, body: Callable[[Callable[[], None]], None], writer: int) -> None:
    code = 1
    try:
        _redirect(log)
        body(lambda: os.close(writer))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: Path) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)
