"""Starts the controller of a run: `python -I -S <this folder> RUN_FOLDER --lock FD --channel FD`.

It inherits the run's lock, and a socket on which its submitter says the rest, one JSON object a line. The first says
where kedge and its packages are, since this interpreter looks nowhere by itself, and which engine to load.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys


def main(folder: str, lock: int, channel: int) -> None:
    """Load what will be needed, then do as told."""
    gc.disable()  # collecting while modules are loaded finds nothing
    for fd in (lock, channel):
        os.set_inheritable(fd, False)  # or tasks would hold the lock, too
    orders = open(channel, "rb", closefd=False)  # noqa: SIM115  as long as the process lives
    told = json.loads(orders.readline() or "null")
    if told is None:
        return  # the submitter has ended already
    sys.path[:] = told["path"]
    importlib.import_module("kedge.keeper").stand_above((lock, channel))
    importlib.import_module("kedge.runs.controller_lock").ControllerLock(lock).sign()
    importlib.import_module("kedge.engines.registry").load(told["engine"])
    life = importlib.import_module("kedge.controller.main").main
    gc.freeze()
    gc.enable()
    life(folder, channel, orders)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[3]), int(sys.argv[5]))
