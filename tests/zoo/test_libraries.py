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
LOAD = """
    import torch
    import pathlib
    {save}
    torch.load("last.pt")
"""
WORKERS = """
    import os
    from joblib import Parallel, delayed


    def extract(path):
        {body}


    if __name__ == "__main__":
        Parallel(n_jobs=2)(delayed(extract)(f"{{n}}.wav") for n in range(4))
"""


def loads(name: str, cause: str, save: str) -> Case:
    """A checkpoint is written by a statement, and loaded in line 4."""
    return Case(name, cause, LOAD.format(save=save), frame="train.py:4", needs=(TORCH,))


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
    loads("torch, half a checkpoint", "checkpoint_corrupt",
          "torch.save({'weight': torch.ones(9999)}, 'last.pt'); open('last.pt', 'r+b').truncate(9000)"),
    loads("torch, an empty checkpoint", "checkpoint_corrupt", "open('last.pt', 'w').close()"),
    loads("torch, a pointer to a checkpoint", "checkpoint_corrupt",
          "pathlib.Path('last.pt').write_text('version git-lfs')"),
    loads("torch, a checkpoint that is refused", "checkpoint_mismatch",
          "torch.save({'path': pathlib.Path('a')}, 'last.pt')"),
    Case("torch, another model's checkpoint", "checkpoint_mismatch",
         "import torch\n\ntorch.nn.Linear(2, 3).load_state_dict(torch.nn.Linear(2, 4).state_dict())\n",
         frame="train.py:3", needs=(TORCH,)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_libraries(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
