"""The options of a run as they are written on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.cli.view.options_text import engine_words


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("local", {"allow_fewer_gpus": False}, []),
        (
            "container", {"network": "host", "keep": True, "user": None},
            ["--engine", "container", "--network", "host", "--keep"],
        ),
        (
            "slurm",
            {"partition": "gpu", "requeue": True, "exclusive": False, "gres": "gpu", "prologue": ["module load x"]},
            ["--engine", "slurm", "--slurm", "partition=gpu", "--slurm", "requeue=yes"],
        ),
        ("gone", {"a_b": {"x": "/y"}, "c": 3}, ["--engine", "gone", "--a-b", "x=/y", "--c", "3"]),
    ],
)  # fmt: skip
def test_what_would_make_the_same_engine_again(name: str, options: dict[str, Any], words: list[str]) -> None:
    assert list(engine_words(name, options)) == words
