"""What only containers have: images, limits, networks, and an engine that may fail. (The behaviours of all engines are
in kedge.testing.conformance.)"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kedge.engines.base import Task
from kedge.engines.container import engine, ownership
from kedge.engines.container.api import connection
from kedge.engines.container.api.connection import Connection
from kedge.engines.container.ends.lost_files import Looks
from kedge.engines.container.engine import busy_gpus
from kedge.engines.container.rendering.container_spec import JOB, Bind, ContainerSpec
from kedge.jobs.preparation import prepare
from kedge.resolve.model import Inputs
from kedge.runs.folder import Run
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge, message, need_own_service, report, tool

NO_RETRY = {"kedge": {"retry": {"maxTransient": 0}}}
SLEEP = "trap 'exit 0' TERM; echo ready; sleep 1000 & wait"


@pytest.fixture
def kedge(in_containers: Callable[[str], Kedge]) -> Kedge:
    return in_containers("busybox")


def running(kedge: Kedge) -> list[str]:
    """The names of the only run's running containers."""
    label = f"label=kedge.job={kedge.only_run().name}"
    return tool("ps", "--filter", label, "--format", "{{.Names}}")


def test_the_bundle_is_built_once_and_kept_while_it_is_used(kedge: Kedge, tmp_path: Path) -> None:
    kedge.environment["XDG_CACHE_HOME"] = str(tmp_path / "empty")
    first = kedge.start("run", kedge.job(SLEEP))
    kedge.wait_for_output("ready")
    assert "deleted 0 bundles" in kedge("cache", "--prune").stdout
    kedge.lose_controller()
    assert "building the runtime's bundle; this happens once" in kedge.finish(first, 1)
    assert "deleted no bundle" in kedge("cache", "--prune").stdout
    kedge("stop", "job")
    second = kedge("run", "-d", kedge.job("true", name="second"))
    assert "bundle" not in second.stderr
    kedge("wait", "second")
    assert "1 bundle," in kedge("cache").stdout
    wait_until(lambda: "deleted 1 bundle," in kedge("cache", "--prune").stdout, TIMEOUT)


def test_tasks_reach_each_other_by_name(kedge: Kedge) -> None:
    roles = {
        "server": {
            "commands": ["nc -l -p $PAI_CONTAINER_HOST_http_PORT_LIST -e echo hello"],
            "completion": {"minSucceededInstances": -1},  # the client may still read
        },
        "client": {
            "commands": ["hostname", "until nc server-0 $PAI_PORT_LIST_server_0_http 2>/dev/null; do sleep 0.1; done"]
        },
    }
    kedge("run", kedge.job("", roles=roles))
    assert kedge.task_log("client-0") == "client-0\nhello\n"


def test_limits_are_enforced_and_capped(kedge: Kedge) -> None:
    show = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max; df -k /dev/shm"
    role = {
        "resourcePerInstance": {"cpu": 9999, "memoryMB": 128, "gpu": 0},
        "extraContainerOptions": {"shmMB": 32},
    }
    done = kedge("run", kedge.job([show], roles={"worker": role}))
    assert "worker requests 9999 CPUs" in done.stderr
    assert str(128 << 20) in kedge.task_log()
    assert "32768" in kedge.task_log()


@pytest.mark.parametrize(
    ("memory", "command"),
    [
        (64, "tail /dev/zero"),  # the supervisor survives
        (64, "dd if=/dev/zero of=/dev/shm/x bs=1M count=400"),  # nothing survives
        (4, "true"),  # nothing can start
    ],
)
def test_memory_above_the_limit_is_a_fault_of_the_task(kedge: Kedge, memory: int, command: str) -> None:
    role = {"resourcePerInstance": {"cpu": 1, "memoryMB": memory, "gpu": 0}}
    kedge("run", kedge.job(command, roles={"worker": role}), code=1)
    assert (report(kedge)["root"]["cause"], report(kedge)["attempts"]) == ("host_oom_kill", 1)
    assert not (kedge.folder / "oom").exists()  # podman leaves this file where it was started


def test_tasks_have_few_rights_and_run_as_the_requested_user(kedge: Kedge) -> None:
    show = "id -u; grep -E 'CapBnd|NoNewPrivs' /proc/self/status; grep ' /usr/local/pai ' /proc/mounts"
    limit = "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max"
    write = "touch $PAI_LOG_DIR/mine $KEDGE_OUTPUT_DIR/mine $KEDGE_JOB_DIR/mine"
    kedge("run", kedge.job([show, limit, write]), "--user", "1234:5678", "--pids-limit", "100")
    assert all(
        (folder / "mine").exists() for folder in (kedge.task(), kedge.task() / "output", kedge.only_run() / "job-dir")
    )
    user, bounding, privileges, mount, pids = kedge.task_log().splitlines()
    assert (user, privileges.split()[1], pids) == ("1234", "1", "100")
    for bit in (13, 27, 29, 31):  # NET_RAW, MKNOD, AUDIT_WRITE, SETFCAP
        assert not int(bounding.split()[1], 16) >> bit & 1
    assert "nosuid,nodev" in mount or tool("--version")[0].startswith("Docker")


def test_a_fraction_of_a_cpu_is_a_share_of_it(kedge: Kedge) -> None:
    shown = "cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"
    kedge("run", kedge.job(shown, roles={"w": {"resourcePerInstance": {"cpu": 0.25, "memoryMB": 64, "gpu": 0}}}))
    assert kedge.task_log("w-0").split()[0] == "25000"


def test_a_role_can_restore_capabilities(kedge: Kedge) -> None:
    extras = {"kedge": {"capabilities": {"worker": ["NET_RAW"]}}}
    kedge("run", kedge.job("grep CapBnd /proc/self/status", extras=extras))
    assert int(kedge.task_log().split()[1], 16) >> 13 & 1


def test_invalid_users_are_an_error_before_the_start(kedge: Kedge) -> None:
    assert "write it as UID or UID:GID" in kedge("run", kedge.job("true"), "--user", "a b", code=2).stderr
    if os.geteuid() == 0:
        done = kedge("run", kedge.job("true"), "--userns", "keep-id", code=4)
        assert "--userns keep-id" in done.stderr


def test_a_missing_image_is_reported_as_such(kedge: Kedge) -> None:
    kedge.image = "localhost:1/none:1"
    kedge("run", kedge.job("true", extras=NO_RETRY), code=1)
    assert report(kedge)["tasks"][0]["pai_code"] == 254
    assert report(kedge)["tasks"][0]["reason"] == "cannot-start"
    assert "the image localhost:1/none:1 cannot be pulled" in message(kedge)


def test_an_invalid_image_name_is_an_error_of_the_job(kedge: Kedge) -> None:
    kedge.image = "docker://some/image"
    kedge("run", kedge.job("true"), code=1)
    assert report(kedge)["code"] == 254
    assert "docker://some/image is not a valid image name" in message(kedge)


def test_unreadable_stored_passwords_are_reported_as_such(kedge: Kedge, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"credsStore": "nowhere"}')
    kedge.image = "localhost:1/kedge/none:1"
    kedge("run", kedge.job("true", extras=NO_RETRY), code=1, DOCKER_CONFIG=str(tmp_path))
    assert "docker-credential-nowhere" in message(kedge)
    assert report(kedge)["code"] == 254


def test_an_image_for_another_machine_is_an_error_of_the_job(kedge: Kedge, derived: Callable[..., str]) -> None:
    kedge.image = derived("--arch", "s390x")
    kedge("run", kedge.job("true", extras=NO_RETRY), code=1)
    assert report(kedge)["tasks"][0]["pai_code"] == 254
    assert "is for s390x, but this machine is" in message(kedge)
    assert "built for another kind of processor" in json.dumps(report(kedge)["root"])


def test_an_image_with_a_missing_user_is_an_error_of_the_job(kedge: Kedge, derived: Callable[..., str]) -> None:
    kedge.image = derived("--change", "USER nowhere")
    kedge("run", kedge.job("true"), code=1)
    assert report(kedge)["tasks"][0]["pai_code"] == 254
    assert report(kedge)["root"]["cause"] == "container_failure"
    assert "unable to find user nowhere" in message(kedge)


def test_user_folder_and_variables_are_those_of_the_image(
    kedge: Kedge, derived: Callable[..., str], tmp_path: Path
) -> None:
    changes = ("USER 1234", "WORKDIR /here", "ENV LD_PRELOAD=/none.so", "ENV PATH=/bin:/usr/bin", "ENV OURS=image")
    kedge.image = derived(*(word for change in changes for word in ("--change", change)))
    job = kedge.job(
        [
            "id -u; pwd; echo $LD_PRELOAD; echo $OURS",
            "mkdir -m 700 $PAI_LOG_DIR/own; echo <% $secrets.token %> > $PAI_LOG_DIR/own/token",
            "wc -c < $PAI_LOG_DIR/own/token",
        ],
        secrets={"token": "12345678"},
        extras={"kedge": {"env": {"OURS": "job"}}},
    )  # fmt: skip
    kedge("run", job)
    assert kedge.task_log() == "1234\n/here\n/none.so\njob\n9\n"
    kedge("rm", "job")
    assert not kedge.runs()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
@pytest.mark.parametrize("plan", ['{"roles": [{"image": "localhost/kedge/none:1"}]}', "damaged"])
def test_files_of_other_users_can_be_deleted_even_if_their_image_is_gone(
    kedge: Kedge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", kedge.environment["XDG_CACHE_HOME"])
    run = Run(tmp_path / f"run-{os.urandom(4).hex()}")
    (run.path / "deep" / "er").mkdir(parents=True)
    run.plan_file.write_text(plan)
    os.mkfifo(run.path / "deep" / "er" / "pipe")
    everything = [run.path, *run.path.rglob("*")]
    for path in everything:
        os.chown(path, 1234, 1234)
        path.chmod(0o700)
    with Connection(connection.address()) as connected:
        ownership.give_back(connected.client, run)
    assert {path.stat().st_uid for path in everything} == {0}


def test_code_is_where_the_command_starts(kedge: Kedge, derived: Callable[..., str], tmp_path: Path) -> None:
    kedge.image = derived("--change", "USER 1234", "--change", "ENV PATH=/bin:/usr/bin")
    code = tmp_path / "code"
    (code / "sub").mkdir(parents=True)
    (code / "hello.sh").write_text("echo hello from $0; touch sub/made")
    kedge("run", kedge.job(["pwd", "sh hello.sh; ls sub"]), "--workdir", code)
    assert kedge.task_log() == "/usr/local/pai/scripts/workdir\nhello from hello.sh\nmade\n"
    assert not list((code / "sub").iterdir())


def test_containers_cannot_write_to_the_snapshot_or_to_code_that_they_share(kedge: Kedge) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    (code / "file").write_text("content\n")
    denied = "{ touch %s 2>&1 || :; } | sed 's/.*: //'; cat file"
    kedge("run", kedge.job(denied % "/usr/local/pai/snapshot/file", name="private"), "--workdir", code)
    kedge("run", kedge.job(denied % "file", name="shared", extras={"kedge": {"code": "readOnly"}}), "--workdir", code)
    assert kedge.task_log() == 2 * "Read-only file system\ncontent\n"
    kedge("show", "private", "--export", kedge.folder / "new")
    copied = [kedge.folder / "new" / name for name in ("code", "code/file")]
    assert [path.stat().st_mode & 0o022 for path in copied] == [0, 0]  # unlike the snapshot, for the users of images


def test_the_jobs_folder_of_a_local_run_can_be_written_by_any_user_of_an_image(
    kedge: Kedge, derived: Callable[..., str]
) -> None:
    kedge.image = derived("--change", "USER 1234", "--change", "ENV PATH=/bin:/usr/bin")
    save = 'cd "$KEDGE_JOB_DIR"; mkdir -p models/last; echo saved >> models/last/weights; cat models/last/weights'
    kedge.engine = "local"
    kedge("run", kedge.job(save))
    again = kedge("rerun", "--engine", "container", "--with-job-dir", kedge.only_run().name)
    assert again.stdout.count("worker:0 | saved") == 2


def test_storages_are_mounted_from_the_submitters_folders(kedge: Kedge, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("content\n")
    job = kedge.job("cat /in/file", extras={"storages": [{"name": "set", "mountPath": "/in"}]})
    kedge("run", job, "--storage", f"set={data}")
    assert kedge.task_log() == "content\n"


def test_an_unknown_storage_is_an_error(kedge: Kedge, tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    job = kedge.job("true", extras={"storages": [{"name": "set", "mountPath": "/in"}]})
    done = kedge("run", job, "--storage", f"sett={tmp_path}", code=2)
    assert "--storage sett: the job has no storage of that name; it has set" in done.stderr
    assert "with a colon" in kedge("run", job, "--storage", f"set={tmp_path}/a:b", code=4).stderr


def test_the_engine_never_receives_secrets(kedge: Kedge) -> None:
    job = kedge.job(f"echo <% $secrets.token %>; {SLEEP}", secrets={"token": "never-shown-1"})
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    known = "\n".join(tool("inspect", *running(kedge)))
    process.send_signal(signal.SIGINT)
    kedge.finish(process, 130)
    assert "kedge.job" in known
    assert "never-shown-1" not in known + kedge.task_log()


def test_the_machines_own_network_can_be_used(kedge: Kedge) -> None:
    kedge("run", kedge.job("echo $PAI_CURRENT_CONTAINER_IP; readlink /proc/self/ns/net"), "--network", "host")
    assert kedge.task_log() == f"127.0.0.1\n{os.readlink('/proc/self/ns/net')}\n"


WRITE = "mkdir -p /app/empty; head -c 2000000 /dev/zero > /app/model.pt; echo 1 > /app/log; echo 1 > /tmp/noise"


def test_lost_files_are_noted(kedge: Kedge) -> None:
    done = kedge("run", kedge.job([WRITE, "echo 1 > $PAI_LOG_DIR/kept"]))
    said = "2 files were written inside containers and lost; the largest is /app/model.pt of worker:0 (2 MB)"
    for text in (done.stdout, kedge("show", "job").stdout):
        assert said in " ".join(text.split())
    assert report(kedge)["notes"][0].startswith(said)


def test_lost_files_are_noted_if_only_the_engine_can_see_them(kedge: Kedge) -> None:
    name = f"kedge-changes-{os.urandom(4).hex()}"
    command = ("/bin/sh", "-c", WRITE)
    made = ContainerSpec(name, kedge.image, "box", command, {}, {JOB: name}, (), (), None, None, 1 << 20, "none")
    with Connection(connection.address()) as connected:
        connected.client.create(made)
        try:
            connected.client.start(name)
            wait_until(lambda: connected.client.containers(f"{JOB}={name}")[0].ended, TIMEOUT)
            looks = Looks(connected.client)
            looks.look(Task("w", 0), made, "/", None)
            assert "the largest is /app/model.pt of w:0 (2 MB)" in str(looks.note())
        finally:
            connected.client.remove(name)


def test_kept_containers_exist_until_the_run_is_removed(kedge: Kedge) -> None:
    kedge("run", kedge.job("exit 3"), "--keep", code=1)
    name = f"kedge-{kedge.only_run().name}-worker-0"
    assert tool("inspect", "--format", "{{.State.ExitCode}}", name) == ["255"]
    left = kedge.leftovers()
    kedge("rm", "job")
    assert left
    assert not tool("ps", "--all", "--filter", f"name={name}", "--format", "{{.Names}}")


def test_a_stop_resumes_paused_and_suspended_tasks(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(SLEEP, roles={"worker": {"instances": 2}}))
    for task in ("worker-0", "worker-1"):
        kedge.wait_for_output("ready", task)
    paused, suspended = running(kedge)
    tool("pause", paused)
    os.kill(int(tool("inspect", "--format", "{{.State.Pid}}", suspended)[0]), signal.SIGSTOP)
    os.kill(kedge.controller(), signal.SIGSTOP)
    assert "was suspended; it was resumed" in kedge("stop", "job").stderr
    assert "was paused; it was resumed to stop it" in kedge.finish(process, 1)
    assert [task["state"] for task in report(kedge)["tasks"]] == ["stopped"] * 2
    for task in ("worker-0", "worker-1"):
        assert not json.loads((kedge.task(task) / "report.json").read_text())["killed"]
    assert not kedge.leftovers()


def test_a_container_killed_from_outside_is_reported_as_such(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(SLEEP, extras=NO_RETRY))
    kedge.wait_for_output("ready")
    tool("kill", *running(kedge))
    kedge.finish(process, 1)
    assert "killed from outside" in message(kedge)
    assert kedge.task_log() == "ready\n"
    assert not kedge.leftovers()


def test_a_container_removed_from_outside_is_reported_as_such(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(f"trap '' TERM; {SLEEP.partition(';')[2]}", extras=NO_RETRY))
    kedge.wait_for_output("ready")
    tool("rm", "--force", "--time", "0", *running(kedge))
    kedge.finish(process, 1)
    assert report(kedge)["tasks"][0]["pai_code"] in (-101, 137)
    assert not kedge.leftovers()


def test_an_image_may_be_removed_while_the_job_runs(kedge: Kedge, derived: Callable[..., str]) -> None:
    kedge.image = derived()
    process = kedge.start("run", kedge.job("echo ready; until [ -e $PAI_LOG_DIR/go ]; do sleep 0.1; done; echo done"))
    kedge.wait_for_output("ready")
    tool("untag", kedge.image)
    (kedge.task() / "go").touch()
    kedge.finish(process, 0)
    assert kedge.task_log() == "ready\ndone\n"


def test_two_jobs_at_once_do_not_interfere(kedge: Kedge) -> None:
    said = "echo $PAI_TASK_ROLE_worker_HOST_LIST; hostname"
    roles = {"worker": {"instances": 2, "commands": [said, "until [ -e $PAI_LOG_DIR/go ]; do sleep 0.1; done"]}}
    jobs = [kedge.start("run", kedge.job("", name=name, roles=roles)) for name in ("one", "two")]
    wait_until(lambda: kedge.task_log("worker-0").count("worker-0\n") == 2, TIMEOUT)
    for run in kedge.runs():
        for index in range(2):
            (run / "attempt-0" / f"worker-{index}" / "go").touch()
    for process in jobs:
        kedge.finish(process, 0)
    assert len(set(kedge.task_log("worker-0").splitlines())) == 3  # two lists of addresses, one name
    assert not kedge.leftovers()


def test_after_a_killed_controller_rm_leaves_nothing(kedge: Kedge) -> None:
    job = kedge.job(SLEEP, roles={"worker": {"instances": 2}}, secrets={"token": "12345678"})
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    process.kill()
    kedge.finish(process, -signal.SIGKILL)
    assert len(running(kedge)) == 2
    secrets = Path(json.loads((kedge.only_run() / "run.json").read_text())["secrets_dir"])
    assert secrets.exists()
    name = kedge.only_run().name
    kedge("stop", "job")
    assert not kedge.leftovers()
    assert not secrets.exists()
    assert json.loads((kedge.task() / "report.json").read_text())["stopped_by"] == "TERM"
    kedge("rm", name)


def test_a_service_that_ends_is_restarted(kedge: Kedge) -> None:
    need_own_service()
    process = kedge.start("run", kedge.job(SLEEP))
    kedge.wait_for_output("ready")
    controller = kedge.controller()
    children = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
    service = next(int(pid) for pid in children if b"podman" in Path("/proc", pid, "cmdline").read_bytes())
    os.kill(service, signal.SIGKILL)
    wait_until(lambda: "the container engine answers again" in str(kedge.events()), TIMEOUT)
    process.send_signal(signal.SIGINT)
    kedge.finish(process, 130)
    assert not kedge.leftovers()


def test_a_container_can_be_requested_again_after_a_lost_answer(kedge: Kedge) -> None:
    name = f"kedge-again-{os.urandom(4).hex()}"
    made = ContainerSpec(name, kedge.image, "again", ("true",), {}, {JOB: name}, (), (), None, None, 1 << 20, "none")
    with Connection(connection.address()) as connected:
        connected.client.create(made)
        try:
            connected.client.create(made)
            assert [seen.name for seen in connected.client.containers(f"{JOB}={name}")] == [name]
        finally:
            connected.client.remove(name)


def test_a_container_is_not_started_twice_after_a_lost_answer(kedge: Kedge, tmp_path: Path) -> None:
    name = f"kedge-again-{os.urandom(4).hex()}"
    ran, command = Bind(str(tmp_path), "/out"), ("/bin/sh", "-c", "echo ran >> /out/file")
    made = ContainerSpec(name, kedge.image, "again", command, {}, {JOB: name}, (ran,), (), None, None, 1 << 20, "none")
    with Connection(connection.address()) as connected:
        connected.client.create(made)
        try:
            for _ in range(2):
                connected.client.start_if_new(name)
                wait_until(lambda: connected.client.containers(f"{JOB}={name}")[0].ended, TIMEOUT)
            assert (tmp_path / "file").read_text() == "ran\n"
        finally:
            connected.client.remove(name)


def test_gpus_of_running_containers_are_busy(kedge: Kedge) -> None:
    label = f"kedge.gpus=GPU-{os.urandom(4).hex()},GPU-{os.urandom(4).hex()}"
    (box,) = tool("run", "--detach", "--label", label, kedge.image, "sleep", "1000")
    with Connection(connection.address()) as connected:
        try:
            assert busy_gpus(connected.client) >= set(label.partition("=")[2].split(","))
        finally:
            connected.client.remove(box)
        assert not busy_gpus(connected.client) & set(label.partition("=")[2].split(","))


def test_without_an_engine_the_error_names_what_to_install(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("true"), code=4, PATH="/nowhere", DOCKER_HOST="", CONTAINER_HOST="")
    assert "apt-get install podman" in done.stderr


def test_a_note_announces_the_build_of_the_bundle(kedge: Kedge, tmp_path: Path) -> None:
    job = kedge.job("true")
    for args in (("plan", job, "--engine", "container"), ("bundle", "--layers", "core")):
        cache = str(tmp_path / args[0])
        assert "building the runtime's bundle; this happens once" in kedge(*args, XDG_CACHE_HOME=cache).stderr
        assert "bundle" not in kedge(*args, XDG_CACHE_HOME=cache).stderr


def test_an_engine_on_another_machine_is_an_error(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("true"), code=4, DOCKER_HOST="tcp://10.0.0.1:2375")
    assert "must run on this machine" in done.stderr


def test_the_command_that_plan_prints_runs_the_task(kedge: Kedge) -> None:
    job = kedge.job("echo I am $PAI_TASK_INDEX; exit 7", roles={"worker": {"instances": 3}})
    done = kedge("plan", job, "--engine", "container", "--task", "worker:2")
    line = done.stdout[done.stdout.index("podman run" if "podman run" in done.stdout else "docker run") :]
    shell = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert shell.stdout == "I am 2\n"
    assert shell.returncode == 255


def test_the_command_that_plan_prints_has_the_storages(kedge: Kedge, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("the set\n")
    job = kedge.job("cat /in/file", extras={"storages": [{"name": "set", "mountPath": "/in"}]})
    done = kedge("plan", job, "--engine", "container", "--task", "worker:0", "--storage", f"set={data}")
    line = done.stdout[done.stdout.index("podman run" if "podman run" in done.stdout else "docker run") :]
    shell = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert shell.stdout == "the set\n"


def test_the_plan_has_the_machines_infiniband_devices(
    kedge: Kedge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "infiniband" / "uverbs0"
    device.parent.mkdir()
    device.touch()
    monkeypatch.setattr(engine, "_INFINIBAND", device.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", kedge.environment["XDG_CACHE_HOME"])
    job = kedge.job("true", roles={"worker": {"extraContainerOptions": {"infiniband": True}}})
    plan = prepare(str(job), Inputs(user="me")).plan
    (role,) = engine.ContainerEngine().requests(plan)
    (task,) = engine.ContainerEngine().requests(plan, Task("worker", 0))
    assert role.value["devices"] == task.value["devices"] == (str(device),)
    assert f"--device {device}" in task.command


def test_plan_prints_the_container_of_every_role(kedge: Kedge) -> None:
    job = kedge.job("true", roles={"a": {}, "b": {"instances": 2}})
    document = json.loads(kedge("plan", job, "--engine", "container", "--json").stdout)
    assert [request["task"] for request in document["requests"]] == ["a:0", "b:0"]
    assert document["requests"][0]["value"]["memory"] == 64 << 20
    assert "container of b:0" in kedge("plan", job, "--engine", "container").stdout


@pytest.mark.parametrize("task", [(), ("--task", "worker:0")])
def test_plan_shows_the_network_that_the_run_will_use(kedge: Kedge, task: tuple[str, ...]) -> None:
    for option, network in (("host", "host"), ("job", "bridge" if task else "kedge-RUN")):
        args = ("--engine", "container", "--network", option, *task, "--json")
        (request,) = json.loads(kedge("plan", kedge.job("true"), *args).stdout)["requests"]
        assert request["value"]["network"] == network


def test_the_settings_of_a_site_place_a_job(kedge: Kedge, tmp_path: Path) -> None:
    """Its engine, options of it, and the storages that it names; those of other jobs do not matter."""
    for name in ("set", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"the {name}\n")
    site = tmp_path / "site.toml"
    site.write_text(
        "[engines.container]\nkeep = true\npids-limit = 77\n[virtual-clusters.boxes]\nengine = 'container'\n"
        "options = {pids-limit = 99}\n[storages]\nset.path = 'set'\nother.path = 'other'"
    )
    kedge.environment["KEDGE_SITE_FILE"], kedge.engine = str(site), ""
    storages = [{"name": "set", "mountPath": "/in"}]
    job = kedge.job("cat /in/file", defaults={"virtualCluster": "boxes"}, extras={"storages": storages})
    planned = json.loads(kedge("plan", job, "--json").stdout)["requests"][0]["value"]
    assert planned["pids"] == 99
    done = kedge("run", job)
    assert "worker:0 | the set" in done.stdout
    assert "the containers are kept until kedge rm" in done.stdout
    assert "note: --keep" in kedge("plan", job).stderr
    assert "note: --keep" not in kedge("plan", job, "-o", "keep=false").stderr
    other = kedge("plan", job, "--storage", f"set={tmp_path / 'other'}", "--json").stdout
    assert [b["source"] for b in json.loads(other)["requests"][0]["value"]["binds"] if b["target"] == "/in"] == [
        str(tmp_path / "other")
    ]
    kedge("rm", kedge.only_run().name)


def test_a_full_disk_below_the_logs_is_reported_as_such(kedge: Kedge, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a small file system")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", small], check=True)
    try:
        done = kedge("run", kedge.job("cat /dev/zero"), code=4, XDG_STATE_HOME=str(small))
        assert "full" in done.stdout + done.stderr
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def test_a_read_only_storage_cannot_be_written(kedge: Kedge, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    site = tmp_path / "site.toml"
    site.write_text("storages.data = {path = 'data', readOnly = true}")
    kedge.environment["KEDGE_SITE_FILE"] = str(site)
    job = kedge.job('touch "$KEDGE_STORAGE_DATA/file" || echo refused', extras={"storages": [{"name": "data"}]})
    kedge("run", job)
    assert "refused\n" in kedge.task_log()
    assert not list((tmp_path / "data").iterdir())


def test_a_storage_that_cannot_be_mounted_is_named_and_leaves_no_volume(kedge: Kedge, tmp_path: Path) -> None:
    """The server answers at its port, but speaks no NFS, and the kernel may not either."""
    site = tmp_path / "site.toml"
    with socket.create_server(("127.0.0.1", 0)) as server:
        options = f"vers=4.2,soft,timeo=5,retrans=0,port={server.getsockname()[1]}"
        site.write_text(f"storages.nas = {{nfs = {{server = '127.0.0.1', path = '/x', options = '{options}'}}}}")
        kedge.environment["KEDGE_SITE_FILE"] = str(site)
        job = kedge.job("true", extras={"storages": [{"name": "nas"}]})
        server.listen()
        threading.Thread(target=_hang_up, args=(server,), daemon=True).start()
        failed = kedge("run", job, code=1)
    assert re.search(r"the storage nas \(nfs (127.0.0.1)?:/x\) cannot be mounted: ", failed.stdout)
    assert "cannot mount a storage" in failed.stdout
    assert not tool("volume", "ls", "--filter", f"label=kedge.job={kedge.only_run().name}", "--format", "{{.Name}}")


def _hang_up(server: socket.socket) -> None:
    with suppress(OSError):  # until it is closed
        while True:
            server.accept()[0].close()
