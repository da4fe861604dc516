"""What PyTorch refuses to compute, and checkpoints that it cannot load."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import TORCH
from .places import small_disk

STEP = """
    import torch
    from torch import nn


    def step(model, batch):
        return {expression}


    step(nn.Linear(4, 2), torch.ones(3, 4))
"""
LOAD = """
    import torch

    model = torch.nn.Linear(4, 2)
    torch.save({saved}, "model.pt")
    {damage}
    model.load_state_dict(torch.load("model.pt"))
"""


def step(name: str, cause: str, expression: str) -> Case:
    """`expression` fails in line 6."""
    return Case(name, cause, STEP.format(expression=expression), frame="train.py:6 in step", needs=(TORCH,))


def load(name: str, cause: str, saved: str = "model.state_dict()", damage: str = "pass") -> Case:
    """A checkpoint is saved, damaged, and loaded in line 6."""
    return Case(name, cause, LOAD.format(saved=saved, damage=damage), frame="train.py:6", needs=(TORCH,))


CASES = [
    step("shapes of a layer", "shape_mismatch", "model(batch.T)"),
    step("shapes of a sum", "shape_mismatch", "batch + batch.T"),
    step("shape of a view", "shape_mismatch", "batch.view(5, 2)"),
    step("types", "dtype_device_mismatch", "model(batch.double())"),
    step("type of labels", "dtype_device_mismatch", "nn.functional.nll_loss(model(batch), torch.ones(3))"),
    step("devices", "dtype_device_mismatch", "batch + batch.to('meta')"),
    step("array on another device", "dtype_device_mismatch", "batch.to('meta').numpy()"),
    step("no gradient", "python_bug", "batch.sum().backward()"),
    step("changed in place", "python_bug", "batch.requires_grad_().add_(1)"),
    step("index out of range", "python_bug", "nn.Embedding(4, 2)(torch.tensor([4]))"),
    step("without CUDA", "gpu_arch_unsupported", "batch.cuda()"),
    load("layers that do not fit", "checkpoint_mismatch", "torch.nn.Linear(8, 2).state_dict()"),
    load("names that do not fit", "checkpoint_mismatch", "{'module.weight': model.weight}"),
    load("checkpoint cut short", "checkpoint_corrupt", damage="open('model.pt', 'r+b').truncate(700)"),
    load("checkpoint empty", "checkpoint_corrupt", damage="open('model.pt', 'w').close()"),
    load("checkpoint is a pointer", "checkpoint_corrupt",
         damage="open('model.pt', 'w').write('version https://git-lfs.github.com/spec/v1\\n')"),
    load("checkpoint missing", "checkpoint_missing", damage="import os; os.remove('model.pt')"),
    Case(
        "no room for the checkpoint",
        "disk_full",
        "import os\nimport torch\ntorch.save(torch.ones(1 << 20), os.environ['DISK'] + '/model.pt')\n",
        place=small_disk,
        frame="train.py:3",
        needs=(TORCH,),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tensors(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
