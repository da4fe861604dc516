"""What is asked of another machine: one limit of time for all of it, and addresses that can be asked at all."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

import httpx

T = TypeVar("T")
_LONGEST = 300  # characters of what a server says


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises; TimeoutError if it takes longer.

    No library knows a limit for names, connections, TLS, headers and redirects together, so that it is asked in a
    thread. One that is given up ends by itself, at the latest with the process."""
    answers: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answer = ask()
        except Exception as error:  # raised below
            failed = error
            answers.put(lambda: _raise(failed))
        else:
            answers.put(lambda: answer)

    threading.Thread(target=work, daemon=True).start()
    try:
        return answers.get(timeout=seconds)()
    except queue.Empty:
        raise TimeoutError(f"no whole answer within {seconds:g} s") from None


def check(url: httpx.URL) -> httpx.URL:
    """The same address. httpx.InvalidURL for one that nobody can ask: the system would ask port 99999 of port 34463."""
    if url.port is not None and not 0 < url.port < 65536:
        raise httpx.InvalidURL(f"there is no port {plain(str(url.port))}")
    if not url.host:
        raise httpx.InvalidURL("it names no host")
    try:
        host = url.host  # decoded
        host.encode("idna")
    except UnicodeError as error:
        raise httpx.InvalidURL(f"the host is no name: {error}") from None
    return url


def plain(text: str) -> str:
    """What another machine says, for a message: short, and with escapes for what cannot be seen."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_LONGEST])


def _raise(error: Exception) -> T:  # type: ignore[type-var]
    raise error
