"""One task with several processes: torchrun, gloo and MPI."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import MPIRUN, TORCH

PORT = "$PAI_PORT_LIST_worker_0_main"
TORCHRUN = "torchrun --standalone --nproc-per-node {} train.py"
# One of several ranks fails in line 8; the others wait for it.
RANKS = """
    import os
    import signal

    rank = int(os.environ["RANK"])
    print(f"rank {{rank}} starts")
    if rank != {failing}:
        signal.pause()
    {failure}
"""
GLOO = """
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds={patience}))
    gradients = torch.ones(4)
    for step in range(3):
        if dist.get_rank() == 1 and step == 1:
            {failure}
        dist.all_reduce(gradients)
    dist.destroy_process_group()
"""
MEET = """
    import os
    from datetime import timedelta

    import torch.distributed as dist

    first, patience = "tcp://127.0.0.1:" + os.environ["PAI_PORT_LIST_worker_0_main"], timedelta(seconds=2)
    dist.init_process_group("gloo", init_method=first, rank={rank}, world_size=2, timeout=patience)
"""
# mpi4py without mpi4py: the library itself, and an exception that ends all ranks. An abort overtakes what was said,
# which mpirun forwards, so it waits for that.
MPI = """
    import ctypes
    import os
    import sys

    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
    mpi.MPI_Init(None, None)
    rank = ctypes.c_int()
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))


    def abort(*error):
        sys.__excepthook__(*error)
        while b"Error" not in open(os.environ["PAI_LOG_DIR"] + "/user-all/current", "rb").read(): pass
        mpi.MPI_Abort(world, 1)


    sys.excepthook = abort
    if rank.value == 1:
        {failure}
    mpi.MPI_Barrier(world)
    mpi.MPI_Finalize()
"""
# Only over lo: networks of containers, which other tests make and remove, come and go.
MPIEXEC = """
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
mpirun --oversubscribe --mca btl self,tcp -np 3 python train.py
"""


def ranks(name: str, cause: str, failure: str, failing: int = 2, frame: str | None = None) -> Case:
    program = RANKS.format(failing=failing, failure=failure)
    return Case(name, cause, program, TORCHRUN.format(4), frame=frame, needs=(TORCH,))


def gloo(name: str, cause: str, failure: str, frame: str | None = None, patience: int = 600) -> Case:
    program, command = GLOO.format(failure=failure, patience=patience), TORCHRUN.format(2)
    return Case(name, cause, program, command, frame=frame, needs=(TORCH,))


def mpi(name: str, cause: str, failure: str, frame: str | None = None) -> Case:
    return Case(name, cause, MPI.format(failure=failure), MPIEXEC, frame=frame, needs=(MPIRUN,))


CASES = [
    ranks("torchrun, one rank of four raises", "python_bug", "{'loss': 1}['acc']", frame="train.py:8"),
    ranks("torchrun, one rank of four lacks its data", "data_file_missing", "open(f'{rank}.csv')", frame="train.py:8"),
    ranks("torchrun, one rank of four crashes", "native_crash", "os.abort()"),
    ranks("torchrun, one rank of four is killed", "sigkill_unattributed", "os.kill(os.getpid(), signal.SIGKILL)"),
    gloo("gloo, a peer raises", "python_bug", "raise KeyError('labels')", frame="train.py:10"),
    gloo("gloo, a peer runs out of memory", "host_oom_alloc", "torch.empty(1 << 50)", frame="train.py:10"),
    gloo("gloo, a peer is slow", "nccl_timeout", "__import__('signal').pause()", patience=15),
    gloo("gloo, ranks disagree on shapes", "distributed_usage_error", "gradients = torch.ones(8)"),
    Case("without an environment", "distributed_usage_error",
         "import torch.distributed as dist\n\ndist.init_process_group('gloo')\n", frame="train.py:3", needs=(TORCH,)),
    Case("without a process group", "distributed_usage_error",
         "import torch\nimport torch.distributed as dist\n\ndist.all_reduce(torch.ones(1))\n", frame="train.py:4",
         needs=(TORCH,)),
    Case("nobody else comes", "rendezvous_failure", MEET.format(rank=0), needs=(TORCH,)),
    Case("the first rank is not there", "rendezvous_failure", MEET.format(rank=1), needs=(TORCH,)),
    Case("torchrun, the other node does not come", "rendezvous_failure", "",
         "torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-conf join_timeout=2,last_call_timeout=1 "
         "--rdzv-id zoo --rdzv-endpoint 127.0.0.1:" + PORT + " train.py", needs=(TORCH,)),
    Case("port of the first rank in use", "port_in_use",
         "import socket\n\nserver = socket.create_server(('0.0.0.0', 0))\n"
         "import torch.distributed as dist\n\ndist.TCPStore('127.0.0.1', server.getsockname()[1], 1, True)\n",
         frame="train.py:6", needs=(TORCH,)),
    mpi("MPI, a rank raises and aborts all", "python_bug", "{'loss': 1}['acc']", frame="train.py:20"),
    mpi("MPI, a rank crashes", "native_crash", "ctypes.string_at(0)"),
    mpi("MPI, a rank is killed", "sigkill_unattributed", "__import__('os').kill(__import__('os').getpid(), 9)"),
    mpi("MPI, a rank ends without a word", "peer_failure", "__import__('os')._exit(3)"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_distributed(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
