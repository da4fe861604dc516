"""Likely mistakes in valid job files: where they are reported, with which severity and suggestion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kedge.errors import ERROR, WARNING, Problem
from kedge.spec.parse import parse

Problems = Callable[[dict[str, Any]], list[Problem]]
W = "taskRoles/w"
PORTS = f"{W}/resourcePerInstance/ports"
CMD = "extras/com.microsoft.pai.runtimeplugin"


def command(line: str, **parameters: Any) -> dict[str, Any]:
    return {f"{W}/commands": [line], "parameters": {"lr": 1, **parameters}, "secrets": {"x": "y"}}


# (changes, severity, start of `where: message`, suggestion)
CASES: list[tuple[dict[str, Any], str, str, str | None]] = [
    (command("a <% $params.lr %>"), ERROR, "taskRoles.w.commands[0]: '<% $params.lr %>' is no", "<% $parameters.lr %>"),
    (command("a <%$parameter.x%>"), ERROR, "taskRoles.w.commands[0]: '<%$parameter.x%>' is no", "<% $parameters.x %>"),
    (command("a <% $secret.x %>"), ERROR, "taskRoles.w.commands[0]: '<% $secret.x %>' is no", "<% $secrets.x %>"),
    (command("a <% parameters.l[0] %>"), ERROR, "taskRoles.w.commands[0]: '<% para", "<% $parameters.l[0] %>"),
    (command("a <% params.lr %>"), ERROR, "taskRoles.w.commands[0]: '<% params.lr %>'", "<% $parameters.lr %>"),
    (command("a <% $outputs.uri %>"), ERROR, "taskRoles.w.commands[0]: '<% $outputs.uri %>'", "<% $output.uri %>"),
    (command("a <% params.nx %>"), WARNING, "taskRoles.w.commands[0]: '<% params.nx %>'", "<% $parameters.nx %>"),
    (command("a <% data.uri %>"), WARNING, "taskRoles.w.commands[0]: '<% data.uri %>'", "<% $data.uri %>"),
    (command("a <% $x %>"), WARNING, "taskRoles.w.commands[0]: '<% $x %>' is not a reference and is not repl", None),
    (command("a <% this.x %>"), WARNING, "taskRoles.w.commands[0]: 'this' works only inside a prerequisite", None),
    (command("a <%= $parameters.lr %>"), WARNING, "taskRoles.w.commands[0]: '<%= $para", "<% $parameters.lr %>"),
    (command("a ${{ parameters.lr }}"), WARNING, "taskRoles.w.commands[0]: '${{ parame", "<% $parameters.lr %>"),
    (command("a {{ $parameters.lr }}"), WARNING, "taskRoles.w.commands[0]: '{{ $paramete", "<% $parameters.lr %>"),
    (command("a {{lr}}"), WARNING, "taskRoles.w.commands[0]: '{{lr}}' is not replaced", "<% $parameters.lr %>"),
    (command("a $parameters.lr"), WARNING, "taskRoles.w.commands[0]: the shell reads '$pa", "<% $parameters.lr %>"),
    (command("a ${secrets.x}"), WARNING, "taskRoles.w.commands[0]: the shell reads '${secrets.x}'", "<% $secrets.x %>"),
    (
        {f"{W}/resourcePerInstance/memoryMB": 4},
        WARNING,
        "taskRoles.w.resourcePerInstance.memoryMB: 4 MB is too little to start a task",
        None,
    ),
    (
        {f"{W}/resourcePerInstance/memoryMB": 12},
        WARNING,
        "taskRoles.w.resourcePerInstance.memoryMB: 12 MB is very little",
        None,
    ),
    (
        {f"{W}/extraContainerOptions": {"shmMB": 4096}},
        WARNING,
        "taskRoles.w.extraContainerOptions.shmMB: 4096 MB is more than the role's memoryMB of",
        None,
    ),
    (command("a", b="<% $parameters.lr %>"), WARNING, "parameters.b: '<% $parameters.lr %>' is not replaced", None),
    ({"secrets": {"a": "pw<% $secrets.b %>"}}, WARNING, "secrets.a: a reference is not replaced here", None),
    ({"extras/kedge": {"workdir": "./<% $parameters.x %>"}}, WARNING, "extras.kedge.workdir: '<% $parameters.x", None),
    ({"prerequisites/0/uri": "u:<% $secrets.x %>"}, WARNING, "prerequisites[0].uri: '<% $secrets.x %>' is not", None),
    (
        {"prerequisites/0/auth": {"username": "<% $parameters.x %>"}},
        WARNING,
        "prerequisites[0].auth.username: '<% $parameters.x %>' is not replaced here; only $secrets works",
        None,
    ),
    (
        {CMD: [{"plugin": "cmd", "parameters": {"preCommands": ["a <% $params.x %>"]}}]},
        ERROR,
        "extras.com.microsoft.pai.runtimeplugin[0].parameters.preCommands[0]: '<% $params.x %>' is not a reference",
        "<% $parameters.x %>",
    ),
    (
        command("echo $PAI_TASK_ROLE_wroker_HOST_LIST"),
        WARNING,
        "taskRoles.w.commands[0]: no task has the variable 'PAI_TASK_ROLE_wroker_HOST_LIST': no task role is named",
        "PAI_TASK_ROLE_w_HOST_LIST",
    ),
    (command("echo ${PAI_HOST_IP_v_0}"), WARNING, "taskRoles.w.commands[0]: no task has", "PAI_HOST_IP_w_0"),
    (command("echo $PAI_HOST_IP_w_1"), WARNING, "taskRoles.w.commands[0]: no task has", "PAI_HOST_IP_w_0"),
    (command("echo ${!PAI_RESOURCE_x}"), WARNING, "taskRoles.w.commands[0]: no task has", "PAI_RESOURCE_w"),
    (command("echo $PAI_PORT_LIST_w_0_htp"), WARNING, "taskRoles.w.commands[0]: no t", "PAI_PORT_LIST_w_0_http"),
    (command("echo $PAI_v_0_ssh_PORT"), WARNING, "taskRoles.w.commands[0]: no task has", "PAI_w_0_ssh_PORT"),
    (command("echo $PAI_CONTAINER_HOST_mpi_PORT_LIST"), WARNING, "taskRoles.w.commands[0]: no task has the var", None),
    (command("cd $KEDGE_OUTPUTDIR"), WARNING, "taskRoles.w.commands[0]: no task has the var", "KEDGE_OUTPUT_DIR"),
    (command("echo $PAI_TASK_INDX"), WARNING, "taskRoles.w.commands[0]: no task has the variable", "PAI_TASK_INDEX"),
    (command("python -c 'os.environ[\"PAI_JOBNAME\"]'"), WARNING, "taskRoles.w.commands[0]: no", "PAI_JOB_NAME"),
    (
        {"prerequisites/+": {"name": "d", "type": "data", "sha256": "a", "url": "x"}},
        ERROR,
        "prerequisites[1].url: 'sha256' needs a 'uri' to download from; replace the unknown key 'url' with 'uri'",
        "uri",
    ),
    ({"prerequisites/+": {"name": "d", "type": "data", "sha256": "a"}}, ERROR, "prerequisites[1].sha256: 'sha2", None),
    ({"prerequisites/+": {"name": "d", "type": "data", "url": "x"}}, WARNING, "prerequisites[1].url: unknown", "uri"),
    ({"prerequisites/+": {"name": "s", "type": "script", "requires": []}}, WARNING, "prerequisites[1].req", "require"),
    (
        {"extras/kedge": {"timeLimit": "5m", "warnBefore": "300s"}},
        ERROR,
        "extras.kedge.warnBefore: 'warnBefore' must be shorter than the time limit in line ",
        None,
    ),
    (
        {"extras/kedge": {"attemptTimeLimit": 60, "taskRoles": {"w": {"warnBefore": "1m"}}}},
        ERROR,
        "extras.kedge.taskRoles.w.warnBefore: 'warnBefore' must be shorter than the time limit in line ",
        None,
    ),
    ({"extras/kedge": {"warnBefore": 60}}, WARNING, "extras.kedge.warnBefore: 'warnBefore' has no effect, bec", None),
    (
        {"extras/kedge": {"taskRoles": {"w": {"warnBefore": 60}}}},
        WARNING,
        "extras.kedge.taskRoles.w.warnBefore: 'warnBefore' has no effect, because the role has no time limit",
        None,
    ),
    (
        {"extras/kedge": {"timeLimit": "1h", "attemptTimeLimit": "60m"}},
        WARNING,
        "extras.kedge.attemptTimeLimit: this limit never passes: the one in line ",
        None,
    ),
    ({"extras/storagse": []}, WARNING, "extras.storagse: unknown key 'storagse'; did you mean 'storages'?", "storages"),
    (
        {"extras/storages": [{"name": "a", "mountpath": "/x"}]},
        WARNING,
        "extras.storages[0].mountpath: unknown key 'mountpath' is ignored; did you mean 'mountPath'?",
        "mountPath",
    ),
    ({"extras/storages": [{"name": ""}]}, WARNING, "extras.storages[0]: is ignored, as it has no name", None),
    (
        {
            "prerequisites/+": {"name": "s", "type": "script", "requireStorages": [{"name": "a", "path": "/x"}]},
            f"{W}/prerequisites": ["s"],
        },
        WARNING,
        "prerequisites[1].requireStorages[0].path: unknown key 'path' is ignored",
        "mountPath",
    ),
    ({f"{W}/extraContainerOptions": {"shMB": 4}}, WARNING, "taskRoles.w.extraContainerOptions.shMB: unknown", "shmMB"),
    ({"defaults": {"deploymnet": "x"}}, WARNING, "defaults.deploymnet: unknown key 'deploymnet'", "deployment"),
    ({f"{W}/completion": {"minFailedInstances": 2}}, WARNING, "taskRoles.w.completion.minFailedInstances: 2 is n", "1"),
    ({f"{W}/completion": {"minSucceededInstances": 2}}, WARNING, "taskRoles.w.completion.minSucceededInstanc", "1"),
    ({f"{W}/taskRetryCount": 1}, WARNING, "taskRoles.w.taskRetryCount: has no effect without 'extras.gangAll", None),
    ({PORTS: None}, WARNING, "taskRoles.w.resourcePerInstance.ports: is empty and has no effect", None),
    ({"extras/storages": None}, WARNING, "extras.storages: is empty and has no effect", None),
    (
        {"prerequisites/0/uri": "PyTorch/pytorch:2.2.0-CUDA"},
        WARNING,
        "prerequisites[0].uri: 'PyTorch/pytorch:2.2.0-CUDA' is not the name of an image: did you mean",
        "pytorch/pytorch:2.2.0-CUDA",
    ),
    ({"prerequisites/0/uri": "https://h/x"}, WARNING, "prerequisites[0].uri: 'https://h/x' is not the name", None),
    ({"prerequisites/0/auth": {"user": "a"}}, WARNING, "prerequisites[0].auth.user: unknown key 'user'", "username"),
    ({PORTS: {"ssh": 22}}, WARNING, "taskRoles.w.resourcePerInstance.ports.ssh: this reserves 22 ports", "1"),
]


@pytest.mark.parametrize(("changes", "severity", "start", "suggestion"), CASES, ids=str)
def test_a_likely_mistake_is_reported_once_with_its_severity(
    problems: Problems, changes: dict[str, Any], severity: str, start: str, suggestion: str | None
) -> None:
    (found,) = problems(changes)
    assert f"{found.where}: {found.message}".startswith(start)
    assert (found.severity, found.suggestion) == (severity, suggestion)


SILENT: list[dict[str, Any]] = [
    command("a <% $parameters.lr %> <% $secrets.x %>"),
    command("docker ps --format '{{ .Names }}' {{ other }} ${{ github.sha }}"),
    command("echo <% if x %> <%= name %> <%# c %> <% user.name %>"),
    command("parameters=1; echo $parameters.lr; echo $output.log ${data.x}"),
    command("echo $PAI_TASK_ROLE_w_HOST_LIST $PAI_RESOURCE_w $PAI_PORT_LIST_w_0_ssh $PAI_w_0_http_PORT $PAI_WORK_DIR"),
    command("cd $KEDGE_OUTPUT_DIR; cat ${KEDGE_JOB_DIR}/x; echo $KEDGE_JOB_ID $KEDGE_PEERS_FILE $KEDGE_MARKETPLACE"),
    command("port=PAI_PORT_LIST_${PAI_CURRENT_TASK_ROLE_NAME}_${PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX}_http"),
    command("echo $PAI_HOST_IP_${R}_0 ${PAI_MINE:-x}; PAI_TASK_INDX=3; echo $PAI_TASK_INDX $PAI_PORT_LIST_w_${i}_x"),
    {"extras/kedge": {"unknownReferences": "keep"}, f"{W}/commands": ["a <% $params.lr %>"]},
    {"taskRoles/W_2": {}, "taskRoles!": None} and command("echo $PAI_MIN_FAILED_TASK_COUNT_w"),
    {"prerequisites/+": {"name": "s", "type": "script", "url": "x", "callbacks": [
        {"event": "taskStarts", "commands": ["get <% this.url %>"]}]}},
    {"prerequisites/+": {"name": "d", "type": "data", "sha256": "a", "plugin": "mine"}},
    {f"{W}/completion": {"minFailedInstances": 1, "minSucceededInstances": -1}},
    {f"{W}/instances": 3, f"{W}/completion": {"minFailedInstances": 3}},
    {f"{W}/taskRetryCount": 1, "extras/gangAllocation": False},
    {"extras/kedge": {"timeLimit": "2h", "attemptTimeLimit": "1h", "warnBefore": "5m"}},
    {"extras/kedge": {"warnBefore": "5m", "taskRoles": {"w": {"timeLimit": "1h"}}}},
    {"prerequisites/+": {"name": "s", "type": "script", "plugin": "cmd", "callbacks": [
        {"event": "beforeStop", "commands": ["kill -USR1 $KEDGE_PROGRAM_PIDS; echo $KEDGE_COMMAND_PID"]}]}},
    {"prerequisites/0/uri": f"localhost:5000/a/b_c:V1.0-Cuda@sha256:{'a' * 64}"},
    {"parameters": {"tag": "1"}, "prerequisites/0/uri": "Reg/x:<% $parameters.tag %>"},
    {"description": "<% $parameters.x %>", "contributor": "<% $params.x %>"},
]  # fmt: skip


@pytest.mark.parametrize("changes", SILENT, ids=str)
def test_text_that_may_be_intended_is_not_reported(problems: Problems, changes: dict[str, Any]) -> None:
    assert problems(changes) == []


def test_variables_may_use_the_kubernetes_name_of_a_role(problems: Problems) -> None:
    role = {"dockerImage": "img", "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0}}
    line = "echo $PAI_HOST_IP_ps_server_0 $PAI_HOST_IP_psserver_0 $PAI_PORT_LIST_ps_server_0_ssh"
    assert problems({"taskRoles/ps_server": {**role, "commands": [line]}}) == []


def test_each_occurrence_is_reported_at_its_own_position() -> None:
    text = """\
protocolVersion: 2
name: j
type: job
prerequisites: [{name: img, type: dockerimage, uri: u}]
taskRoles:
  w:
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands:
      - |
        echo <% $x %> $PAI_HOST_IP_v_0
        echo $PAI_HOST_IP_v_0 <% $x %>
"""
    places = [(problem.line, problem.column) for problem in parse(text).warnings]
    assert places == [(11, 14), (11, 24), (12, 15), (12, 31)]


@pytest.mark.parametrize(
    ("path", "value", "meant"),
    [
        (f"{W}/resourcePerInstance/memoryMB", "4GB", "it is a number of MiB: write 4096"),
        (f"{W}/resourcePerInstance/memoryMB", "4 GiB", "write 4096"),
        (f"{W}/resourcePerInstance/memoryMB", "1536Mi", "write 1536"),
        (f"{W}/resourcePerInstance/memoryMB", "0.5g", "write 512"),
        (f"{W}/resourcePerInstance/memoryMB", "1048577", "write 1048577"),
        (f"{W}/resourcePerInstance/memoryMB", "lots", "it is a number of MiB"),
        (f"{W}/extraContainerOptions/shmMB", "512m", "it is a number of MiB: write 512"),
        (f"{W}/extraContainerOptions/shmMB", "1024b", "it is a number of MiB: write 1"),
        (f"{W}/resourcePerInstance/cpu", "10m", "it counts cores: write 0.01"),
        (f"{W}/resourcePerInstance/cpu", "2500m", "write 2.5"),
        (f"{W}/resourcePerInstance/cpu", 0, "must be at least 0.01, not 0"),
        (f"{W}/resourcePerInstance/cpu", -0.5, "must be at least 0.01, not -0.5"),
        (f"{W}/resourcePerInstance/cpu", 0.009, "must be at least 0.01, not 0.009"),
        (f"{W}/resourcePerInstance/gpu", "1", "write 1 without quotes"),
        (f"{W}/instances", "<% $parameters.n %>", "write the value itself; references work only in commands"),
        ("extras/kedge", {"stop": {"graceSec": "10 minutes"}}, "such as 90s, 30m, 1h30m or 2d; did you mean '10m'?"),
        ("extras/kedge", {"retry": {"backoffSec": "1.5 min"}}, "did you mean '1.5m'?"),
        ("extras/kedge", {"stop": {"graceSec": "2d"}}, "must be at most 86400 seconds, not '2d'"),
        ("extras/kedge", {"stop": {"graceSec": [1]}}, "must be a number of seconds, or a duration such as 30m"),
        (PORTS, {"x": 29500}, "29500 is how many ports to reserve, not a port number: write 1"),
        (PORTS, 8080, "write how many by label, as in 'ports: {http: 1}'"),
    ],
    ids=str,
)
def test_the_message_about_a_number_with_a_unit_shows_what_to_write(
    problems: Problems, path: str, value: object, meant: str
) -> None:
    (found,) = problems({path: value})
    assert found.severity == ERROR
    assert meant in found.message
