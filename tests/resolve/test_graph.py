"""The order of prerequisites and the cycles among them, for graphs of every shape."""

from __future__ import annotations

import graphlib
import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.errors import InputError

from .conftest import Folder, echo, names

GRAPHS = st.integers(1, 8).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=3, unique=True), min_size=size, max_size=size)
)


def expected(needs: list[list[int]], listed: list[int]) -> list[int]:
    """The order by definition: depth first, dependencies first, each item once."""
    out: list[int] = []

    def visit(item: int) -> None:
        for below in needs[item]:
            visit(below)
        if item not in out:
            out.append(item)

    for item in listed:
        visit(item)
    return out


def has_cycle(needs: list[list[int]]) -> bool:
    try:
        graphlib.TopologicalSorter(dict(enumerate(needs))).prepare()
    except graphlib.CycleError:
        return True
    return False


@given(GRAPHS, st.data())
@settings(max_examples=60)
def test_every_graph_is_ordered_or_its_cycle_is_named(needs: list[list[int]], data: st.DataObject) -> None:
    listed = data.draw(st.lists(st.integers(0, len(needs) - 1), max_size=5))
    items = [echo(f"i{n}", type="script", require=[f"i{m}" for m in below]) for n, below in enumerate(needs)]
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        everything = [f"i{n}" for n in range(len(needs))]
        if not has_cycle(needs):
            job = folder.resolve([f"i{n}" for n in listed], prerequisites=items)
            assert names(job) == [f"i{n}" for n in expected(needs, listed)]
            return
        with pytest.raises(InputError) as caught:
            folder.resolve(everything, prerequisites=items)
    for problem in caught.value.problems:
        message = str(getattr(problem, "message", problem))
        assert message.startswith("Prerequisite cycle: ")
        chain = [int(name[1:]) for name in message.removeprefix("Prerequisite cycle: ").split(" -> ")]
        assert chain[0] == chain[-1]
        assert all(below in needs[above] for above, below in itertools.pairwise(chain))


def test_two_roles_share_their_common_items(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    items = [echo("a", type="script", require=["b"]), echo("b", type="script")]
    text = folder.job(["a"], prerequisites=items)
    start = text.index("  w:\n")
    job = folder.resolve_text(text + text[start:].replace("  w:\n", "  v:\n").replace("- a\n", "- b\n"))
    assert [[step.name for step in role.steps] for role in job.roles] == [["b", "a"], ["b"]]
    assert job.requirements.roles == {"w": (1,), "v": (0,)}
    assert names(job) == ["b", "a"]
