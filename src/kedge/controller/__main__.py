"""Starts the controller of a run: `python -I -S <this folder> CHANNEL ROOM`.

CHANNEL is the descriptor of a socket to its submitter, which sends one JSON object per line. The first holds the module
path, since this isolated interpreter has none of its own, and the engine to load. The second names the run folder, and
the run's lock comes with it. ROOM has no meaning; its length is what the path of the run folder may take, which stands
in its place once it is known.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from _socket import CMSG_SPACE, socket  # the rest of the module `socket` is not needed

_PIECE = 1 << 16  # bytes
_INT = 4  # bytes of a descriptor in a message


class Orders:
    """What the submitter sends: lines, and descriptors with them."""

    def __init__(self, channel: int) -> None:
        self._socket = socket(fileno=channel)
        self._text = bytearray()
        self.passed: list[int] = []

    def line(self) -> bytes:
        """The next line; empty if the submitter has ended before it sent one."""
        while b"\n" not in self._text:
            data, passed, _, _ = self._socket.recvmsg(_PIECE, CMSG_SPACE(_INT))
            if not data:
                return b""
            self._text += data
            self.passed += [fd for _, _, fds in passed for fd in memoryview(fds).cast("i")]
        found, _, self._text = self._text.partition(b"\n")
        return bytes(found)


def main(channel: int) -> None:
    """Load what will be needed, then run the job that the submitter orders."""
    gc.disable()  # loading modules leaves no garbage to collect
    os.set_inheritable(channel, False)
    orders = Orders(channel)
    if not (line := orders.line()):
        return  # the submitter has already ended
    told = json.loads(line)
    sys.path[:] = told["path"]
    keeper = importlib.import_module("kedge.keeper")
    keeper.stand_above((channel, *orders.passed))  # the lock may have come already
    engine = importlib.import_module("kedge.engines.registry").load(told["engine"])
    engine.load()
    run_job = importlib.import_module("kedge.controller.main").main
    gc.freeze()
    gc.enable()
    if not (line := orders.line()):
        os._exit(0)  # there will be no run
    folder, (lock,) = json.loads(line)["run"], orders.passed
    os.set_inheritable(lock, False)  # otherwise tasks would hold the lock, too
    importlib.import_module("kedge.runs.controller_lock").ControllerLock(lock).sign()
    keeper.show([*sys.orig_argv[:4], folder])
    run_job(folder, channel, orders.line)


if __name__ == "__main__":
    main(int(sys.argv[1]))
