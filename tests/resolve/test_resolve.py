"""Resolving the names in a job: references, prerequisites, code, secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.contract import SecretRef, show_text
from kedge.errors import InputError, Problem
from kedge.resolve.code import is_local
from kedge.resolve.model import Inputs, ResolvedJob
from kedge.resolve.resolve import resolve
from kedge.spec.parse import load, parse


def resolved(role: dict[str, Any], inputs: Inputs | None = None, file: str = "job.yaml", **keys: Any) -> ResolvedJob:
    image = {"name": "image", "type": "dockerimage", "uri": "busybox"}
    document = {
        "protocolVersion": 2,
        "name": "j",
        "type": "job",
        "prerequisites": [keys.pop("image", image), *keys.pop("prerequisites", [])],
        "taskRoles": {
            "w": {
                "dockerImage": "image",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0},
                "commands": ["true"],
                **role,
            }
        },
        **keys,
    }
    return resolve(parse(yaml.safe_dump(document, sort_keys=False), file), inputs or Inputs("me"))


def command(*commands: str, **keys: Any) -> str:
    return show_text(resolved({"commands": list(commands)}, **keys).roles[0].command)


def cmd(name: str, *commands: str, **keys: Any) -> dict[str, Any]:
    callbacks = [{"event": "taskStarts", "commands": list(commands)}]
    return {
        "name": name,
        "type": "script",
        "plugin": "com.microsoft.pai.runtimeplugin.cmd",
        "callbacks": callbacks,
        **keys,
    }


@pytest.mark.parametrize(
    ("written", "value", "expected"),
    [
        ("<%$parameters.x%>", "111", "111"),
        ("<% $parameters . x %>", 'it\'s "quoted"', 'it\'s "quoted"'),
        ("<% $parameters.x %>", True, "true"),
        ("<% $parameters.x[1] %>", ["a", "b"], "b"),
        ("<% $parameters.x.y[ 0 ].z %>", {"y": [{"z": 7}]}, "7"),
        ("<% other.x %> {{ x }} <% $other.x %>", 1, "<% other.x %> {{ x }} <% $other.x %>"),
    ],
)
def test_references_are_replaced_with_the_text_of_the_value(written: str, value: object, expected: str) -> None:
    assert command(written, parameters={"x": value}) == expected


def test_a_number_keeps_the_spelling_of_the_file() -> None:
    text = "{protocolVersion: 2, name: j, type: job, parameters: {a: 1.0, b: 1e3, c: 0x1F}, prerequisites: [{name: i, type: dockerimage, uri: u}], taskRoles: {w: {dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}, commands: ['<% $parameters.a %> <% $parameters.b %> <% $parameters.c %>']}}}"  # noqa: E501
    assert show_text(resolve(parse(text), Inputs("me")).roles[0].command) == "1.0 1e3 0x1F"


def test_a_value_that_looks_like_a_reference_is_not_rendered_again() -> None:
    assert command("<% $parameters.x %>", parameters={"x": "<% $parameters.y %>", "y": 1}) == "<% $parameters.y %>"


def test_a_secret_stays_a_reference_and_its_value_is_kept_apart() -> None:
    job = resolved({"commands": ["a <% $secrets.s[0] %> b"]}, secrets={"s": ["hunter2"]})
    assert job.roles[0].command == ("a ", SecretRef("s[0]", "<% $secrets.s[0] %>"), " b")
    assert job.secrets.texts["s[0]"] == "hunter2"
    assert "hunter2" not in repr(job)


def test_given_parameters_and_secrets_override_those_of_the_file() -> None:
    inputs = Inputs("me", parameters={"x": "2.50"}, secrets={"s": "new", "t": "only given"})
    job = resolved(
        {"commands": ["<% $parameters.x %> <% $secrets.s %> <% $secrets.t %>"]},
        inputs,
        parameters={"x": 1},
        secrets={"s": "old"},
    )
    assert show_text(job.roles[0].command) == "2.50 <% $secrets.s %> <% $secrets.t %>"
    assert dict(job.secrets.texts) == {"s": "new", "t": "only given"}
    assert job.secrets.document == {"s": "new", "t": "only given"}


def test_all_unknown_references_are_reported_at_once_with_positions() -> None:
    with pytest.raises(InputError) as error:
        command("a <% $parameters.x %>", "b <% $data.uri %>", parameters={"y": 1})
    first, second = error.value.problems
    assert "no parameter is named 'x'" in str(first)
    assert "names no data prerequisite" in str(second)
    assert str(first).startswith("job.yaml:")


def test_undefined_names_do_not_hide_other_problems(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        """
protocolVersion: 2
name: many
type: job
prerequisites:
- {type: dockerimage, name: img, uri: busybox}
- {type: script, name: s, plugin: cmds}
- {type: script, name: unused, require: [nothing]}
defaults: {deployment: prod}
taskRoles:
  v:
    dockerImage: img
    prerequisites: [nope, s]
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: ["echo <% $parameters.x %>"]
  w:
    dockerImage: imgg
    data: dada
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: ["echo <% $data.uri %> <% $output.uri %>"]
"""
    )
    job, problems = load(tmp_path / "job.yaml")
    with pytest.raises(InputError) as error:
        resolve(job, Inputs("me"), problems)
    assert [problem.where for problem in error.value.problems if isinstance(problem, Problem)] == [
        "prerequisites[1].plugin",
        "prerequisites[2].require[0]",
        "defaults.deployment",
        "taskRoles.v.prerequisites[0]",
        "taskRoles.v.commands[0]",
        "taskRoles.w.dockerImage",
        "taskRoles.w.data",
        "taskRoles.w.commands[0]",
    ]


def test_unknown_references_can_be_kept() -> None:
    text = "a <%  $parameters.x %>"
    assert command(text, extras={"kedge": {"unknownReferences": "keep"}}) == text


def test_given_names_that_the_job_does_not_have_are_errors() -> None:
    with pytest.raises(InputError, match="no parameter is named 'lrr'; did you mean 'lr'"):
        resolved({}, Inputs("me", parameters={"lrr": "1"}), parameters={"lr": 1})
    with pytest.raises(InputError, match="no secret is named 'tok'"):
        resolved({}, Inputs("me", secrets={"tok": "1"}))
    with pytest.raises(InputError, match="given on the command line"):
        resolved({"commands": ["<% $parameters.x.y %>"]}, Inputs("me", parameters={"x": "1"}))


def test_data_script_and_output_are_those_of_the_role() -> None:
    items = [
        {"name": "d", "type": "data", "uri": ["u0", "u1"]},
        {"name": "s", "type": "script", "uri": "github.com/x/y", "version": 1.0, "contributor": "c"},
        {"name": "o", "type": "output", "uri": "hdfs://o"},
    ]
    text = "<% $data.uri[1] %> <% $data.name %> <% $script.uri %> <% $script.version %> <% $output.uri %>"
    job = resolved({"commands": [text], "data": "d", "script": "s", "output": "o"}, prerequisites=items)
    assert show_text(job.roles[0].command) == "u1 d github.com/x/y 1.0 hdfs://o"
    assert job.roles[0].code is None


def test_the_active_deployment_surrounds_the_commands() -> None:
    deployments = [
        {"name": "other", "taskRoles": {"w": {"preCommands": ["no"]}}},
        {"name": "prod", "taskRoles": {"w": {"preCommands": [" x "], "postCommands": ["y\n"]}}},
    ]
    assert command("", "  ", "a", deployments=deployments) == "a"
    assert command("a", deployments=deployments, defaults={"deployment": "prod"}) == "x\na\ny"


def test_commands_are_trimmed_as_in_openpai() -> None:
    assert command("\ufeff a \xa0", "b\x85") == "a\nb\x85"


def test_an_unknown_reference_in_a_deployment_is_reported_at_its_position() -> None:
    deployments = [{"name": "prod", "taskRoles": {"w": {"preCommands": ["x", "<% $parameters.no %>"]}}}]
    with pytest.raises(InputError) as error:
        command("a", deployments=deployments, defaults={"deployment": "prod"})
    assert "deployments[0].taskRoles.w.preCommands[1]" in str(error.value)


def test_steps_run_dependencies_first_and_each_once() -> None:
    items = [
        cmd("a", "echo a", require=["b", "c"]),
        cmd("b", "echo b", require=["d"]),
        cmd("c", "echo c", require=["d"]),
        cmd("d", "echo d"),
        cmd("e", "echo e"),
    ]
    job = resolved({"prerequisites": ["a", "e", "c"]}, prerequisites=items)
    assert [step.name for step in job.roles[0].steps] == ["d", "b", "c", "a", "e"]


def test_a_cycle_of_prerequisites_is_named() -> None:
    items = [cmd("a", "echo a", require=["b"]), cmd("b", "echo b", require=["c"]), cmd("c", "echo c", require=["b"])]
    with pytest.raises(InputError, match="Prerequisite cycle: b -> c -> b") as error:
        resolved({"prerequisites": ["a"]}, prerequisites=items)
    assert "prerequisites[3].require[0]" in str(error.value)


def test_a_missing_required_item_is_an_error() -> None:
    with pytest.raises(InputError, match="nothere"):
        resolved({"prerequisites": ["a"]}, prerequisites=[cmd("a", "echo a", require=["nothere"])])


def test_runtime_plugins_come_after_prerequisites_and_only_in_their_roles() -> None:
    plugins = [
        {"plugin": "cmd", "parameters": {"preCommands": ["echo 1"], "postCommands": ["echo 2"]}},
        {"plugin": "cmd", "parameters": {"preCommands": ["echo 3"]}, "failurePolicy": "ignore", "taskroles": ["w"]},
    ]
    extras = {"com.microsoft.pai.runtimeplugin": plugins}
    steps = resolved({"prerequisites": ["a"]}, prerequisites=[cmd("a", "echo a")], extras=extras).roles[0].steps
    assert [(step.name, step.policy) for step in steps] == [("a", "fail"), ("cmd", "fail"), ("cmd", "ignore")]
    assert [c.event for c in steps[1].callbacks] == ["taskStarts", "taskSucceeds"]


def test_hooks_get_parameters_rendered_and_secrets_as_references() -> None:
    item = cmd("a", "echo <% $parameters.x %>", "echo <% $secrets.y %>", failurePolicy="Ignore")
    (step,) = (
        resolved({"prerequisites": ["a"]}, prerequisites=[item], parameters={"x": 111}, secrets={"y": "222"})
        .roles[0]
        .steps
    )
    assert step.policy == "ignore"
    assert (
        step.callbacks[0].script == ("echo 111\n", "echo ", SecretRef("y", "<% $secrets.y %>"), "\n")
        or show_text(step.callbacks[0].script) == "echo 111\necho <% $secrets.y %>\n"
    )


def test_only_secrets_are_rendered_in_the_credentials_of_an_image() -> None:
    image = {
        "name": "image", "type": "dockerimage", "uri": "u",
        "auth": {"username": "<% $parameters.u %>", "password": "<% $secrets.p %>"},
    }  # fmt: skip
    auth = resolved({}, image=image, secrets={"p": "x"}).roles[0].image.auth
    assert auth == {"username": ("<% $parameters.u %>",), "password": (SecretRef("p", "<% $secrets.p %>"),)}


def test_local_code_is_found_beside_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    script = [{"name": "s", "type": "script", "uri": "./code"}]
    job = resolved({"script": "s"}, file=str(tmp_path / "job.yaml"), prerequisites=script)
    assert job.code == {"s": str(tmp_path / "code")}
    assert job.roles[0].code == "s"
    with pytest.raises(InputError, match="there is no file or folder") as error:
        resolved({"script": "s"}, file="/nowhere/job.yaml", prerequisites=script)
    assert "prerequisites[1].uri" in str(error.value)


def test_a_working_directory_can_be_given_or_be_part_of_the_job(tmp_path: Path) -> None:
    file = str(tmp_path / "job.yaml")
    job = resolved({}, Inputs("me", workdir=str(tmp_path)), file=file, extras={"kedge": {"workdir": "/nowhere"}})
    assert job.code == {"workdir": str(tmp_path)}
    job = resolved({}, file=file, extras={"kedge": {"workdir": "."}})
    assert (job.code, job.roles[0].code) == ({"workdir": str(tmp_path)}, "workdir")


def test_outputs_that_no_plugin_acts_on_are_folders() -> None:
    uploads = {"callbacks": [{"event": "taskSucceeds", "commands": ["upload"]}]}
    items = [
        {"name": "model", "type": "output", "uri": "hdfs://x"},
        {"name": "logs", "type": "output"},
        {"name": "uploaded", "type": "output", **uploads},
        {"name": "needs-logs", "type": "script", "require": ["logs"], **uploads},
        {"name": "code", "type": "script", "uri": "u"},
    ]
    role = {"output": "model", "prerequisites": ["needs-logs", "model", "uploaded", "code"]}
    assert resolved(role, prerequisites=items).roles[0].outputs == ("model", "logs")


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        (".", True),
        ("./x", True),
        ("../x", True),
        ("/x", True),
        ("~/x", True),
        ("x", False),
        ("github.com/a/b", False),
        ("file://x", False),
    ],
)
def test_local_uris_are_recognised(uri: str, local: bool) -> None:
    assert is_local(uri) is local


def test_an_image_may_be_a_parameter() -> None:
    image = {"name": "image", "type": "dockerimage", "uri": "registry/<% $parameters.image %>:1"}
    given = Inputs("me", parameters={"image": "other"})
    assert resolved({}, image=image, parameters={"image": "usual"}).roles[0].image.uri == "registry/usual:1"
    assert resolved({}, given, image=image, parameters={"image": "usual"}).roles[0].image.uri == "registry/other:1"
    with pytest.raises(InputError, match=r"prerequisites\[0\].uri: no parameter is named 'image'"):
        resolved({}, image=image)
