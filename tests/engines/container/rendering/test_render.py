"""Rendering a plan as a container, and a container as a command line."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.bundle.build import Bundle
from kedge.engines.base import Task
from kedge.engines.container import notes
from kedge.engines.container.api.engine_answers import Facts, LocalImage
from kedge.engines.container.placement import numbered
from kedge.engines.container.rendering import render
from kedge.engines.container.rendering.command_line import command_line
from kedge.engines.container.rendering.container_spec import GPUS, Bind
from kedge.engines.container.rendering.render import ContainerOptions, ContainerPlace
from kedge.jobs.preparation import prepare
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs

FACTS = Facts("Docker 1", "amd64", 4, 8 << 30, True, True, False, True, True)
IMAGE = LocalImage("sha256:1", "amd64", "", "/", {"PATH": "/bin"})
BUNDLE = Bundle(Path("/bundle"), "0", "x86_64", {"interpreter": "python3.11", "loader": "ld.so"})
PLACE = ContainerPlace(
    "job-abc", 0, 0, "UID", "/run/w-0", "/run/shared", "/run/job-dir", BUNDLE, "kedge-job-abc", "10.1.2.3"
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path, {})


def planned(folder: Path, role: dict[str, Any], **job: Any) -> Plan:
    document = {
        "protocolVersion": 2,
        "name": "job",
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "debian:12"}],
        "taskRoles": {
            "w": {
                "instances": 2,
                "dockerImage": "image",
                "resourcePerInstance": {"cpu": 2, "memoryMB": 100, "gpu": 0, "ports": {"web": 2}},
                "commands": ["true #"],
                **role,
            }
        },
        **job,
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    return prepare(str(path), Inputs(user="me")).plan


def test_limits_are_those_of_the_job(plan: Plan) -> None:
    spec = render.render(plan, Task("w", 0), PLACE, IMAGE, FACTS)
    assert (spec.memory, spec.cpus, spec.shm) == (100 << 20, 2, 512 << 20)
    assert list(notes.of(plan, FACTS, None, False)) == []


def test_a_fraction_of_a_cpu_is_a_share(tmp_path: Path) -> None:
    half = planned(tmp_path, {"resourcePerInstance": {"cpu": 0.29, "memoryMB": 100, "gpu": 0}})
    spec = render.render(half, Task("w", 0), PLACE, IMAGE, FACTS)
    assert spec.cpus == 0.29
    assert "--cpus 0.29" in command_line(spec)
    assert half.environment["PAI_RESOURCE_w"] == "0,1,100,0"
    assert list(notes.of(half, FACTS, None, False)) == []


def test_limits_are_capped_at_the_machine_with_a_note(plan: Plan) -> None:
    small = FACTS._replace(cpus=1, memory=64 << 20)
    spec = render.render(plan, Task("w", 0), PLACE, IMAGE, small)
    assert (spec.memory, spec.cpus, spec.shm) == (64 << 20, 1, 64 << 20)
    text = "\n".join(notes.of(plan, small, None, False))
    assert "2 CPUs; capped at the 1 of this machine" in text
    assert "100 MiB of memory; capped at the 64 MiB of this machine" in text
    assert "512 MiB of shared memory" in text


def test_limits_that_the_engine_cannot_set_are_left_out_with_a_note(plan: Plan) -> None:
    weak = FACTS._replace(limits_cpu=False, limits_memory=False)
    spec = render.render(plan, Task("w", 0), PLACE, IMAGE, weak)
    assert (spec.memory, spec.cpus) == (None, None)
    assert "cpu is not enforced" in "\n".join(notes.of(plan, weak, None, False))
    line = command_line(spec)
    assert "--cpus" not in line
    assert "--memory" not in line


def test_the_loader_variables_of_an_image_are_shelved(plan: Plan) -> None:
    image = IMAGE._replace(environment={"LD_PRELOAD": "/lib/mine.so", "LD_LIBRARY_PATH": "/lib"})
    spec = render.render(plan, Task("w", 0), PLACE, image, FACTS)
    assert spec.environment == {
        "LD_PRELOAD": "", "KEDGE_IMAGE_LD_PRELOAD": "/lib/mine.so", "NVIDIA_VISIBLE_DEVICES": "none",
    }  # fmt: skip


def test_outer_mounts_come_first(plan: Plan) -> None:
    place = replace(
        PLACE,
        code="/run/code/c",
        cache="/cache",
        secrets={"values.json": "/s/values.json"},
        storages=(Bind("/d", "/mnt/d"),),
    )
    spec = render.render(plan, Task("w", 0), place, IMAGE, FACTS)
    targets = [bind.target for bind in spec.binds]
    for number, target in enumerate(targets):
        assert not any(later == target or target.startswith(f"{later}/") for later in targets[number + 1 :])
    assert {"/usr/local/pai", "/usr/local/pai/logs/UID", "/mnt/d"} <= set(targets)
    assert {("/run/w-0/output", "/usr/local/pai/output"), ("/run/job-dir", "/usr/local/pai/job-dir")} <= {
        (bind.source, bind.target) for bind in spec.binds
    }
    assert spec.tmpfs == ("/usr/local/pai/secrets",)
    assert {bind.target for bind in spec.binds if bind.read_only} == {
        "/usr/local/pai/kedge", "/usr/local/pai/shared", "/usr/local/pai/secrets/values.json",
        "/usr/local/pai/data-cache", "/usr/local/pai/snapshot",
    }  # fmt: skip


def test_code_is_copied_from_a_snapshot_that_cannot_be_written_or_shared(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    script = {"name": "c", "type": "script", "uri": str(tmp_path / "c")}
    image = {"name": "image", "type": "dockerimage", "uri": "debian:12"}
    plan = planned(tmp_path, {"script": "c"}, prerequisites=[image, script])
    place = replace(PLACE, code="/run/code/c")
    private = render.render(plan, Task("w", 0), place, IMAGE, FACTS).binds
    shared = render.render(plan, Task("w", 0), replace(place, shares_code=True), IMAGE, FACTS).binds
    snapshot, own = (
        Bind("/run/code/c", "/usr/local/pai/snapshot", True),
        Bind("/run/w-0/code", "/usr/local/pai/scripts"),
    )
    assert {snapshot, own} <= set(private)
    assert Bind("/run/code/c", "/usr/local/pai/scripts/c", True) in shared
    assert not {snapshot, own} & set(shared)


def test_container_names_contain_the_run_and_the_attempt() -> None:
    names = [render.container_name("job-abc", Task("w", 3), job, task) for job in (0, 1) for task in (0, 1)]
    assert names[0] == "kedge-job-abc-w-3"
    assert len(set(names)) == 4


def test_labels_name_job_user_role_task_and_attempt(plan: Plan) -> None:
    spec = render.render(plan, Task("w", 1), replace(PLACE, job_attempt=2, task_attempt=1), IMAGE, FACTS)
    assert spec.labels == {
        "kedge.job": "job-abc", "kedge.user": "me", "kedge.role": "w", "kedge.task": "w:1", "kedge.attempt": "2.1",
    }  # fmt: skip


def test_infiniband_is_for_roles_that_request_it(tmp_path: Path) -> None:
    place = replace(PLACE, infiniband=("/dev/infiniband/uverbs0",))
    without = render.render(planned(tmp_path, {}), Task("w", 0), place, IMAGE, FACTS)
    assert (without.devices, without.locked_memory) == ((), False)
    asking = planned(tmp_path, {"extraContainerOptions": {"infiniband": True}})
    spec = render.render(asking, Task("w", 0), place, IMAGE, FACTS)
    assert (spec.devices, spec.locked_memory) == (("/dev/infiniband/uverbs0",), True)
    assert "--device /dev/infiniband/uverbs0" in command_line(spec)
    assert "memlock=-1:-1" in command_line(spec)
    assert any("InfiniBand" in note for note in notes.of(asking, FACTS, None, False))


@pytest.mark.parametrize(
    ("gpus", "option"),
    [
        (("GPU-1", "GPU-2"), ["--gpus", '"device=GPU-1,GPU-2"']),
        (("nvidia.com/gpu=GPU-1",), ["--device", "nvidia.com/gpu=GPU-1"]),
    ],
)
def test_gpus_are_passed_by_name(plan: Plan, gpus: tuple[str, ...], option: list[str]) -> None:
    spec = render.render(plan, Task("w", 0), replace(PLACE, gpus=gpus), IMAGE, FACTS)
    words = shlex.split(command_line(spec))
    assert option in [words[n : n + 2] for n in range(len(words))]


def test_the_command_line_has_all_options_of_the_container(plan: Plan) -> None:
    spec = render.render(plan, Task("w", 0), replace(PLACE, hosts={"w-1": "10.1.2.4"}), IMAGE, FACTS)
    words = shlex.split(command_line(spec, "podman"))
    assert words[:3] == ["podman", "run", "--rm"]
    place = words.index("debian:12")
    assert words[place - 2 : place] == ["--entrypoint", spec.entrypoint[0]]
    assert tuple(words[place + 1 :]) == spec.entrypoint[1:]
    for pair in (["--ip", "10.1.2.3"], ["--add-host", "w-1:10.1.2.4"], ["--network", "kedge-job-abc"]):
        assert pair in [words[n : n + 2] for n in range(place)]


def test_a_role_can_add_capabilities(tmp_path: Path) -> None:
    plan = planned(tmp_path, {}, extras={"kedge": {"capabilities": {"w": ["NET_RAW"]}}})
    usual = render.render(planned(tmp_path, {}), Task("w", 0), PLACE, IMAGE, FACTS)
    assert (usual.dropped, usual.added) == (("NET_RAW", "MKNOD", "AUDIT_WRITE", "SETFCAP"), ())
    assert (usual.pids, usual.security, usual.mounts, usual.user) == (32768, ("no-new-privileges",), (), None)
    podman = FACTS._replace(name="Podman 4", selinux=True, limits_pids=False)
    place = replace(PLACE, options=ContainerOptions("1000:1000", "keep-id", 100))
    more = render.render(plan, Task("w", 0), place, IMAGE, podman)
    assert (more.dropped, more.added) == (("MKNOD", "AUDIT_WRITE", "SETFCAP"), ("NET_RAW",))
    assert more.pids is None
    assert more.security == ("no-new-privileges", "label=disable")
    line = command_line(replace(more, pids=100), "podman")
    for option in (
        "--user 1000:1000", "--userns keep-id", "--pids-limit 100", "--cap-drop MKNOD", "--cap-add NET_RAW",
        "--security-opt label=disable", ":/usr/local/pai:rw,nosuid,nodev", ":/usr/local/pai/kedge:ro,nosuid,nodev",
    ):  # fmt: skip
        assert option in line


def test_ports_are_numbered_and_distinct(plan: Plan) -> None:
    numbers = [number for task in numbered(plan).values() for group in task.values() for number in group]
    assert len(numbers) == len(set(numbers)) == plan.port_count
    assert min(numbers) == 15000


@pytest.mark.parametrize("names", [("GPU-1", "GPU-2"), ("nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-2")])
def test_containers_have_labels_with_their_gpus(plan: Plan, names: tuple[str, ...]) -> None:
    assert GPUS not in render.render(plan, Task("w", 0), PLACE, IMAGE, FACTS).labels
    rendered = render.render(plan, Task("w", 0), replace(PLACE, gpus=names), IMAGE, FACTS)
    assert rendered.labels[GPUS] == "GPU-1,GPU-2"


@pytest.mark.parametrize(
    ("host", "noted"),
    [("127.0.0.1:8000", True), ("localhost", True), ("me@localhost:1", True), ("[::1]:80", True),
     ("localhost.example.org", False), ("10.127.0.1", False), ("example.org/127.0.0.1", False)],
)  # fmt: skip
def test_a_loopback_address_in_a_container_gets_a_note(tmp_path: Path, host: str, noted: bool) -> None:
    data = {"name": "ds", "type": "data", "plugin": "download", "uri": f"http://{host}/x"}
    image = {"name": "image", "type": "dockerimage", "uri": "debian:12"}
    plan = planned(tmp_path, {"prerequisites": ["ds"]}, prerequisites=[image, data])
    assert [note.startswith("ds: ") for note in notes.loopback(plan)] == [True] * noted
