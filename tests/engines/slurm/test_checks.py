"""What is checked before a job is submitted, with stand-ins for Slurm's commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.engines.slurm import checks, clock, cluster_facts
from kedge.engines.slurm.options import SlurmOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan

from .jobs import planned, role

Cluster = Callable[..., None]
# As sinfo and scontrol of Slurm 22.05 print it.
ROWS = """\
cpu*|up|1:00:00|4|64|200000|(null)|avx512,ib
gpu|up|2-00:00:00|2|96|500000|gpu:a100:4(S:0-1)|a100,ib
gpu|up|2-00:00:00|1|32|250000|gpu:v100:8(S:0)|v100
long|drain|infinite|4|64|200000|(null)|(null)
npu|up|infinite|2|64|200000|npu:8|(null)
old|inactive|infinite|4|64|200000|(null)|(null)
root|up|infinite|4|64|200000|(null)|(null)
part|up|infinite|4|64|200000|(null)|(null)
"""
LIMITS = """\
PartitionName=cpu AllowGroups=ALL AllowAccounts=vision,speech AllowQos=ALL DenyQos=low MaxNodes=3 ReqResv=NO
PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=high,normal MaxNodes=UNLIMITED ReqResv=NO
PartitionName=npu AllowAccounts=ALL DenyAccounts=guest AllowQos=ALL MaxNodes=UNLIMITED MaxTime=UNLIMITED ReqResv=YES
PartitionName=root AllowAccounts=ALL AllowQos=ALL MaxNodes=UNLIMITED RootOnly=YES ReqResv=NO
PartitionName=part AllowAccounts=ALL AllowQos=ALL MaxNodes=UNLIMITED MaxCPUsPerNode=8 MaxMemPerNode=1000 ReqResv=NO
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Puts commands on PATH that stand in for Slurm's."""

    def make(sinfo: str = f"cat <<'END'\n{ROWS}END", scontrol: str = f"cat <<'END'\n{LIMITS}END") -> None:
        bodies = dict.fromkeys(("sbatch", "srun", "squeue", "scancel"), "exit 9")
        for name, body in {**bodies, "sinfo": sinfo, "scontrol": scontrol}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> '{tmp_path}/calls'\n{body}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return make


def problem(plan: Plan, options: SlurmOptions) -> str:
    try:
        checks.check(plan, options)
    except CannotRun as error:
        return str(error)
    return ""


def worker(instances: int = 1, cpu: float = 1, memory_mb: int = 1000, gpu: int = 0) -> Plan:
    return planned({"worker": role(instances, cpu, memory_mb, gpu)})


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        (worker(), SlurmOptions()),
        (worker(3, 64, 200000), SlurmOptions()),
        (worker(8, 1, 1000, 1), SlurmOptions(partition="gpu", gres="gpu:a100")),
        (worker(16, 1, 1000, 1), SlurmOptions(partition="gpu")),
        (worker(2, 96), SlurmOptions(partition="cpu,gpu")),  # one that fits is enough
        (worker(2, 1, 1000, 8), SlurmOptions(partition="npu", gres="npu", reservation="x")),
        (worker(), SlurmOptions(account="vision", qos="high", time="1h")),
        (worker(), SlurmOptions(account="below-vision")),  # since Slurm 24.11 AllowAccounts stands for those below, too
        (worker(32, 1, 100), SlurmOptions(partition="part")),
        (worker(), SlurmOptions(constraint="ib")),
        (worker(), SlurmOptions(constraint="a100&nothing")),  # Slurm understands expressions better
        (worker(3 * 64, 1, 200000), SlurmOptions(exclusive=True)),
        (planned({"ps": role(1, 1, 10), "worker": role(2, 2, 10)}), SlurmOptions()),
    ],
)
def test_what_fits(cluster: Cluster, plan: Plan, options: SlurmOptions) -> None:
    cluster()
    assert problem(plan, options) == ""


@pytest.mark.parametrize(
    ("plan", "options", "message"),
    [
        (worker(), SlurmOptions(partition="gpus"), "there is no partition 'gpus'; did you mean 'gpu'?"),
        (worker(), SlurmOptions(partition="gpu,x"), "there is no partition 'x'; there are cpu, gpu, long, npu, old"),
        (worker(), SlurmOptions(partition="long"), "the partition long accepts no new jobs (drain): use another one"),
        (worker(), SlurmOptions(partition="npu"), "accepts only jobs with a reservation: add --slurm reservation=NAME"),
        (worker(), SlurmOptions(partition="old"), "the partition old accepts no jobs (inactive): use another one"),
        (
            worker(), SlurmOptions(partition="npu", reservation="x", account="guest"),
            "the account 'guest' may not use the partition npu: use another one",
        ),
        (worker(1, 9), SlurmOptions(partition="part"), "9 cores, but no node of the partition part has more than 8:"),
        (worker(1, 1, 1001), SlurmOptions(partition="part"), "1,001 MiB of memory, but no node of the partition part"),
        (worker(), SlurmOptions(qos="low"), "the qos 'low' may not use the partition cpu: use another one"),
        (worker(), SlurmOptions(partition="gpu", qos="x"), "the qos 'x' may not use the partition gpu; there are high"),
        (
            worker(), SlurmOptions(time="61m"),
            "partition cpu is 1 h, and the job asks for 1 h 1 min: ask for less with --slurm time=TIME",
        ),
        (
            worker(1, 65), SlurmOptions(),
            "a task of worker asks for 65 cores, but no node of the partition cpu has more than 64: ask for less in "
            "resourcePerInstance, or use another partition",
        ),
        (worker(1, 1, 200001), SlurmOptions(), "asks for 200,001 MiB of memory, but no node of the partition cpu"),
        (worker(1, 1, 10, 1), SlurmOptions(), "1 GPU (gpu), but no node of the partition cpu has any:"),
        (
            worker(1, 1, 10, 5), SlurmOptions(partition="gpu", gres="gpu:a100"),
            "asks for 5 GPUs (gpu:a100), but no node of the partition gpu has more than 4 (it has gpu, gpu:v100: set",
        ),
        (
            worker(1, 64, 10, 8), SlurmOptions(partition="gpu"),
            "no single node of the partition gpu has all that a task of worker asks for (64 cores, 10 MiB, 8 GPUs)",
        ),
        (
            worker(4, 64), SlurmOptions(),  # of four nodes a job may use three
            "worker: 4 tasks must run at once, but the partition cpu can hold at most 3 of them: start fewer instances",
        ),
        (worker(17, 1, 10, 1), SlurmOptions(partition="gpu"), "the partition gpu can hold at most 16 of them"),
        (worker(9, 1, 10, 1), SlurmOptions(partition="gpu", constraint="a100"), "can hold at most 8 of them"),
        (worker(), SlurmOptions(constraint="a10"), "partition cpu has the feature 'a10'; there are avx512, ib"),
        (
            planned({name: role(1, cpu, 10) for cpu, name in enumerate("abcd", 1)}), SlurmOptions(),
            "the job's 4 roles ask for different resources, so Slurm gives each its own nodes, but the partition cpu "
            "has only 3",
        ),
        (worker(1, 97), SlurmOptions(partition="cpu,gpu"), "more than 64: ask for less in resourcePerInstance, or use "
                                                           "another partition (1 more partition does not fit either)"),
    ],
)  # fmt: skip
def test_what_can_never_run(cluster: Cluster, plan: Plan, options: SlurmOptions, message: str) -> None:
    cluster()
    assert message in problem(plan, options)


def test_a_time_limit_of_the_job_that_is_too_long_for_the_partition(cluster: Cluster) -> None:
    """The fixes that it names are right."""
    cluster()

    def limited(limit: str) -> Plan:
        return planned({"worker": role(1, 1, 10)}, {"kedge": {"timeLimit": limit}})

    text = problem(limited("1h"), SlurmOptions())
    assert "the limit of the partition cpu is 1 h, and the job asks for 1 h 3 min 30 s: its time limit" in text
    assert "(extras.kedge.timeLimit) plus 210 s to start, stop and report. Set that limit to 56m or less" in text
    assert "or add --slurm time=60m" in text
    assert problem(limited("56m"), SlurmOptions()) == ""
    assert problem(limited("1h"), SlurmOptions(time="60m")) == ""


@pytest.mark.parametrize(
    ("flags", "lifted"),
    [
        ("", set()), ("DenyOnLimit", set()), ("PartitionTimeLimit", {"time"}), (None, {"time", "nodes"}),
        ("DenyOnLimit,PartitionMaxNodes,PartitionTimeLimit", {"time", "nodes"}),
    ],
)  # fmt: skip
def test_limits_that_a_qos_lifts(cluster: Cluster, tmp_path: Path, flags: str | None, lifted: set[str]) -> None:
    """If nobody tells its flags, Slurm decides."""
    cluster()
    (tmp_path / "sacctmgr").write_text("#!/bin/sh\nexit 1\n" if flags is None else f"#!/bin/sh\necho '{flags}'\n")
    (tmp_path / "sacctmgr").chmod(0o755)
    long, large = problem(worker(), SlurmOptions(time="2h", qos="x")), problem(worker(4, 64), SlurmOptions(qos="x"))
    assert ("time" in lifted, "nodes" in lifted) == (not long, not large)


@pytest.mark.parametrize(("user", "expected"), [(0, ""), (1000, "the partition root is for administrators (RootOnly)")])
def test_a_partition_for_root(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, user: int, expected: str) -> None:
    cluster()
    monkeypatch.setattr(os, "getuid", lambda: user)
    assert problem(worker(), SlurmOptions(partition="root")).startswith(expected)


def test_slurm_is_asked_with_one_call_of_each_command(cluster: Cluster, tmp_path: Path) -> None:
    cluster()
    assert problem(worker(), SlurmOptions()) == ""
    assert sorted((tmp_path / "calls").read_text().split()) == ["scontrol", "sinfo"]


def test_without_a_default_partition_one_must_be_named(cluster: Cluster) -> None:
    cluster(sinfo=f"cat <<'END'\n{ROWS.replace('*', '')}END")
    assert "no default partition: name one with --slurm partition=NAME (cpu, gpu, long" in problem(
        worker(), SlurmOptions()
    )


@pytest.mark.parametrize(
    ("plugins", "chosen"),
    [
        ("JobSubmitPlugins        = lua", True),
        ("CliFilterPlugins        = cli_filter/user_defaults", True),
        ("JobSubmitPlugins        = job_submit/throttle,require_timelimit\nCliFilterPlugins        = (null)", False),
    ],
)
def test_plugins_of_the_site_may_choose_the_partition(cluster: Cluster, plugins: str, chosen: bool) -> None:
    """Then the job fits if it fits in any of them."""
    config = f'case "$*" in *config) cat <<"END"\n{plugins}\nEND\nexit;; esac'
    cluster(f"cat <<'END'\n{ROWS.replace('*', '')}END", f"{config}\ncat <<'END'\n{LIMITS}END")
    found = problem(worker(), SlurmOptions())
    assert found == "" if chosen else "no default partition" in found
    if chosen:
        assert "asks for 97 cores" in problem(worker(1, 97), SlurmOptions())


def test_a_machine_without_slurm_is_named_with_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        "this machine has no Slurm: no sbatch, srun, squeue, scontrol, scancel, sinfo on PATH. Run kedge on"
        in problem(worker(), SlurmOptions())
    )
    found = problem(worker(), SlurmOptions(commands="/opt/slurm/bin"))
    assert "in /opt/slurm/bin: correct engines.slurm.commands in the site's file" in found


def test_a_slurmctld_that_does_not_answer(cluster: Cluster) -> None:
    said = "slurm_load_partitions: Unable to contact slurm controller (connect failure)"
    cluster(sinfo=f"echo '{said}' >&2; exit 1")
    found = problem(worker(), SlurmOptions())
    assert said in found
    assert "(slurmctld) does not answer; check it with scontrol ping" in found


def test_a_slurm_that_cannot_be_asked_says_why(cluster: Cluster) -> None:
    cluster(scontrol="echo 'error: Munge encode failed' >&2; exit 1")
    found = problem(worker(), SlurmOptions())
    assert found.startswith("kedge cannot query this cluster: scontrol: Munge encode failed. What to do: ")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "error: fetch_config: DNS SRV lookup failed\nfatal: Could not establish a configuration source",
            "fetch_config: DNS SRV lookup failed; Could not establish a configuration source. What to do: this machine "
            "has no configuration of Slurm: run kedge on a login node",
        ),
        ('error: Parse error in file /x line 1: "y"\nfatal: Unable to process configuration file', "correct that file"),
        ("slurm_load_partitions: Protocol authentication error", "munge does not work on this machine"),
        (
            "error: get_addr_info: getaddrinfo() failed: Name or service not known: No error, attempt number -4\n"
            "error: get_addr_info: getaddrinfo() failed: Name or service not known: No error, attempt number 5\n"
            "error: Unable to establish control machine address",
            ": sinfo: Unable to establish control machine address. What to do: this machine does not know the host",
        ),
    ],
)
def test_a_machine_from_which_nobody_can_ask(cluster: Cluster, said: str, message: str) -> None:
    lines = "\n".join(f"sinfo: {line}" for line in said.split("\n"))
    cluster(sinfo=f"cat >&2 <<'END'\n{lines}\nEND\nexit 1")
    assert message in problem(worker(), SlurmOptions())


@pytest.mark.parametrize("of_site", [False, True])
@pytest.mark.parametrize(("name", "why"), [("missing", "No such file or directory"), (".", "Is a directory")])
def test_a_configuration_that_cannot_be_read(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_site: bool, name: str, why: str
) -> None:
    """Slurm's own commands try for a minute before they say anything."""
    cluster(sinfo="sleep 100")
    path = f"{tmp_path}/{name}"
    if not of_site:
        monkeypatch.setenv("SLURM_CONF", path)
    found = problem(worker(), SlurmOptions(conf=path if of_site else None))
    by = "engines.slurm.conf in the site's file, or SLURM_CONF" if of_site else "SLURM_CONF"
    assert found.endswith(f"Slurm's configuration {path} cannot be read: {why}; correct {by}, which names it")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1:00:00", 3600), ("30:00", 1800), ("5", 300), ("2-00:00:00", 172800), ("1-2", 93600), ("infinite", None),
        ("n/a", None), ("", None),
    ],
)  # fmt: skip
def test_times_of_slurm(text: str, seconds: float | None) -> None:
    assert clock.seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "gres"),
    [
        ("gpu:4", {"gpu": 4}),
        ("gpu:a100:4(S:0,2)", {"gpu": 4, "gpu:a100": 4}),
        ("gpu:4090:8(S:0-1),npu:2", {"gpu": 8, "gpu:4090": 8, "npu": 2}),
        ("gpu:a100:2,gpu:v100:1", {"gpu": 3, "gpu:a100": 2, "gpu:v100": 1}),
        ("(null)", {}),
    ],
)
def test_generic_resources_of_nodes(text: str, gres: dict[str, int]) -> None:
    assert cluster_facts.parse(f"main*|up|1:00|1|2|3|{text}|f", "")["main"].nodes[0].gres == gres


def test_lines_that_are_not_understood_are_left_out() -> None:
    found = cluster_facts.parse(f"sinfo: warning\n{ROWS}a|b\n|up|1|x|y|z|w|v\n", f"what\n{LIMITS}PartitionName=other")
    assert {name for name in found if name} == {"cpu", "gpu", "long", "npu", "old", "root", "part"}
    assert found["gpu"].nodes[1].gres == {"gpu": 8, "gpu:v100": 8}
