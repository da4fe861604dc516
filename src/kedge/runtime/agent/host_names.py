"""Host names among the addresses of the controller. The service that knows them may be slow, or there may be none, so
another thread asks it."""

from __future__ import annotations

import _socket
import _thread

from kedge.light.contextlib import suppress
from kedge.light.types import Sequence


def is_numeric(address: str) -> bool:
    """Whether it is an address, and no name."""
    with suppress(OSError, ValueError):
        _socket.inet_pton(_socket.AF_INET6 if ":" in address else _socket.AF_INET, address)
        return True
    return False


class HostNames:
    """Looks names up, again for each `look`."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [*names]
        self._known: dict[str, list[str]] = {}
        self._looking = False

    def look(self) -> list[str]:
        """The addresses that are known of all names, at once; what has changed is known at a later call."""
        if self._names and not self._looking:
            self._looking = True
            try:
                _thread.start_new_thread(self._look_up, ())
            except RuntimeError:  # this process can have no more threads
                self._looking = False
        return [address for name in self._names for address in self._known.get(name, ())]

    def _look_up(self) -> None:
        for name in self._names:
            # As bytes: for a text, Python would load the encoding of host names.
            with suppress(OSError, UnicodeEncodeError):
                found = _socket.getaddrinfo(name.encode(), None, 0, _socket.SOCK_STREAM)
                self._known[name] = [str(each[4][0]) for each in found]
        self._looking = False
