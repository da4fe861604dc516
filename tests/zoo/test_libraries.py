"""Libraries that reject their arguments."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import TORCH, module

SKLEARN = module("sklearn")
JOBLIB = module("joblib")

FIT = """
    import numpy
    from sklearn.linear_model import LinearRegression

    rows = numpy.ones((4, 2))
    rows[1, 1] = {value}
    LinearRegression().fit(rows, {labels})
"""
SAVE = "import torch\n\ntorch.save({'weight': torch.ones(9999)}, 'last.pt')\n"
LOAD = "import torch\n\nstate = torch.load('last.pt')\n"
WORKERS = """
    import os
    from joblib import Parallel, delayed


    def extract(path):
        {body}


    if __name__ == "__main__":
        Parallel(n_jobs=2)(delayed(extract)(f"{{n}}.wav") for n in range(4))
"""


def loads(name: str, cause: str, damage: str) -> Case:
    command = f"python save.py\n{damage}\npython train.py"
    return Case(name, cause, LOAD, command, files={"save.py": SAVE}, frame="train.py:3", needs=(TORCH,))


CASES = [
    Case("sklearn, not a number", "data_corrupt", FIT.format(value="numpy.nan", labels="rows[:, 0]"),
         frame="train.py:6", needs=(SKLEARN,)),
    Case("sklearn, infinity", "data_corrupt", FIT.format(value="numpy.inf", labels="rows[:, 0]"),
         frame="train.py:6", needs=(SKLEARN,)),
    Case("sklearn, numbers of samples", "shape_mismatch", FIT.format(value="1", labels="rows[:3, 0]"),
         frame="train.py:6", needs=(SKLEARN,)),
    Case("sklearn, parameter", "bad_config",
         "from sklearn.ensemble import RandomForestClassifier\n\n"
         "RandomForestClassifier(n_estimators=0).fit([[1]], [1])\n",
         frame="train.py:3", needs=(SKLEARN,)),
    Case("torch, learning rate", "bad_config",
         "import torch\n\ntorch.optim.AdamW(torch.nn.Linear(1, 1).parameters(), lr=-1)\n", frame="train.py:3",
         needs=(TORCH,)),
    Case("joblib, a worker raises", "data_file_missing", WORKERS.format(body="return open(path).read()"),
         needs=(JOBLIB,)),
    Case("joblib, a worker crashes", "native_crash", WORKERS.format(body="os.abort()"), needs=(JOBLIB,)),
    Case("joblib, a worker is killed", "sigkill_unattributed", WORKERS.format(body="os.kill(os.getpid(), 9)"),
         needs=(JOBLIB,)),
    loads("torch, half a checkpoint", "checkpoint_corrupt", "truncate -s 9000 last.pt"),
    loads("torch, an empty checkpoint", "checkpoint_corrupt", ": > last.pt"),
    loads("torch, a pointer to a checkpoint", "checkpoint_corrupt", "echo version git-lfs > last.pt"),
    Case("torch, a checkpoint that is refused", "checkpoint_mismatch", LOAD, "python save.py\npython train.py",
         files={"save.py": "import pathlib, torch\ntorch.save({'path': pathlib.Path('a')}, 'last.pt')\n"},
         frame="train.py:3", needs=(TORCH,)),
    Case("torch, another model's checkpoint", "checkpoint_mismatch",
         "import torch\n\ntorch.nn.Linear(2, 3).load_state_dict(torch.nn.Linear(2, 4).state_dict())\n",
         frame="train.py:3", needs=(TORCH,)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_libraries(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
