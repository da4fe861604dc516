"""The protocol's test cases: lists of prerequisites and their meaning with one given marketplace."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.errors import FORBIDDEN, INVALID, NOT_FOUND

from .conftest import Folder, echo, names, reference, scripts

M = "marketplace://name/"
BY_ID = "marketplace://prerequisites/itemId/"
IMAGE = {"name": "i", "type": "dockerimage", "uri": "x"}
T1 = reference("r1", f"{M}t", p=1)


@pytest.fixture
def market(folder: Folder) -> dict[str, Any]:
    """The marketplace of the cases, as inputs."""
    items: dict[str, Any] = {
        "a": echo("a", require=[f"{M}b"]),
        "b": echo("b"),
        "c": echo("c", require=[f"{M}d"]),
        "d": echo("d", require=[f"{M}c"]),
        "t": echo("t", "echo {{ p }}", template_variables=[{"name": "p"}], require=["b"]),
        "x": echo("x"),
        "job1": {"protocolVersion": 2, "type": "job", "taskRoles": {}, "prerequisites": [IMAGE]},
        "job2": {"protocolVersion": 2, "type": "job", "taskRoles": {}, "prerequisites": [IMAGE, echo("only")]},
    }
    for name, item in items.items():
        folder.write(f"market/{name}.yaml", item)
    entries: list[dict[str, Any]] = [{"id": f"id-{n}", "name": n, "path": f"{n}.yaml"} for n in items]
    entries[5] |= {"author": "somebody", "isPrivate": True}
    entries += [{"id": "1", "name": "dup", "path": "a.yaml"}, {"id": "2", "name": "dup", "path": "b.yaml"}]
    entries += [
        {"id": "3", "name": "two", "path": "a.yaml"},
        {"id": "4", "name": "two", "path": "b.yaml", "official": True},
    ]
    entries += [{"id": "5", "name": "own", "path": "a.yaml", "official": True}]
    entries += [{"id": "6", "name": "own", "path": "b.yaml", "author": "me", "isPrivate": True}]
    folder.write("market/index.json", {"items": entries})
    return {"marketplace": str(folder.path / "market")}


@pytest.mark.parametrize(
    ("listed", "references", "expected"),
    [
        ([f"{M}a"], [], ["b", "a"]),
        ([f"{M}a", f"{M}b"], [], ["b", "a"]),
        ([f"{M}b", f"{M}a"], [], ["b", "a"]),
        (["l", f"{BY_ID}id-b"], [{"name": "l", "require": [f"{M}b"]}], ["b", "l"]),
        (["r1", "r2"], [T1, reference("r2", f"{M}t", p=2)], ["b", "t(p=1)", "r1", "t(p=2)", "r2"]),
        (["r1", "r2"], [T1, reference("r2", f"{M}t", p=1)], ["b", "t(p=1)", "r1", "r2"]),
        ([f"{BY_ID}id-job2"], [], ["only"]),
        ([f"{M}two"], [], ["b"]),
        ([f"{M}own"], [], ["b"]),
        ([], [], []),
    ],
)  # fmt: skip
def test_accepted(
    folder: Folder, market: dict[str, Any], listed: list[str], references: list[Any], expected: list[str]
) -> None:
    job = folder.resolve(listed, market, extras={"reference_prerequisites": references})
    assert names(job) == expected


@pytest.mark.parametrize(
    ("listed", "references", "message", "code"),
    [
        ([f"{M}c"], [], f"Prerequisite cycle: {M}c -> {M}d -> {M}c", INVALID),
        ([f"{M}t"], [], "Template variable p of prerequisite t is not fulfilled.", INVALID),
        (["r"], [reference("r", f"{M}t", p=1, q=2)], "Prerequisite t has no template variable q.", INVALID),
        ([f"{M}x"], [], f"Prerequisite {M}x: it is private", FORBIDDEN),
        ([f"{M}none"], [], f"Prerequisite {M}none does not exist: the marketplace", NOT_FOUND),
        ([f"{M}dup"], [], f"Prerequisite {M}dup: it is ambiguous; write one of {BY_ID}1, {BY_ID}2", INVALID),
        ([f"{BY_ID}id-job1"], [], "Item id-job1 is not a prerequisite.", INVALID),
        (["./market/bad.yaml"], [], "Prerequisite ./market/bad.yaml does not exist: there is no file", INVALID),
    ],
)
def test_refused(
    folder: Folder, market: dict[str, Any], listed: list[str], references: list[Any], message: str, code: str
) -> None:
    problem = folder.problem(listed, market, extras={"reference_prerequisites": references})
    assert problem.message.startswith(message)
    assert problem.code == code
    assert problem.line > 0
    assert problem.where


@pytest.mark.parametrize("wrong", ["marketplace://data", "ftp://h/x", "marketplace://foo/b", "http://u:p@h/x"])
def test_malformed_lists_of_references_are_refused(folder: Folder, market: dict[str, Any], wrong: str) -> None:
    problem = folder.problem([wrong], market)
    assert problem.message.startswith(f"Prerequisite reference {wrong.replace(':p@', ':******@')} is invalid.")
    assert problem.where == "taskRoles.w.prerequisites[0]"


def test_wrong_requirements_of_an_entry_are_reported_if_it_is_used(folder: Folder, market: dict[str, Any]) -> None:
    assert names(folder.resolve([], market, extras={"reference_prerequisites": [reference("r", f"{M}none")]})) == []


def test_required_items_run_first(folder: Folder) -> None:
    items = [
        echo("A", type="script", require=["B", "C"]),
        echo("B", type="script", require=["D"]),
        echo("C", type="script", require=["D"]),
        echo("D", type="script"),
        echo("E", type="script"),
    ]
    assert list(scripts(folder.resolve(["A", "E", "C"], prerequisites=items))) == ["D", "B", "C", "A", "E"]


def test_images_may_be_required_and_do_nothing(folder: Folder) -> None:
    assert names(folder.resolve(["A"], prerequisites=[echo("A", type="script", require=["image"])])) == ["A"]


def test_at_most_16_in_a_chain_and_64_in_a_role(folder: Folder) -> None:
    def chain(length: int) -> list[dict[str, Any]]:
        needs = [{"require": [f"i{n + 1}"]} for n in range(length - 1)] + [{}]
        return [echo(f"i{n}", type="script", **need) for n, need in enumerate(needs)]

    assert len(names(folder.resolve(["i0"], prerequisites=chain(16)))) == 16
    deep = folder.problem(["i0"], prerequisites=chain(17))
    assert deep.message.startswith("Prerequisites require each other more than 16 levels deep: i0 -> i1 -> ")
    assert deep.where == "prerequisites[16].require[0]"
    wide = [echo(f"i{n}", type="script") for n in range(65)]
    assert len(names(folder.resolve([f"i{n}" for n in range(64)], prerequisites=wide))) == 64
    many = folder.problem([f"i{n}" for n in range(65)], prerequisites=wide)
    assert many.message == "a task role may require at most 64 prerequisites"
    assert many.where == "taskRoles.w.prerequisites"


def test_depth_is_checked_on_every_path_to_an_item(folder: Folder) -> None:
    items = [echo(f"i{n}", type="script", require=[f"i{n + 1}"] if n < 15 else []) for n in range(16)]
    items.append(echo("above", type="script", require=["i0"]))
    deep = folder.problem(["i0", "above"], prerequisites=items)
    assert "more than 16 levels deep: above -> i0" in deep.message


def test_an_item_whose_values_always_change_ends_at_the_limit(folder: Folder) -> None:
    again = {"name": "a", "template_variables": {"p": "{{ p }}x"}}
    item = echo("a", type="script", template_variables=[{"name": "p", "default": "x"}], require=[again])
    assert "more than 16 levels deep" in folder.problem(["a"], prerequisites=[item]).message
    both = echo("a", type="script", template_variables=[{"name": "p", "default": "x"}], require=[again, {
        "name": "a", "template_variables": {"p": "{{ p }}y"}}])  # fmt: skip
    assert {p.message[:33] for p in folder.problems(["a"], prerequisites=[both])} >= {
        "a task role may require at most 6"
    }
