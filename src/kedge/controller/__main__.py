"""Starts the controller of a run: `python -I -S <this folder> RUN_FOLDER --lock FD --channel FD`.

The process inherits the run's lock and a socket to its submitter, which sends one JSON object per line. The first holds
the module path, since this isolated interpreter has none of its own, and the engine to load.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys


def main(folder: str, lock: int, channel: int) -> None:
    """Load what will be needed, then run the job that the submitter orders."""
    gc.disable()  # loading modules leaves no garbage to collect
    for fd in (lock, channel):
        os.set_inheritable(fd, False)  # otherwise tasks would hold the lock, too
    orders = open(channel, "rb", closefd=False)  # noqa: SIM115  open as long as the process lives
    told = json.loads(orders.readline() or "null")
    if told is None:
        return  # the submitter has already ended
    sys.path[:] = told["path"]
    importlib.import_module("kedge.keeper").stand_above((lock, channel))
    importlib.import_module("kedge.runs.controller_lock").ControllerLock(lock).sign()
    engine = importlib.import_module("kedge.engines.registry").load(told["engine"])
    engine.load()
    run_job = importlib.import_module("kedge.controller.main").main
    gc.freeze()
    gc.enable()
    run_job(folder, channel, orders)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[3]), int(sys.argv[5]))
