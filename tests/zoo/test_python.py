"""Programs that end with a Python exception."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import NUMPY

STEP = """
    import json


    def step(batch):
        return {expression}


    for number in range(3):
        print("step", number)
        step({{"x": [1, 2], "n": number}})
"""


def step(expression: str) -> str:
    """A training loop whose line 5, in `step`, evaluates `expression`."""
    return STEP.format(expression=expression)


CASES = [
    Case("missing module", "missing_module", "import json\n\nimport kedge_zoo_absent\n", frame="train.py:3"),
    Case("missing submodule", "missing_module", "import json.absent\n", frame="train.py:1"),
    Case(
        "missing module of a module of one's own",
        "missing_module",
        "import model\n",
        files={"model.py": "def build():\n    import kedge_zoo_absent\n\n\nbuild()\n"},
        frame="model.py:2 in build",
    ),
    Case("cannot import name", "import_conflict", "from collections import Mapping\n", frame="train.py:1"),
    Case(
        "circular import",
        "import_conflict",
        "import model\n",
        files={"model.py": "from data import load\n", "data.py": "from model import Net\n"},
        frame="data.py:1",
    ),
    Case("syntax error", "syntax_error", "def step(:\n    pass\n"),
    Case("syntax error in an import", "syntax_error", "import model\n", files={"model.py": "class Net\n    pass\n"}),
    Case("tabs and blanks", "syntax_error", "if True:\n        x = 1\n\ty = 2\n"),
    Case("undefined name", "python_bug", step("batsh['x']"), frame="train.py:5 in step"),
    Case("missing key", "python_bug", step("batch['y']"), frame="train.py:5 in step"),
    Case("index out of range", "python_bug", step("batch['x'][7]"), frame="train.py:5 in step"),
    Case("wrong type", "python_bug", step("batch['x'] + batch['n']"), frame="train.py:5 in step"),
    Case("no such attribute", "python_bug", step("batch.x"), frame="train.py:5 in step"),
    Case("own frame above the library's", "python_bug", step("json.dumps({'x': {1, 2}})"), frame="train.py:5 in step"),
    Case("recursion without end", "python_bug", step("step(batch)"), frame="train.py:5 in step"),
    Case("assertion", "python_bug", "rows = []\nassert rows, 'no rows'\n", frame="train.py:2"),
    Case("numpy shapes", "shape_mismatch", "import numpy\nnumpy.ones((2, 3)) @ numpy.ones((2, 3))\n", needs=(NUMPY,)),
    Case("numpy broadcast", "shape_mismatch", "import numpy\nnumpy.ones(3) + numpy.ones(4)\n", needs=(NUMPY,)),
    Case(
        "loss is NaN",
        "loss_nan",
        """
        weight = 1e300
        for step in range(5):
            weight *= -1e200
            loss = weight - weight
            print(f"step {step} loss {loss}")
            if loss != loss:
                raise ValueError(f"loss is {loss} at step {step}, stopping")
        """,
        frame="train.py:7",
    ),
    Case(
        "unknown option",
        "bad_config",
        """
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float)
        parser.parse_args()
        """,
        "python train.py --learning-rate 0.1",
    ),
    Case(
        "option with a wrong value",
        "bad_config",
        """
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--optimizer", choices=["sgd", "adam"])
        parser.parse_args()
        """,
        "python train.py --optimizer adamm",
    ),
    Case(
        "section missing in the configuration",
        "bad_config",
        """
        import configparser

        config = configparser.ConfigParser()
        config.read("train.ini")
        print(config.get("optimizer", "lr"))
        """,
        files={"train.ini": "[model]\nlayers = 3\n"},
        frame="train.py:5",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_python(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
