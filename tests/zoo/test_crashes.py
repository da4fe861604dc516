"""Native code that crashes."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import COMPILER, TORCH

LOADER = """
    from torch.utils.data import DataLoader, Dataset


    class Images(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            {body}


    if __name__ == "__main__":
        for batch in DataLoader(Images(), batch_size=4, num_workers=1):
            print(len(batch))
"""
SEGFAULT = "import ctypes\n\nprint('step 1', flush=True)\nctypes.string_at(0)\n"

CASES = [
    Case("segmentation fault", "native_crash", SEGFAULT),
    Case("segmentation fault that Python tells about", "native_crash", SEGFAULT, "python -X faulthandler train.py"),
    Case("segmentation fault in a pipe", "native_crash", SEGFAULT, "python train.py | cat"),
    Case("abort", "native_crash", "import os\nprint('step 1')\nos.abort()\n"),
    Case(
        "assertion in C",
        "native_crash",
        "import ctypes\nctypes.CDLL('./fast.so').step(-1)\n",
        "gcc -shared -fPIC -o fast.so fast.c\npython train.py",
        files={"fast.c": "#include <assert.h>\nint step(int size) { assert(size > 0); return size; }\n"},
        needs=(COMPILER,),
    ),
    Case(
        "C++ exception that nobody catches",
        "native_crash",
        command="g++ -o tool tool.cc\n./tool",
        files={"tool.cc": '#include <stdexcept>\nint main() { throw std::runtime_error("bad graph"); }\n'},
        needs=(COMPILER,),
    ),
    Case(
        "division by zero in C",
        "native_crash",
        command="gcc -o tool tool.c\n./tool",
        files={"tool.c": "int main(int argc, char **argv) { volatile int n = argc - 1; return 7 / n; }\n"},
        needs=(COMPILER,),
    ),
    Case(
        "mapped file cut short",
        "native_crash",
        """
        import mmap

        with open("data.bin", "w+b") as file:
            file.truncate(1 << 20)
            rows = mmap.mmap(file.fileno(), 0)
            file.truncate(0)
            print(rows[4096])
        """,
    ),
    Case(
        "loader's worker crashes",
        "native_crash",
        LOADER.format(body="import ctypes; return ctypes.string_at(0)"),
        needs=(TORCH,),
    ),
    Case(
        "loader's worker killed by a stranger",
        "sigkill_unattributed",
        LOADER.format(body="import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
        needs=(TORCH,),
    ),
    Case(
        "loader's worker raises",
        "python_bug",
        LOADER.format(body="return {'label': 1}['labels']"),
        frame="train.py:9 in __getitem__",
        needs=(TORCH,),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_crashes(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
