"""The environment of a task: variables, peers, ports, code, secrets."""

from __future__ import annotations

from kedge.states import State
from kedge.testing.command import Kedge
from kedge.testing.conformance.case import ConformanceCase, no_secrets, same

_SECRET = "hunter2hunter2"
_HOOK = {
    "name": "hook", "type": "script", "plugin": "cmd",
    "callbacks": [{"event": "taskStarts", "commands": ["export FROM_HOOK=\"hook $BOTH\""]}],
}  # fmt: skip
_CODE = {"name": "code", "type": "script", "uri": "./code"}
# Shell functions. at INDEX: prints the address and port of a worker. answer TEXT: sends it to the first client. ask
# ADDRESS: sets `said` to the answer. The client sends without end, because busybox's nc drops the answer if its own
# input ends first.
_TALK = """\
at() { echo "$PAI_TASK_ROLE_worker_HOST_LIST" | tr , '\\n' | sed -n "$(($1 + 1))p"; }
answer() { echo "$1" | busybox nc -l -p $PAI_CURRENT_CONTAINER_PORT > /dev/null; }
ask() { until said=$(busybox nc "${1%:*}" "${1#*:}" < /dev/zero 2> /dev/null || :) && [ "$said" ]; do sleep 0.1; done; }
"""
_RING = 'answer "I am $PAI_TASK_INDEX" & ask $(at $(((PAI_TASK_INDEX + 1) % 3))); echo "$said"; wait'
_RING_SAID = {"worker-0": "I am 1\n", "worker-1": "I am 2\n", "worker-2": "I am 0\n"}
_LATE = "if [ $PAI_TASK_INDEX = 0 ]; then ask $(at 1); echo $said; else [ $FC_TASK_ATTEMPT_ID = 1 ]; answer late; fi"


def _addresses_agree(kedge: Kedge) -> None:
    views = {kedge.task_log("worker-0"), kedge.task_log("worker-1"), kedge.task_log("ps-0")}
    same("different lists of addresses and ports", len(views), 1)
    lines = views.pop().split()
    assert len(lines) == 3, lines
    assert len(set(lines)) == 3, f"two tasks share an address and port: {lines}"


def _ports_are_distinct(kedge: Kedge) -> None:
    ssh, http, web = (line.split(",") for line in kedge.task_log().splitlines())
    same("numbers of ports", [len(ports) for ports in (ssh, http, web)], [1, 1, 2])
    assert len({*ssh, *http, *web}) == 4, f"a port was assigned twice: {ssh} {http} {web}"


def _secret_is_gone(kedge: Kedge) -> None:
    run = kedge.only_run()
    kept = [file for file in run.rglob("*") if file.is_file() and _SECRET.encode() in file.read_bytes()]
    same("files with the secret", kept, [])
    no_secrets(run)


BEHAVIOURS = {
    "variables describe the task and its job": ConformanceCase(
        [
            "echo $PAI_CURRENT_TASK_ROLE_NAME $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX $PAI_TASK_INDEX",
            "echo $PAI_TASK_ROLE_LIST $PAI_JOB_TASK_COUNT $PAI_TASK_ROLE_TASK_COUNT_worker $PAI_RESOURCE_worker",
            "echo $FC_FRAMEWORK_ATTEMPT_ID $FC_TASK_ATTEMPT_ID",
            '[ "$PAI_HOST_IP_worker_0" = "$PAI_CURRENT_CONTAINER_IP" ]',
            '[ "$PAI_FRAMEWORK_NAME" = "$PAI_USER_NAME~job" ]',
            '[ -d "$PAI_LOG_DIR" ] && [ -d "$PAI_WORK_DIR" ] && [ -r "$KEDGE_PEERS_FILE" ]',
        ],
        roles={"worker": {}, "ps": {"commands": ["true"], "completion": {"minSucceededInstances": -1}}},
        logs="worker 0 0\nworker,ps 2 1 0,1,64,0\n0 0\n",
    ),
    "a share of a CPU runs a task, and counts as one where scripts expect whole numbers": ConformanceCase(
        "echo $PAI_RESOURCE_worker",
        roles={"worker": {"resourcePerInstance": {"cpu": 0.5, "memoryMB": 64, "gpu": 0}}},
        logs="0,1,64,0\n",
    ),
    "all tasks see the same addresses": ConformanceCase(
        "echo $PAI_TASK_ROLE_worker_HOST_LIST,$PAI_TASK_ROLE_ps_HOST_LIST | tr , '\\n'",
        roles={
            "worker": {"instances": 2, "completion": {"minSucceededInstances": -1}},
            "ps": {"completion": {"minSucceededInstances": -1}},
        },
        more=_addresses_agree,
    ),
    "peers reach each other at their ports in every attempt": ConformanceCase(
        [_TALK, _RING, "[ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]"],
        roles={"worker": {"instances": 3, "completion": {"minFailedInstances": 3}}},
        keys={"jobRetryCount": 1},
        logs={**_RING_SAID, **{f"attempt-1/{task}": said for task, said in _RING_SAID.items()}},
    ),
    "peers reach a task that was retried alone": ConformanceCase(
        [_TALK, _LATE],
        roles={"worker": {"instances": 2, "taskRetryCount": 1}},
        keys={"extras": {"gangAllocation": False}},
        logs={"worker-0": "late\n"},
        states={"worker:0": State.SUCCEEDED, "worker:1": State.SUCCEEDED},
    ),
    "a task gets the ports that it requests": ConformanceCase(
        [
            "echo $PAI_CONTAINER_SSH_PORT",
            "echo $PAI_CURRENT_CONTAINER_PORT",
            "echo $PAI_CONTAINER_HOST_web_PORT_LIST",
        ],
        roles={"worker": {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"web": 2}}}},
        more=_ports_are_distinct,
    ),
    "a parameter on the command line replaces the one in the file": ConformanceCase(
        "echo <% $parameters.lr %>", keys={"parameters": {"lr": 0.1}}, options=("-p", "lr=1.0"), logs="1.0\n"
    ),
    "variables of the job and of a role reach hooks and the command": ConformanceCase(
        'echo "$FROM_HOOK,$JOB,$BOTH,$ROLE,$EMPTY,$TYPE"',
        roles={"worker": {"prerequisites": ["hook"]}},
        keys={
            "prerequisites": [_HOOK],
            "parameters": {"lr": 1.0},
            "extras": {
                "kedge": {
                    "env": {"JOB": "a b\n$x'\"", "BOTH": "job", "EMPTY": ""},
                    "taskRoles": {"worker": {"env": {"BOTH": "role", "ROLE": "lr <% $parameters.lr %>", "TYPE": True}}},
                }
            },
        },
        logs="hook role,a b\n$x'\",role,lr 1.0,,true\n",
    ),
    "a variable with a secret reaches the task and no file that is kept": ConformanceCase(
        'echo "$AUTH" | tr 2 _; echo "$AUTH"',
        keys={"secrets": {"token": "x"}, "extras": {"kedge": {"env": {"AUTH": "Bearer <% $secrets.token %>"}}}},
        options=("--secret", f"token={_SECRET}"),
        logs="Bearer hunter_hunter_\nBearer ******\n",
        more=_secret_is_gone,
    ),
    "variables on the command line replace those in files, and those in the job file": ConformanceCase(
        'echo "$A,$B,$C,$D,$E"',
        keys={"extras": {"kedge": {"env": {"A": 1}, "taskRoles": {"worker": {"env": dict.fromkeys("BCD", 1)}}}}},
        files={"a.env": "# one\nB=2\nC=2\nD=2 2\n", "b.env": "\nC=3\n  E=3=4\r\n"},
        options=("--env", "D=4", "--env-file", "a.env", "--env-file", "b.env"),
        logs="1,2,3,4,3=4\n",
    ),
    "a variable of the user's shell reaches the task and no file that is kept": ConformanceCase(
        'echo "$TOKEN" | tr 2 _; echo "$TOKEN"; tr "\\0" "\\n" < /proc/$PPID/cmdline | grep -c hunter || :',
        options=("--env", "TOKEN"),
        exported={"TOKEN": _SECRET},
        logs="hunter_hunter_\n******\n0\n",
        more=_secret_is_gone,
    ),
    "a secret reaches the task and no file that is kept": ConformanceCase(
        "echo <% $secrets.token %> | tr 2 _; echo <% $secrets.token %>",
        keys={"secrets": {"token": "x"}},
        options=("--secret", f"token={_SECRET}"),
        logs="hunter_hunter_\n******\n",
        more=_secret_is_gone,
    ),
    "code next to the job file becomes the working directory": ConformanceCase(
        "sh main.sh; ls",
        roles={"worker": {"script": "code", "instances": 2}},
        keys={"prerequisites": [_CODE]},
        files={
            "code/main.sh": "cat data/one",
            "code/data/one": "data\n",
            "code/x.bin": "",
            "code/.kedgeignore": "*.bin",
        },
        logs={"worker-0": "data\ndata\nmain.sh\n", "worker-1": "data\ndata\nmain.sh\n"},
    ),
    "a folder on the command line becomes the working directory": ConformanceCase(
        "cat file", files={"here/file": "content\n"}, options=("--workdir", "here"), logs="content\n"
    ),
}
