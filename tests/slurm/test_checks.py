"""The checks before submission against what a real Slurm reports, and what sbatch says of the same request."""

from __future__ import annotations

import ctypes
import os
import runpy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.test_lost import NOBODY

from kedge.engines.slurm import checks, pending_reasons
from kedge.engines.slurm.options import SlurmOptions
from kedge.errors import CannotRun

from .cluster import SlurmCluster, missing
from .conftest import with_reason
from .kedge_on_slurm import AsNobody

jobs = runpy.run_path(str(Path(__file__).parents[1] / "engines" / "slurm" / "jobs.py"))
planned, role = jobs["planned"], jobs["role"]


@pytest.fixture(autouse=True)
def conf(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])


# Nodes of a cloud, which sinfo does not list before they are powered up; one with a number of cores that Slurm shortens
# to 1K; and a plugin that lets jobs run in any partition if they name none.
_LARGE = """\
NodeName=c[1-2] State=CLOUD CPUs=128 RealMemory=1000
NodeName=wide NodeAddr=127.0.0.1 CPUs=1024 RealMemory=1000
PartitionName=cloud Nodes=c[1-2]
PartitionName=wide Nodes=wide
SuspendTime=600
SuspendProgram=/bin/true
ResumeProgram=/bin/true
JobSubmitPlugins=all_partitions
"""


@pytest.fixture(scope="module")
def private() -> Iterator[SlurmCluster]:
    """A cluster of its own that tells users nothing of its nodes."""
    with_reason(missing())
    with SlurmCluster("PrivateData=nodes,jobs\n") as slurm:
        slurm.start()
        yield slurm


@pytest.fixture(scope="module")
def large() -> Iterator[SlurmCluster]:
    """A cluster of its own with nodes that only exist in its configuration."""
    with_reason(missing())
    with SlurmCluster(_LARGE) as slurm:
        slurm.start()
        yield slurm


@pytest.fixture
def on_large(large: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", large.environment["SLURM_CONF"])


def check(own: dict[str, Any], **options: Any) -> None:
    checks.check(planned({"worker": own}), SlurmOptions(**options))


def test_what_fits_is_accepted() -> None:
    check(role(128, 1, 100))
    check(role(8, 1, 100, 1), partition="main,spare")
    check(role(1, 1, 100), time="1h")


@pytest.mark.parametrize(
    ("own", "options", "message"),
    [
        (role(1, 1, 100), {"partition": "mian"}, "there is no partition 'mian'; did you mean 'main'?"),
        (role(1, 65, 100), {}, "asks for 65 cores, but no node of the partition main has more than 64"),
        (role(1, 1, 200001), {}, "200,001 MiB of memory, but no node of the partition main has more than 200,000"),
        (role(1, 1, 100, 5), {}, r"asks for 5 GPUs \(gpu\), but no node of the partition main has more than 4"),
        (role(129, 1, 100), {}, "129 tasks must run at once, but the partition main can hold at most 128 of them"),
        (role(1, 1, 100), {"time": "61m"}, "limit of the partition main is 1 h, and the job asks for 1 h 1 min"),
        (role(1, 1, 100), {"constraint": "a100"}, "no node of the partition main has the feature 'a100'"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(own: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotRun, match=message):
        check(own, **options)


@pytest.mark.usefixtures("on_large")
def test_what_sinfo_does_not_list_or_shortens() -> None:
    check(role(2, 128, 100), partition="cloud")
    check(role(1, 1000, 100), partition="wide")
    with pytest.raises(CannotRun, match="asks for 1,025 cores, but no node of the partition wide has more than 1,024"):
        check(role(1, 1025, 100), partition="wide")


@pytest.mark.usefixtures("on_large")
def test_a_plugin_of_the_site_chooses_the_partition(large: SlurmCluster) -> None:
    """As Slurm does itself, where the usual partition would be too small."""
    assert large.run("sbatch", "--parsable", "--hold", "--cpus-per-task=1000", "--wrap=true").strip().isdigit()
    check(role(1, 1000, 100))
    with pytest.raises(CannotRun, match="1,000 cores, but no node of the partition main has more than 64"):
        check(role(1, 1000, 100), partition="main")


def test_a_cluster_that_tells_users_nothing_of_its_nodes(private: SlurmCluster) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        shutil.chown(folder, NOBODY)
        with closing(AsNobody(folder, private)) as nobody:
            assert "Succeeded" in nobody("run", nobody.job("echo here")).stdout
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("limit", "own", "message"),
    [
        ("State=INACTIVE", role(1, 1, 100), r"the partition own accepts no jobs \(inactive\)"),
        ("State=DRAIN", role(1, 1, 100), r"the partition own accepts no new jobs \(drain\)"),
        ("MaxCPUsPerNode=8", role(1, 9, 100), "9 cores, but no node of the partition own has more than 8"),
        ("MaxMemPerNode=500", role(1, 1, 501), "501 MiB of memory, but no node of the partition own has more than 500"),
        ("MaxNodes=1", role(65, 1, 100), "65 tasks must run at once, but the partition own can hold at most 64"),
        ("MaxTime=2-03:00:00", role(1, 1, 100), "limit of the partition own is 2 d 3 h, and the job asks for 2 d 4 h"),
    ],
)
def test_limits_of_a_partition(slurm: SlurmCluster, limit: str, own: dict[str, Any], message: str) -> None:
    slurm.run("scontrol", "create", "PartitionName=own", "Nodes=n1,n2", limit)
    try:
        with pytest.raises(CannotRun, match=message):
            check(own, partition="own", time="52h" if "Time" in limit else None)
    finally:
        slurm.run("scontrol", "delete", "PartitionName=own")


def test_a_slurmctld_that_is_down_is_said(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a configuration of a port on which nobody listens."""
    lines = Path(slurm.environment["SLURM_CONF"]).read_text().splitlines()
    other = [line if not line.startswith("SlurmctldPort=") else "SlurmctldPort=9" for line in lines]
    (tmp_path / "slurm.conf").write_text("\n".join([*other, "MessageTimeout=2", ""]).replace("MessageTimeout=10\n", ""))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(CannotRun, match=r"\(slurmctld\) does not answer; check it with scontrol ping"):
        check(role(1, 1, 100))


def test_all_reasons_that_this_slurm_has_for_a_pending_job_are_known() -> None:
    """They are in its library, by number."""
    (file, *_) = [*Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so"), ""]
    if not file:
        pytest.skip("no libslurmfull.so")
    name_of = ctypes.CDLL(str(file), mode=os.RTLD_LAZY).slurm_job_reason_string
    name_of.restype = ctypes.c_char_p
    names = {name_of(number).decode() for number in range(400)}  # beyond the last one: the number, or that it is wrong
    known = {name for name in names if not name.isdigit() and not name.startswith(("Inva", "Block"))}  # of Blue Gene
    assert len(known) > 150
    assert not [name for name in known if pending_reasons.text(name) == name]
