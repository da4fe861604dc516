"""The protocol's test cases: each changes one thing in a valid job and expects it to be valid or not."""

from __future__ import annotations

from typing import Any

import pytest

ROLE = "taskRoles/w"
DATA = {"name": "d", "type": "data", "uri": ["x"]}
SCRIPT = {"name": "s", "type": "script", "uri": "x"}

ACCEPTED: list[dict[str, Any]] = [
    {},
    {"protocolVersion": "2"},
    {"protocolVersion": 2.0},
    {"name": "x" * 255},
    {"prerequisites/+": DATA},
    {"prerequisites/+": DATA | {"uri": []}},
    {"prerequisites/+": DATA | {"uri": "x"}},
    {"prerequisites/+": DATA | {"name": "img"}},
    {"prerequisites/+": SCRIPT | {"callbacks": [{"event": "taskFails", "commands": ["a"]}], "anything": {"goes": 1}}},
    {"prerequisites/+": SCRIPT | {"require": [{"name": "img", "template_variables": {"v": 1}}]}},
    {"prerequisites/+": {"name": "n", "type": "storage"}},
    {"version": 1.0},
    {"version": "1.0"},
    {f"{ROLE}/completion": {"minFailedInstances": None, "minSucceededInstances": None}},
    {f"{ROLE}/completion": {"minFailedInstances": 0, "minSucceededInstances": -1}},
    {f"{ROLE}/extraContainerOptions": {"foo": 1}},
    {f"{ROLE}/prerequisites": ["img"]},
    {f"{ROLE}/prerequisites": ["marketplace://data/mnist", "https://host/x.yaml#y", "./x.yaml", "/x.yaml"]},
    {f"{ROLE}/protocolVersion": "2"},
    {f"{ROLE}/commands": ["", "  ", "a"]},
    {f"{ROLE}/resourcePerInstance/cpu": 2.0},
    {"deployments": [{"name": "p", "version": 1.0, "taskRoles": {"w": {"preCommands": ["a"]}}}]},
    {"defaults": {"virtualCluster": "v", "foo": 2}},
    {"extras": {"whatever": [1]}},
    {"secrets": {"a": "b"}, f"{ROLE}/commands": ["e <%$secrets.a%>"]},
    {"secrets": "******"},
]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"protocolVersion": 3}, "protocolVersion: must be 2, not the number 3"),
    ({"protocolVersion!": None}, ": the key 'protocolVersion' is missing"),
    ({"name": "a.b"}, "name: 'a.b' may only contain letters, digits, '-' and '_'"),
    ({"name": "j\n"}, "name: 'j\\n' may only contain letters, digits, '-' and '_'"),
    ({"name": "x" * 256}, "name: must have at most 255 characters, not 256"),
    ({"type": "data"}, "type: must be 'job', not 'data'"),
    ({"prerequisites!": None}, "taskRoles.w.dockerImage: no dockerimage prerequisite is named 'img'; there is none"),
    ({"prerequisites/+": SCRIPT | {"uri": ["x"]}}, "prerequisites[1].uri: must be a string, not a list"),
    ({"prerequisites/0/plugin": "cmd"}, "prerequisites[0].plugin: unknown key 'plugin'"),
    ({"prerequisites/0/uri!": None}, "prerequisites[0]: the key 'uri' is missing"),
    ({"prerequisites/+": {"name": "n"}}, "prerequisites[1]: the key 'type' is missing"),
    ({"prerequisites/+": {"name": "n", "type": "dat"}}, "prerequisites[1].type: 'dat' is not known here; did you mean"),
    ({"jobRetryCount": -1}, "jobRetryCount: must be at least 0, not -1"),
    ({"jobRetryCount": None}, "jobRetryCount: must be a whole number, not empty"),
    ({f"{ROLE}/instances": 0}, "taskRoles.w.instances: must be at least 1, not 0"),
    ({f"{ROLE}/instances": True}, "taskRoles.w.instances: must be a whole number, not true"),
    (
        {f"{ROLE}/completion": {"minFailedInstances": -5}},
        "taskRoles.w.completion.minFailedInstances: must be at least -1, not -5",
    ),
    ({f"{ROLE}/taskRetryCount": -1}, "taskRoles.w.taskRetryCount: must be at least 0, not -1"),
    (
        {f"{ROLE}/extraContainerOptions": {"infiniband": "yes"}},
        "taskRoles.w.extraContainerOptions.infiniband: must be true or false, not 'yes'",
    ),
    ({f"{ROLE}/resourcePerInstance/ports": {}}, "taskRoles.w.resourcePerInstance.ports: must not be empty"),
    ({f"{ROLE}/resourcePerInstance/ports": {"a": 0}}, "taskRoles.w.resourcePerInstance.ports.a: must be at least 1"),
    (
        {f"{ROLE}/resourcePerInstance/ports": {"a-b": 1}},
        "taskRoles.w.resourcePerInstance.ports.a-b: the name 'a-b' may only contain letters, digits and '_'",
    ),
    ({f"{ROLE}/resourcePerInstance/gpu": 0.5}, "taskRoles.w.resourcePerInstance.gpu: must be a whole number, not"),
    ({f"{ROLE}/commands": []}, "taskRoles.w.commands: must not be empty"),
    ({f"{ROLE}/commands": [1]}, "taskRoles.w.commands[0]: must be a string, not the number 1; put it in quotes"),
    ({"taskRoles/a-b": {}}, "taskRoles.a-b: the name 'a-b' may only contain"),
    ({"taskRoles": {}}, "taskRoles: must not be empty"),
    ({"deployments": []}, "deployments: must not be empty"),
    (
        {"deployments": [{"name": "p", "taskRoles": {"w": {"preCommand": ["a"]}}}]},
        "deployments[0].taskRoles.w.preCommand: unknown key 'preCommand'; did you mean 'preCommands'?",
    ),
    ({"defaults": {"virtualCluster": 1}}, "defaults.virtualCluster: must be a string, not the number 1"),
    ({"extras": []}, "extras: must be a mapping, not a list"),
    ({"jobName": "x"}, "jobName: unknown key 'jobName'"),
    ({"version": [1]}, "version: must be a string or a number, not a list"),
    ({"secrets": "hunter2"}, "secrets: must be a mapping of names to values"),
    ({"secrets": 5}, "secrets: must be a mapping or a string"),
    ({"description": None}, "description: must be a string, not empty"),
    (
        {"prerequisites/+": {"name": "img", "type": "dockerimage", "uri": "v"}},
        "prerequisites[1].name: duplicate dockerimage prerequisite 'img'; it is already defined in line",
    ),
    (
        {"deployments": [{"name": "p", "taskRoles": {"w": {}}}, {"name": "p", "taskRoles": {"w": {}}}]},
        "deployments[1].name: duplicate deployment 'p'",
    ),
    ({"defaults": {"deployment": "q"}}, "defaults.deployment: no deployment is named 'q'"),
    ({f"{ROLE}/data": "img"}, "taskRoles.w.data: no data prerequisite is named 'img'; it has the type 'dockerimage'"),
    (
        {f"{ROLE}/prerequisites": ["marketplace://data/a/b"]},
        "taskRoles.w.prerequisites[0]: Prerequisite reference marketplace://data/a/b is invalid.",
    ),
    ({f"{ROLE}/prerequisites": ["justecho_wrong"]}, "taskRoles.w.prerequisites[0]: Prerequisite justecho_wrong does"),
    ({f"{ROLE}/dockerImage": "constructor"}, "taskRoles.w.dockerImage: no dockerimage prerequisite is named"),
    (
        {"deployments": [{"name": "p", "taskRoles": {"v": {"preCommands": ["a"]}}}], "defaults": {"deployment": "p"}},
        "deployments[0].taskRoles.v: no task role is named 'v'",
    ),
    ({f"{ROLE}/commands": ["a <% $x"]}, "taskRoles.w.commands[0]: '<%' starts a reference that is never closed"),
]


@pytest.mark.parametrize("changes", ACCEPTED, ids=str)
def test_accepted(complaints: Any, changes: dict[str, Any]) -> None:
    assert complaints(changes) == []


@pytest.mark.parametrize(("changes", "complaint"), REFUSED, ids=str)
def test_refused_with_one_clear_problem(complaints: Any, changes: dict[str, Any], complaint: str) -> None:
    found = complaints(changes)
    assert any(text.startswith(complaint) for text in found), found
    assert len(found) == 1 or complaint.startswith("taskRoles.a-b")  # its keys are missing too


def test_without_prerequisites_no_image_is_defined(complaints: Any) -> None:
    no_image = "taskRoles.w.dockerImage: no dockerimage prerequisite is named 'img'; there is none"
    assert complaints({"prerequisites": []}) == ["prerequisites: must not be empty", no_image]
