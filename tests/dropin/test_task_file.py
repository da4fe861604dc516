"""What the init phase makes for the supervisor: commands, plugins, secrets."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import TaskSpec, show_text

from .framework_files import (
    FIRST_HOST,
    FIRST_UID,
    SECOND_HOST,
    SECOND_UID,
    VARIABLES,
    checked_example,
    framework,
    port_annotation,
    role,
    status,
)
from .init_folders import InitFolders

PLUGINS = "com.microsoft.pai.runtimeplugin"
SECOND = VARIABLES | {"FC_TASKROLE_NAME": "taskrole1", "FC_POD_UID": SECOND_UID}


def job(**keys: Any) -> dict[str, Any]:
    """A job with the role taskrole_1; `role` are its further keys."""
    own = {"dockerImage": "image", "commands": ["echo hi"], **keys.pop("role", {})}
    image = {"name": "image", "type": "dockerimage", "uri": "ubuntu"}
    prerequisites = [image, *keys.pop("prerequisites", [])]
    return {"protocolVersion": 2, "name": "test", "type": "job", "prerequisites": prerequisites,
            "taskRoles": {"taskrole_1": own}, **keys}  # fmt: skip


def parse(folders: InitFolders, config: dict[str, Any], **variables: str) -> TaskSpec:
    """The TaskSpec for a job's configuration, which is YAML as all JSON is."""
    pods = [status("taskrole1", (SECOND_UID, SECOND_HOST))]
    folders.write_framework(framework([role("taskrole1", port_annotation({"ssh": 1}))], pods, json.dumps(config)))
    ran = folders.run("frameworkParser", "framework.json", **(SECOND | variables))
    assert ran.code == 0, ran.log
    return spec(folders)


def failure(folders: InitFolders, config: dict[str, Any], **variables: str) -> str:
    """The log of a parser that fails."""
    folders.write_framework(framework([role("taskrole1", {})], [], json.dumps(config)))
    ran = folders.run("frameworkParser", "framework.json", **(SECOND | variables))
    assert ran.code == 1
    assert not (folders.runtime_d / "kedge-task.json").exists()
    return ran.log


def spec(folders: InitFolders) -> TaskSpec:
    return TaskSpec.from_json(json.loads(folders.text("kedge-task.json")))


def add_secrets(folders: InitFolders, text: str) -> None:
    (folders.work / "secrets").mkdir()
    (folders.work / "secrets/secrets.yaml").write_text(text)


def add_plugin(folders: InitFolders, name: str, program: str) -> Path:
    folder = folders.work / "plugins" / name
    folder.mkdir(parents=True)
    (folder / "desc.yaml").write_text(f"name: {name}\ninit-script: init.sh\n")
    (folder / "init.sh").write_text(program)
    (folder / "init.sh").chmod(0o755)
    return folder


def shown(found: TaskSpec) -> list[list[tuple[str, str]]]:
    return [[(callback.event, show_text(callback.script)) for callback in step.callbacks] for step in found.steps]


def test_a_task_of_a_framework(folders: InitFolders) -> None:
    folders.write_framework(checked_example())
    variables = VARIABLES | {"PAI_FRAMEWORK_NAME": "test_user~test", "FC_TASK_ATTEMPT_ID": "2", "USER_CMD": "printenv"}
    ran = folders.run("frameworkParser", "framework.json", **variables)
    assert ran.code == 0, ran.log
    assert folders.text("job_config.yaml") == checked_example()["metadata"]["annotations"]["config"]
    found = spec(folders)
    assert (found.user, found.job, found.role, found.task_index) == ("test_user", "test", "taskrole", 0)
    assert (found.uid, found.host, found.task_attempt) == (FIRST_UID, FIRST_HOST, 2)
    assert found.ports == {"tcp": [29877, 22353, 29076], "udp": [31903, 33486, 35953], "ssh": [39080], "http": [30643]}
    assert found.folder == f"{folders.work}/logs/{FIRST_UID}"
    assert (found.command, found.steps, found.pai_dir) == (("printenv",), (), str(folders.work))
    assert list(json.loads(Path(found.peers_file).read_text())["roles"]) == ["taskrole", "taskrole_1"]


def test_a_role_is_found_by_its_name_in_kubernetes(folders: InitFolders) -> None:
    """OpenPAI's runtime ended with a KeyError for the role taskrole_1."""
    found = parse(folders, job())
    assert (found.role, found.command) == ("taskrole_1", ("echo hi",))
    assert found.environment["PAI_CURRENT_TASK_ROLE_NAME"] == "taskrole_1"


def test_two_roles_with_one_name_in_kubernetes_are_an_error(folders: InitFolders) -> None:
    config = job()
    config["taskRoles"]["taskrole1"] = config["taskRoles"]["taskrole_1"]
    pods = framework([role("taskrole1", {}), role("taskrole1", {})], [], json.dumps(config))
    folders.write_framework(pods)
    ran = folders.run("frameworkParser", "framework.json", **SECOND)
    assert ran.code == 1
    assert "the task roles taskrole_1 and taskrole1, which are both taskrole1 in Kubernetes" in ran.log


def test_the_command_of_the_rest_server_gets_only_secrets(folders: InitFolders) -> None:
    add_secrets(folders, "token: a&b'c\nkeys: [{name: n}]\nnumber: 1.0\n")
    command = "echo <% $secrets.token %> <%$secrets.keys[0].name%> <% $parameters.x %> <% $other %> <% x"
    found = parse(folders, job(), USER_CMD=command)
    assert show_text(found.command) == command  # an unclosed tag makes it text
    command = command.removesuffix(" <% x")
    found = parse(folders, job(), USER_CMD=command)
    assert show_text(found.command) == command
    assert [part.key for part in found.command if not isinstance(part, str)] == ["token", "keys[0].name"]
    assert "a&b" not in folders.text("kedge-task.json")
    assert found.secrets_dir
    values = Path(found.secrets_dir) / "values.json"
    assert stat.S_IMODE(values.stat().st_mode) == 0o600
    assert json.loads(values.read_text()) == {"token": "a&b'c", "keys[0].name": "n", "number": "1.0"}


def test_a_large_command_is_in_a_file(folders: InitFolders) -> None:
    (folders.config / "command").write_text("echo " + "x" * 200_000)
    found = parse(folders, job(), USER_CMD_FILE=str(folders.config / "command"))
    assert len(show_text(found.command)) == 200_005


def test_a_secret_that_is_missing_is_named(folders: InitFolders) -> None:
    log = failure(folders, job(), USER_CMD="echo <% $secrets.token %>")
    file = folders.config / "secrets.yaml"
    assert f"<% $secrets.token %>: no secret is named 'token'; {file} does not exist, or is empty" in log
    file.write_text("other: x\n")
    log = failure(folders, job(), USER_CMD="echo <% $secrets.token %>")
    assert "no secret is named 'token'" in log
    assert "does not exist" not in log


def test_files_that_are_not_text_are_named(folders: InitFolders) -> None:
    file = folders.config / "command"
    file.write_bytes(b"echo \xff")
    assert f"{file} is not UTF-8 text" in failure(folders, job(), USER_CMD_FILE=str(file))


def test_commands_of_a_job_with_a_deployment(folders: InitFolders) -> None:
    around = {"preCommands": [" pre "], "postCommands": ["post"]}
    config = job(
        parameters={"lr": 0, "n": [1, 2]}, defaults={"deployment": "prod"},
        role={"commands": ["train <% $parameters.n[1] %>"]},
        deployments=[{"name": "prod", "taskRoles": {"taskrole_1": around}}],
    )  # fmt: skip
    assert parse(folders, config).command == ("pre\ntrain 2\npost",)


def test_values_keep_their_text(folders: InitFolders) -> None:
    config = "\n".join([
        "protocolVersion: 2", "name: test", "parameters: {lr: 1.0, on: yes, quote: \"it's\"}", "prerequisites: []",
        "taskRoles: {taskrole_1: {commands: [run <% $parameters.lr %> <% $parameters.on %> <% $parameters.quote %>]}}",
    ])  # fmt: skip
    folders.write_framework(framework([role("taskrole1", {})], [], config))
    assert folders.run("frameworkParser", **SECOND).code == 0
    assert spec(folders).command == ("run 1.0 yes it's",)


def test_plugins_of_prerequisites_come_before_those_of_extras(folders: InitFolders) -> None:
    def item(name: str, **keys: Any) -> dict[str, Any]:
        return {"name": name, "type": "script", "plugin": f"{PLUGINS}.cmd", **keys}

    def callbacks(start: str, end: str) -> list[dict[str, Any]]:
        events = (("taskStarts", start), ("taskSucceeds", end))
        return [{"event": event, "commands": [command]} for event, command in events]

    config = job(
        prerequisites=[
            item("a", require=["b"], callbacks=callbacks("echo aaa", "echo AAA")),
            item("b", callbacks=callbacks("echo bbb", "echo BBB")),
        ],
        role={"prerequisites": ["a", "b"]},
        extras={PLUGINS: [
            {"plugin": "cmd", "parameters": {"preCommands": ["echo extra"]}, "taskroles": ["other"]},
            {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["nfs"]}},
            {"plugin": "cmd", "parameters": {"preCommands": ["echo extra"], "postCommands": ["echo end"]}},
        ]},
    )  # fmt: skip
    found = parse(folders, config)
    assert [step.name for step in found.steps] == ["b", "a", "teamwise_storage", "cmd"]
    assert shown(found) == [
        [("taskStarts", "echo bbb\n"), ("taskSucceeds", "echo BBB\n")],
        [("taskStarts", "echo aaa\n"), ("taskSucceeds", "echo AAA\n")],
        [],
        [("taskStarts", "echo extra\n"), ("taskSucceeds", "echo end\n")],
    ]


@pytest.mark.parametrize("command", ["it's", "both \" and '", "two\nlines", "back\\slash", "null ~"])
def test_parameters_are_filled_in_without_damage(folders: InitFolders, command: str) -> None:
    """OpenPAI formats parameters as the text of a program and parses it again, which breaks these."""
    add_secrets(folders, "token: x\n")
    use = {"plugin": "cmd", "parameters": {"preCommands": [command, "<% $parameters.text %>"]}}
    found = parse(folders, job(parameters={"text": command}, extras={PLUGINS: [use]}))
    assert shown(found) == [[("taskStarts", f"{command}\n{command}\n")]]


def test_a_plugin_in_a_folder(folders: InitFolders) -> None:
    add_secrets(folders, "token: hunter2hunter2\n")
    (folders.work / "token-secrets").mkdir()
    (folders.work / "token-secrets/token").write_text("job-token\n")
    add_plugin(folders, "own", '#!/bin/sh\necho "got $1"\ncp /dev/null "$3"\nprintf "%s" "$1" > seen\n'
               'echo "login hunter2hunter2" > "$2"\necho bye > "$3"\n')  # fmt: skip
    use = {"plugin": f"{PLUGINS}.own", "parameters": {"key": "<% $secrets.token %>", "n": 1}, "failurePolicy": "Ignore"}
    pods = framework([role("taskrole1", {})], [], json.dumps(job(extras={PLUGINS: [use]})))
    folders.write_framework(pods)
    ran = folders.run("frameworkParser", **SECOND)
    assert ran.code == 0, ran.log
    found = spec(folders)
    assert shown(found) == [[("taskStarts", "login <% $secrets.token %>\n"), ("taskSucceeds", "bye\n")]]
    assert found.steps[0].policy == "ignore"
    assert "hunter2" not in ran.log + folders.text("kedge-task.json")
    seen = json.loads((folders.work / "seen").read_text())
    assert seen["parameters"] == {"key": "hunter2hunter2", "n": 1}
    assert (seen["application_token"], seen["user_extension"]) == ("job-token", None)
    assert not list(folders.runtime_d.glob("plugin_*"))


BROKEN = """#!/bin/sh
echo 'Traceback (most recent call last):'
echo '  File "/usr/local/pai/plugins/tensorboard/init.py", line 23, in <module>'
echo '    from jinja2 import Template'
echo "ImportError: cannot import name 'soft_unicode' from 'markupsafe'"
exit 1
"""


def test_a_plugin_whose_dependency_breaks_fails_alone(folders: InitFolders) -> None:
    add_plugin(folders, "tensorboard", BROKEN)
    other = {"plugin": "cmd", "parameters": {"preCommands": ["echo still here"]}}
    use = {"plugin": "tensorboard", "parameters": {"port": 1}}
    log = failure(folders, job(extras={PLUGINS: [use, other]}))
    reason = "error code is 1: ImportError: cannot import name 'soft_unicode' from 'markupsafe'"
    assert next(line for line in log.splitlines() if " - ERROR - " in line).endswith(reason)
    found = parse(folders, job(extras={PLUGINS: [use | {"failurePolicy": "ignore"}, other]}))
    assert shown(found) == [[], [("taskStarts", "echo still here\n")]]


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ({"plugin": "nothing"}, "Plugin 'nothing' is not supported"),
        ({"plugin": "cdm"}, "/plugins has no such folder; did you mean 'cmd'?"),
        ({"plugin": "cmd", "parameters": {"preCommands": "x"}}, "preCommands: must be a list, not 'x'"),
        ({"plugin": "cmd", "parameters": {"preCommands": ["<% $secrets.x %>"]}}, "no secret is named 'x'"),
    ],
)
def test_a_plugin_that_cannot_work(folders: InitFolders, use: dict[str, Any], reason: str) -> None:
    assert reason in failure(folders, job(extras={PLUGINS: [use]}))
    found = parse(folders, job(extras={PLUGINS: [use | {"failurePolicy": "ignore"}]}))
    assert shown(found) == [[]]


SPEC = """\
commands: ["ls  -al",  " echo <% $secrets.token %>\\n"]
runtimePlugin:
- plugin: cmd
  parameters:
    preCommands: [echo first]
"""


@pytest.mark.parametrize("in_file", [False, True])
def test_a_runtime_specification(folders: InitFolders, in_file: bool) -> None:
    (folders.config / "secret.yaml").write_text("token: of the singular\n")
    if in_file:
        (folders.config / "runtime_plugin.yaml").write_text(SPEC)
    variables = {} if in_file else {"RUNTIME_CONFIG": SPEC}
    ran = folders.run("userCommandRender", POD_UID="the-pod", POD_IP="10.0.0.7", **variables)
    assert ran.code == 0, ran.log
    found = spec(folders)
    assert show_text(found.command) == "ls  -al\necho <% $secrets.token %>"
    assert shown(found) == [[("taskStarts", "echo first\n")]]
    assert (found.uid, found.host, found.role, found.ports) == ("the-pod", "10.0.0.7", "task", {})


def test_the_plural_of_secret_files_wins(folders: InitFolders) -> None:
    (folders.config / "secret.yaml").write_text("token: singular\n")
    (folders.config / "secrets.yaml").write_text("token: plural\n")
    assert folders.run("userCommandRender", RUNTIME_CONFIG=SPEC).code == 0
    found = spec(folders)
    assert json.loads((Path(found.secrets_dir or "") / "values.json").read_text()) == {"token": "plural"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("commands: [", "RUNTIME_CONFIG:1"),
        ("command: [a]", "RUNTIME_CONFIG: there is no key 'command' here; did you mean 'commands'?"),
        ("[a]", "RUNTIME_CONFIG must be a mapping with commands, runtimePlugin"),
        ("commands: a", "RUNTIME_CONFIG: commands must be a list"),
        ("commands: [1]", "RUNTIME_CONFIG: commands must be a list of texts"),
        ("runtimePlugin: [a]", "RUNTIME_CONFIG: runtimePlugin[0] has no plugin"),
        ("commands: [a]\ncommands: [b]", "duplicate key 'commands'"),
    ],
)
def test_a_wrong_runtime_specification(folders: InitFolders, text: str, reason: str) -> None:
    ran = folders.run("userCommandRender", RUNTIME_CONFIG=text)
    assert (ran.code, reason in ran.log) == (1, True), ran.log


def test_a_broken_file_of_secrets_is_not_quoted(folders: InitFolders) -> None:
    add_secrets(folders, "a: hunter2\nhunter2 hunter2\n")
    ran = folders.run("userCommandRender", RUNTIME_CONFIG=SPEC)
    assert ran.code == 1
    assert "secrets.yaml:" in ran.log
    assert "hunter2" not in ran.log


def test_the_exit_specification_becomes_json(folders: InitFolders) -> None:
    entry = {"containerExitCode": 210, "patterns": [{"userLogRegex": "boom"}]}
    (folders.runtime_d / "runtime-exit-spec.yaml").write_text(json.dumps([entry]))
    folders.run("userCommandRender", RUNTIME_CONFIG=SPEC.replace("<% $secrets.token %>", ""))
    assert json.loads(Path(spec(folders).exit_spec or "").read_text()) == [entry]
    (folders.runtime_d / "runtime-exit-spec.yaml").write_text("- [")
    (folders.runtime_d / "kedge-task.json").unlink()
    ran = folders.run("userCommandRender", RUNTIME_CONFIG=SPEC.replace("<% $secrets.token %>", ""))
    assert "the built-in exit specification applies" in ran.log
    assert spec(folders).exit_spec is None


def test_settings_of_kedge_are_reported(folders: InitFolders) -> None:
    folders.write_framework(framework([role("taskrole1", {})], [], json.dumps(job(extras={"kedge": {"mask": False}}))))
    ran = folders.run("frameworkParser", **SECOND)
    assert (ran.code, "extras.kedge of the job has no effect" in ran.log) == (0, True)


@pytest.mark.parametrize("extras", [5, ["kedge"], None, "kedge"])
def test_extras_of_another_type_are_no_defect(folders: InitFolders, extras: Any) -> None:
    assert parse(folders, job(extras=extras)).command == ("echo hi",)


def test_without_anything_to_run_there_is_no_task(folders: InitFolders) -> None:
    ran = folders.run("userCommandRender")
    assert ran.code == 0
    assert not (folders.runtime_d / "kedge-task.json").exists()


def test_a_framework_without_a_configuration(folders: InitFolders) -> None:
    value = checked_example()
    del value["metadata"]["annotations"]["config"]
    folders.write_framework(value)
    ran = folders.run("frameworkParser", **VARIABLES, USER_CMD="true")
    assert (ran.code, "has no annotation config" in ran.log) == (0, True)
    assert spec(folders).command == ("true",)
