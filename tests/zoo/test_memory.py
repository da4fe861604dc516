"""Programs that run out of memory of all kinds."""

from __future__ import annotations

from functools import partial

import pytest

from .case import Case
from .conftest import Zoo
from .needs import COMPILER, NUMPY, TORCH
from .places import memory_cgroup, small_shm

LOADER = """
    import torch
    from torch.utils.data import DataLoader, Dataset


    class Images(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return {item}


    if __name__ == "__main__":
        for batch in DataLoader(Images(), batch_size=4, num_workers=1):
            print(len(batch))
"""

CASES = [
    Case(
        "killed by the kernel",
        "host_oom_kill",
        "rows = []\nwhile True:\n    rows.append(bytearray(1 << 20))\n",
        place=partial(memory_cgroup, mebibytes=64),
    ),
    Case(
        "loader's worker killed by the kernel",
        "host_oom_kill",
        LOADER.format(item="torch.ones(1 << 29)"),
        place=partial(memory_cgroup, mebibytes=700),
        needs=(TORCH,),
    ),
    Case("limit of the shell", "host_oom_alloc", "rows = bytearray(1 << 32)\n", "ulimit -v 2000000\npython train.py",
         frame="train.py:1"),
    Case("numpy", "host_oom_alloc", "import numpy\nnumpy.ones((1 << 50))\n", frame="train.py:2", needs=(NUMPY,)),
    Case("torch", "host_oom_alloc", "import torch\ntorch.empty(1 << 50)\n", frame="train.py:2", needs=(TORCH,)),
    Case("mapping", "host_oom_alloc", "import mmap\nmmap.mmap(-1, 1 << 46)\n", frame="train.py:2"),
    Case(
        "C++",
        "host_oom_alloc",
        command="g++ -o tool tool.cc\n./tool",
        files={
            "tool.cc": """
                #include <vector>
                int main() { std::vector<char> rows(1ul << 60); return rows[1]; }
                """
        },
        needs=(COMPILER,),
    ),
    Case(
        "shared memory full, tensors of a loader",
        "shm_exhausted",
        LOADER.format(item="torch.ones(1 << 20)"),
        place=small_shm,
        needs=(TORCH,),
    ),
    Case(
        "shared memory full, bus error",
        "shm_exhausted",
        """
        import mmap

        with open("/dev/shm/batch", "w+b") as file:
            file.truncate(8 << 20)
            batch = mmap.mmap(file.fileno(), 0)
            batch[:] = bytes(len(batch))
        """,
        place=small_shm,
    ),
    Case(
        "shared memory full, written to",
        "shm_exhausted",
        "with open('/dev/shm/batch', 'wb') as file:\n    file.write(bytes(8 << 20))\n",
        frame="train.py:2",
        place=small_shm,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_memory(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
