"""Jobs with several tasks: one fails for a reason of its own, the others fail as a consequence or are stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from .case import Case
from .conftest import Zoo
from .needs import TORCH

# A server that works for its client until it fails in line 12.
SERVER = """
    import json
    import os
    import socket

    server = socket.create_server(("127.0.0.1", int(os.environ["PAI_PORT_LIST_ps_0_main"])))
    print("serving")
    connection, _ = server.accept()
    for step in range(3):
        print("step", step)
        connection.recv(4)
        connection.sendall(b"sums")
    {failure}
"""
# Its end, which ends the job, comes after the server's.
CLIENT = """
    import atexit
    import os
    import socket
    import time


    @atexit.register
    def wait():
        while not os.path.exists(os.environ["PAI_LOG_DIR"] + "/../ps-0/report.json"):
            time.sleep(0.1)


    def connect():
        while True:
            try:
                return socket.create_connection(("127.0.0.1", int(os.environ["PAI_PORT_LIST_ps_0_main"])))
            except ConnectionRefusedError:
                pass


    connection = connect()
    while True:
        {work}
"""
GLOO = """
    import os

    import torch
    import torch.distributed as dist

    rank, address = int(os.environ["PAI_TASK_INDEX"]), os.environ["PAI_PORT_LIST_worker_0_main"]
    if {when} == "before" and rank == {failing}:
        {failure}
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + address, rank=rank, world_size=3)
    for step in range(3):
        if step == 1 and rank == {failing}:
            {failure}
        dist.all_reduce(torch.ones(4))
"""
# The job ends only when all its tasks have failed, so that every one has its own story to tell.
ALL_FAIL = {"minFailedInstances": 3, "minSucceededInstances": -1}


def pair(name: str, cause: str, failure: str, work: str, frame: str | None = None) -> Case:
    """A server whose end does not end the job, and a client whose end does."""
    roles = {
        "worker": {"commands": ["python client.py"]},
        "ps": {"completion": {"minFailedInstances": -1, "minSucceededInstances": -1}},
    }
    files = {"client.py": CLIENT.format(work=work)}
    return Case(name, cause, SERVER.format(failure=failure), frame=frame, task="ps:0", files=files, roles=roles)


def gloo(name: str, cause: str, failure: str, frame: str, failing: int = 1, when: str = "later") -> Case:
    """Three workers that add up tensors; one fails in the second step, or before they connect."""
    program = GLOO.format(when=repr(when), failing=failing, failure=failure)
    return Case(name, cause, program, frame=frame, task=f"worker:{failing}", needs=(TORCH,), roles=workers(3, ALL_FAIL))


def workers(instances: int, completion: Mapping[str, int] | None = None) -> dict[str, dict[str, Any]]:
    return {"worker": {"instances": instances, **({"completion": completion} if completion else {})}}


RECEIVE = """connection.sendall(b"grad")
        if not connection.recv(4):
            raise ConnectionError("the server has closed the connection")"""
SEND = "connection.sendall(bytes(1 << 16))"

CASES = [
    pair("connection reset because the server failed", "python_bug", "print({'w': 1}['b'])", SEND, frame="train.py:12"),
    pair(
        "no answer because the server lacks a file", "data_file_missing", "open('w.csv')", RECEIVE, frame="train.py:12"
    ),
    pair("connection lost because the server crashed", "native_crash", "os.abort()", SEND),
    pair("connection lost because the server was killed", "sigkill_unattributed", "os.kill(os.getpid(), 9)", SEND),
    pair("server stops on a bad message", "data_corrupt", "json.loads('{\"w\":')", SEND, frame="train.py:12"),
    gloo("gloo breaks because a worker failed", "missing_module", "import kedge_zoo_absent", "train.py:12"),
    gloo("gloo breaks because the first worker failed", "python_bug", "[][step]", "train.py:12", failing=0),
    Case(
        "the rest is stopped",
        "data_file_missing",
        """
        import os
        import signal

        index = int(os.environ["PAI_TASK_INDEX"])
        if index == 2:
            open(f"part-{index}.csv")
        signal.pause()
        """,
        frame="train.py:6",
        task="worker:2",
        roles=workers(4),
    ),
    Case(
        "the rest complains while it is stopped",
        "missing_module",
        """
        import os
        import signal


        def stop(*args):
            raise RuntimeError("CUDA error: out of memory while stopping")


        signal.signal(signal.SIGTERM, stop)
        if os.environ["PAI_TASK_INDEX"] == "1":
            import kedge_zoo_absent
        signal.pause()
        """,
        frame="train.py:11",
        task="worker:1",
        roles=workers(3),
    ),
    Case(
        "it failed, hung, and was stopped after its victim had ended",
        "python_bug",
        """
        import os
        import signal
        import time
        import traceback

        failed = os.environ["PAI_LOG_DIR"] + "/../worker-1/user-all/current"
        if os.environ["PAI_TASK_INDEX"] == "1":
            try:
                {}["label"]
            except KeyError:
                traceback.print_exc()
            signal.pause()
        while not os.path.exists(failed) or not os.path.getsize(failed):
            time.sleep(0.1)
        raise ConnectionError("gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:123")
        """,
        frame="train.py:9",
        task="worker:1",
        roles=workers(2),
    ),
    Case(
        "all fail for the same reason, one first",
        "missing_module",
        """
        import os

        first = os.environ["PAI_LOG_DIR"] + "/../worker-1/report.json"
        while os.environ["PAI_TASK_INDEX"] == "0" and not os.path.exists(first):
            pass
        import kedge_zoo_absent
        """,
        frame="train.py:6",
        task="worker:1",
        roles=workers(2, {"minFailedInstances": 2, "minSucceededInstances": -1}),
    ),
]
DOES_NOT_MATTER = Case(
    "a failure that does not matter",
    "python_bug",
    "raise KeyError('labels')\n",
    task="evaluator:0",
    roles={
        "worker": {"commands": ["until [ -s $PAI_LOG_DIR/../evaluator-0/report.json ]; do sleep 0.1; done"]},
        "evaluator": {"completion": {"minFailedInstances": -1, "minSucceededInstances": -1}},
    },
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_jobs(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)


def test_a_failure_that_does_not_matter_is_explained_though_the_job_succeeds(zoo: Zoo) -> None:
    assert zoo.expect(DOES_NOT_MATTER)["state"] == "succeeded"
