"""`<% this.key %>`: own values, inherited ones, and tags without a value."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.spec.units import NOT_A_DURATION

from .conftest import Folder, echo, scripts


def items(line: str, *required: dict[str, Any], **own: Any) -> list[dict[str, Any]]:
    """An item `top` with one shell line and these keys, and the items that it requires."""
    needs = [item["name"] for item in required]
    return [echo("top", line, type="script", require=needs, **own), *required]


def holder(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": "data", **keys}


def line(folder: Folder, written: str, *required: dict[str, Any], **own: Any) -> str:
    return scripts(folder.resolve(["top"], prerequisites=items(written, *required, **own)))["top"]


@pytest.mark.parametrize(
    ("written", "own", "expected"),
    [
        ("a <% this.x %> b", {"x": 1.5}, "a 1.5 b"),
        ("<%this.parameters.x%><% this . x %>", {"x": "y"}, "yy"),
        ("<% this.list[1] %>", {"list": ["a", "b"]}, "b"),
        ("<% this.deep.er[0].x %>", {"deep": {"er": [{"x": True}]}}, "true"),
        ("<% this.x %>", {"x": "<% this.y %>!", "y": "<% this.z %>", "z": "end"}, "end!"),
        ("<% this.name %>", {}, "top"),
        ("<% this.x %>", {"x": "<% $parameters.p %>"}, "from the job"),
        ("<% that.x %> {{ this.x }}", {}, "<% that.x %> {{ this.x }}"),
    ],
)
def test_an_item_can_refer_to_its_own_values(folder: Folder, written: str, own: dict[str, Any], expected: str) -> None:
    job = folder.resolve(["top"], prerequisites=items(written, **own), parameters={"p": "from the job"})
    assert scripts(job)["top"] == f"{expected}\n"


def test_the_nearest_definition_wins(folder: Folder) -> None:
    deep = holder("deep", x="deep", only="deep")
    near, other = holder("near", require=["deep"]), holder("other", x="other")
    found = folder.resolve(["top"], prerequisites=[*items("<% this.x %> <% this.only %>", near, other), deep])
    assert scripts(found)["top"] == "other deep\n"


def test_data_inherits_values_of_its_storage(folder: Folder) -> None:
    storage = {
        "name": "nfs-storage-1", "type": "storage", "plugin": "com.microsoft.pai.rest.storage", "config": "nfsconfig",
        "mountPoint": "/mnt/nfs-storage-1",
    }  # fmt: skip
    assert line(folder, "export D=<% this.mountPoint %>/mnist", storage) == "export D=/mnt/nfs-storage-1/mnist\n"
    pvc = {"name": "p", "type": "storage", "plugin": "pvc_storage", "plugin_params": {"name": "q", "mountPath": "/q"}}
    assert line(folder, "ls <% this.mountPath %>", pvc) == "ls /q\n"


def test_an_inherited_value_is_rendered_in_its_own_item(folder: Folder) -> None:
    assert line(folder, "<% this.x %>", holder("h", x="<% this.y %>", y="theirs"), y="ours") == "theirs\n"


def test_a_tag_that_is_a_whole_scalar_takes_the_type_of_the_value(folder: Folder) -> None:
    item = echo("top", type="script", timeoutSec="<% this.patience %>", require=["h"])
    (step,) = folder.resolve(["top"], prerequisites=[item, holder("h", patience=2.5)]).roles[0].steps
    assert step.timeout_sec == 2.5
    problem = folder.problem(["top"], prerequisites=[item, holder("h", patience="soon")])
    assert problem.where == "prerequisites[1].timeoutSec"
    assert problem.message == "'soon' is not a duration; " + NOT_A_DURATION.partition("; ")[2]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("<% this.no %>", "Reference this.no of prerequisite top is undefined."),
        ("<% this.uri %>", "Reference this.uri of prerequisite top is undefined."),
        ("<% this.list[2] %>", "Reference this.list[2] of prerequisite top is undefined."),
        ("<% this.list %>", "Reference this.list of prerequisite top is a list, not a scalar."),
        ("<% this.loop %>", "Reference this.loop of prerequisite top refers to itself."),
        ("<% this %>", "'<% this %>' is not a reference; write it like <% this.key %>"),
    ],
)
def test_a_tag_without_a_value_is_an_error(folder: Folder, written: str, message: str) -> None:
    made = items(f"ok <% this.list[0] %> {written}", holder("h", uri=["u"]), list=["a", "b"], loop="<% this.loop %>")
    problems = [p for p in folder.problems(["top"], prerequisites=made) if p.where.endswith("commands[0]")]
    (problem,) = problems
    assert problem.message == message
    assert problem.excerpt[problem.column - 1 :].startswith(written)


def test_descriptions_are_not_rendered(folder: Folder) -> None:
    assert line(folder, "a", description="see <% this.no %>", contributor="<% this.no %>") == "a\n"
