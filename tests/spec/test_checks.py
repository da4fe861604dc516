from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kedge.contract import HOOK_EVENTS, converted_role
from kedge.spec.schema import schema

Complaints = Callable[[dict[str, Any]], list[str]]
PLUGINS = "extras/com.microsoft.pai.runtimeplugin"
AT = "extras.com.microsoft.pai.runtimeplugin[0]"
SCRIPT = {"name": "s", "type": "script"}
CALLBACKS = [{"event": "taskStarts", "commands": ["a"]}]


def role(**keys: Any) -> dict[str, Any]:
    needs = {"cpu": 1, "memoryMB": 1024, "gpu": 0}
    return {"dockerImage": "img", "resourcePerInstance": needs, "commands": ["a"], **keys}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"taskRoles": {"a_b": role(), "ab": role()}},
            "taskRoles.ab: 'a_b' and 'ab' become the same host name, which has no upper case and no '_'; rename one",
        ),
        ({"taskRoles": {"__": role()}}, "taskRoles.__: a role name needs a letter or a digit besides '_'"),
        (
            {"taskRoles": {"x" * 64: role()}},
            f"taskRoles.'{'x' * 59}…': a role name may have at most 63 letters and digits, not 64",
        ),
        ({PLUGINS: [{"plugin": "cmd", "taskroles": ["v"]}]}, f"{AT}.taskroles[0]: no task role is named 'v'"),
        (
            {"extras/hivedScheduler": {"taskRoles": {"v": {}}}},
            "extras.hivedScheduler.taskRoles.v: no task role is named",
        ),
        (
            {"extras/hivedscheduler": {"taskRoles": {"w": {"gpuType": "k", "reservationId": "c"}}}},
            "extras.hivedscheduler.taskRoles.w: a role has either 'skuType' or 'pinnedCellId', not both",
        ),
        (
            {"extras/kedge": {"completion": "everyTaskSucceeds"}, "taskRoles/w/completion": {"minFailedInstances": 1}},
            "taskRoles.w.completion: 'extras.kedge.completion' replaces the completion of all roles",
        ),
        (
            {"extras": {"hivedScheduler": {}, "hivedscheduler": {}}},
            "extras.hivedscheduler: 'hivedscheduler' is an older",
        ),
        (
            {
                "taskRoles/v": role(),
                "extras/hivedScheduler/taskRoles": {
                    "w": {"affinityGroupName": "g", "skuType": "a"},
                    "v": {"affinityGroupName": "g", "skuType": "b"},
                },
            },
            "extras.hivedScheduler.taskRoles.v.affinityGroupName: the affinity group 'g' mixes roles",
        ),
        (
            {"prerequisites/+": SCRIPT | {"callbacks": CALLBACKS, "postCommands": ["b"]}},
            "prerequisites[1].postCommands: 'postCommands' cannot be combined with 'callbacks'",
        ),
        (
            {PLUGINS: [{"plugin": "cmd", "parameters": {"callbacks": CALLBACKS, "preCommands": ["b"]}}]},
            f"{AT}.parameters.preCommands: 'preCommands' cannot be combined with 'callbacks'",
        ),
        (
            {"prerequisites/+": SCRIPT | {"x": 1, "plugin_params": {"x": 2}}},
            "prerequisites[1].plugin_params.x: 'x' has a different value outside 'plugin_params'",
        ),
        (
            {"prerequisites/+": SCRIPT | {"callbacks": [{"event": "taskStart", "commands": ["a"]}]}},
            "prerequisites[1].callbacks[0].event: Event taskStart of prerequisite s is not supported. "
            "Did you mean 'taskStarts'?",
        ),
        (
            {"prerequisites/+": SCRIPT | {"plugin": "s/h"}},
            "prerequisites[1].plugin: 's/h' is not a plugin name; only letters, digits,",
        ),
        ({PLUGINS: [{"plugin": 1}]}, f"{AT}.plugin: must be a string, not the number 1"),
        (
            {PLUGINS: [{"plugin": "cmd", "parameters": {"preCommand": ["a"]}}]},
            f"{AT}.parameters.preCommand: unknown key 'preCommand'; did you mean 'preCommands'?",
        ),
        ({PLUGINS: [{"plugin": "git", "parameters": {}}]}, f"{AT}.parameters: the key 'repo_uri' is missing"),
        (
            {PLUGINS: [{"plugin": "tensorboard", "parameters": {"port": 1, "logdir": {}}}]},
            f"{AT}.parameters.logdir: must not be empty",
        ),
        (
            {PLUGINS: [{"plugin": "ssh", "parameters": {"jobssh": "yes"}}]},
            f"{AT}.parameters.jobssh: 'yes' must be true",
        ),
        ({PLUGINS: [{"plugin": "ssh", "taskRoles": ["w"]}]}, f"{AT}.taskRoles: unknown key 'taskRoles'; did you mean"),
        (
            {PLUGINS: [{"plugin": "cmd", "parameters": {"preCommands": ["<%"]}}]},
            f"{AT}.parameters.preCommands[0]: '<%'",
        ),
        (
            {"extras/kedge": {"stop": {"signal": "TRM"}}},
            "extras.kedge.stop.signal: 'TRM' is not known here; did you mean 'TERM'?",
        ),
        (
            {"extras/kedge": {"code": "readonly"}},
            "extras.kedge.code: 'readonly' is not known here; did you mean 'readOnly'?",
        ),
        (
            {"extras/kedge": {"capabilities": {"w": ["SYS_ADMIN"]}}},
            "extras.kedge.capabilities.w[0]: must be one of 'NET_RAW', 'MKNOD'",
        ),
        ({"extras/kedge": {"capabilities": {"ww": []}}}, "extras.kedge.capabilities.ww: no task role is named 'ww'"),
        ({"extras/kedge": {"taskRoles": {"ww": {}}}}, "extras.kedge.taskRoles.ww: no task role is named 'ww'"),
        (
            {"extras/kedge": {"taskRoles": {"w": {"evn": {}}}}},
            "extras.kedge.taskRoles.w.evn: unknown key 'evn'; did you mean 'env'?",
        ),
        ({"extras/kedge": {"env": {"A-B": 1}}}, "extras.kedge.env.A-B: the name 'A-B' must have only letters, digits"),
        ({"extras/kedge": {"env": {"A": None}}}, "extras.kedge.env.A: must be a string or a number or true or false"),
        ({"extras/kedge": {"env": {"PAI_X": "1"}}}, "extras.kedge.env.PAI_X: 'PAI_X' is reserved: kedge sets PAI_*"),
        (
            {"extras/kedge": {"taskRoles": {"w": {"env": {"CUDA_VISIBLE_DEVICES": "0"}}}}},
            "extras.kedge.taskRoles.w.env.CUDA_VISIBLE_DEVICES: 'CUDA_VISIBLE_DEVICES' is reserved",
        ),
        ({"extras/kedge": {"env": {"A": "<% $parameters.x"}}}, "extras.kedge.env.A: '<%' starts a reference that is"),
        ({"extras/kedge": {"retires": {}}}, "extras.kedge.retires: unknown key 'retires'; did you mean 'retry'?"),
        (
            {"extras/kedge": {"unknownReferences": "kep"}},
            "extras.kedge.unknownReferences: 'kep' is not known here; did you mean 'keep'?",
        ),
        (
            {"prerequisites/+": SCRIPT | {"require": ["imh"]}},
            "prerequisites[1].require[0]: Prerequisite imh does not exist. Did you mean 'img'?",
        ),
        (
            {"prerequisites/+": SCRIPT | {"require": [{"name": "marketplace://data"}]}},
            "prerequisites[1].require[0].name: Prerequisite reference marketplace://data is invalid. A reference is a",
        ),
        (
            {"taskRoles/w/prerequisites": ["ftp://x/y"]},
            "taskRoles.w.prerequisites[0]: Prerequisite reference ftp://x/y is inv",
        ),
        (
            {"extras/reference_prerequisites": [{"name": "m", "require": ["n"]}]},
            "extras.reference_prerequisites[0].require[0]: Prerequisite n does not exist.",
        ),
        (
            {"extras/reference_prerequisites": [{"name": "img"}]},
            "extras.reference_prerequisites[0].name: Duplicate reference prerequisites img. It is already defined",
        ),
        (
            {"extras/reference_prerequisites": [{"name": "m", "retry": {"max": "often"}}]},
            "extras.reference_prerequisites[0].retry.max: must be a whole number, not 'often'",
        ),
        (
            {"prerequisites/+": SCRIPT | {"template_variables": [{"name": "v"}, {"name": "v"}]}},
            "prerequisites[1].template_variables[1].name: duplicate template variable 'v'",
        ),
        (
            {"prerequisites/+": SCRIPT | {"template_variables": [{"name": "v", "type": "integer", "default": "x"}]}},
            "prerequisites[1].template_variables[0].default: the default of template variable v must be a whole number",
        ),
        (
            {"prerequisites/+": SCRIPT | {"template_variables": [{"name": "v", "type": "choice"}]}},
            "prerequisites[1].template_variables[0]: 'choices' and the type 'choice' require each other",
        ),
        (
            {"prerequisites/+": SCRIPT | {"template_variables": [{"name": "v", "type": "int"}]}},
            "prerequisites[1].template_variables[0].type: 'int' is not known here; did you mean 'integer'?",
        ),
        (
            {"prerequisites/+": {"name": "img", "type": "data"}, "taskRoles/w/prerequisites": ["img"]},
            "taskRoles.w.prerequisites[0]: 'img' is ambiguous: prerequisites of type data and dockerimage; rename one",
        ),
    ],
    ids=str,
)
def test_refused(complaints: Complaints, changes: dict[str, Any], expected: str) -> None:
    found = complaints(changes)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    "changes",
    [
        {PLUGINS: [{"plugin": "ssh", "parameters": {"jobssh": True, "userssh": {"type": "custom", "value": ""}}}]},
        {PLUGINS: [{"plugin": "ssh", "parameters": {"jobssh": "True", "sshbarrier": True, "sshbarrierTimeout": 5}}]},
        {PLUGINS: [{"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["share"]}}]},
        {PLUGINS: [{"plugin": "tensorboard"}]},
        {"extras/storages": []},
        {"extras/storages": [{"name": "a", "mountPath": "/b"}, {}]},
        {"extras/reference_prerequisites": [{"name": "m", "require": [{"name": "marketplace://name/m"}]}]},
        {"extras/jobStatusChangeNotification": {"running": True}},
        {"extras/hivedScheduler": {"taskRoles": {"w": {"skuNum": 1, "skuType": "k80", "affinityGroupName": None}}}},
        {
            "prerequisites/+": {"name": "img", "type": "data", "callbacks": CALLBACKS},
            "taskRoles/w/prerequisites": ["img"],
        },
        {"prerequisites/+": SCRIPT | {"x": 1, "plugin_params": {"x": 1, "callbacks": CALLBACKS}}},
        {"prerequisites/+": SCRIPT | {"plugin": "pvc_storage", "plugin_params": {"name": "c", "mountPath": "/m"}}},
        {"prerequisites/+": SCRIPT | {"template_variables": [{"name": "v"}, {"name": "w", "default": 3}]}},
        {"parameters": {"half": "<% of a tag"}, "description": "<%"},
        {"extras/reference_prerequisites": [{"name": "m"}], "taskRoles/w/prerequisites": ["m", "./x.yaml#y"]},
        {"prerequisites/+": SCRIPT | {"retry": {"max": "{{ v }}"}, "template_variables": [{"name": "v"}]}},
        {"prerequisites/+": SCRIPT | {"timeoutSec": "<% this.patience %>", "patience": 3}},
    ],
    ids=str,
)
def test_accepted(complaints: Complaints, changes: dict[str, Any]) -> None:
    assert complaints(changes) == []


@pytest.mark.parametrize("kind", ["data", "script", "output"])
def test_each_type_has_its_own_names(complaints: Complaints, kind: str) -> None:
    item = {"name": "thing", "type": kind}
    assert complaints({"prerequisites/+": item, f"taskRoles/w/{kind}": "thing"}) == []
    (found,) = complaints({"prerequisites/+": item, f"taskRoles/w/{kind}": "think"})
    assert found == f"taskRoles.w.{kind}: no {kind} prerequisite is named 'think'; did you mean 'thing'?"


def test_the_name_of_a_duplicate_is_shown_as_it_is_written(complaints: Complaints) -> None:
    deployment = {"name": "step#1", "taskRoles": {"w": {"preCommands": ["a"]}}}
    found = complaints({"deployments": [deployment, deployment]})
    assert any("duplicate deployment 'step#1'; it is already defined in line" in message for message in found)


def test_checks_survive_every_wrong_shape(complaints: Complaints) -> None:
    wrong = [None, 1, "x", [1], [[]], [{}], [None], {"a": None}, {"a": [1]}, {"name": []}]
    keys = ["prerequisites", "taskRoles", "taskRoles/w", "deployments", "defaults", "extras", PLUGINS, "parameters"]
    keys += ["extras/hivedScheduler", "extras/kedge", "taskRoles/w/commands", "taskRoles/w/prerequisites"]
    for key in keys:
        refused = [value for value in wrong if complaints({key: value})]
        assert refused or key == "parameters" or key == "extras", key


def test_the_schema_lists_every_event_of_the_runtime() -> None:
    known = schema()["$defs"]["callbacks"]["items"]["properties"]["event"]["enum"]
    assert set(HOOK_EVENTS) <= set(known)


@pytest.mark.parametrize("pair", [("a_b", "AB"), ("ps_server", "psServer"), ("x1_", "X1")])
def test_roles_collide_if_and_only_if_their_kubernetes_names_do(complaints: Complaints, pair: tuple[str, str]) -> None:
    assert converted_role(pair[0]) == converted_role(pair[1])
    assert len(complaints({"taskRoles": {name: role() for name in pair}})) == 1
    assert complaints({"taskRoles": {pair[0]: role(), pair[1] + "2": role()}}) == []
