"""Every example, run as its README says."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.contract import CURRENT, USER_STDOUT

from .conftest import EXAMPLES, Kedge


def test_hello_greets_from_every_task_and_names_the_peers(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "hello.yaml")
    greetings = re.findall(
        r"worker:(\d) \| hello from worker (\d), we are at 127.0.0.1:(\d+),127.0.0.1:(\d+)", done.stdout
    )
    assert sorted(g[:2] for g in greetings) == [("0", "0"), ("1", "1")]
    assert greetings[0][2:] == greetings[1][2:]
    assert "Succeeded" in done.stdout
    assert done.stderr.count("uses no image") == 1


def test_digits_trains_a_model_over_parameter_server_and_workers(kedge: Kedge) -> None:
    check_digits(kedge("run", EXAMPLES / "digits.yaml", "-p", "epochs=40"))


@pytest.mark.parametrize("name", ["python", "busybox-python"])
def test_digits_trains_in_containers(in_containers: Callable[[str], Kedge], name: str) -> None:
    kedge = in_containers(name)
    given = ("-p", "epochs=40", "-p", f"image={kedge.image}")
    check_digits(kedge("run", EXAMPLES / "digits.yaml", *given))
    assert kedge.leftovers() == []


def check_digits(done: subprocess.CompletedProcess[str]) -> None:
    accuracies = [float(text) for text in re.findall(r"worker:\d \| accuracy (\d\.\d+)", done.stdout)]
    assert len(accuracies) == 3
    assert min(accuracies) > 0.9
    assert re.search(r"^digits-\S+ Succeeded", done.stdout, re.MULTILINE)


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed (make test installs it)")
@pytest.mark.zoo
def test_pytorch_ddp_trains_with_torchrun(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "pytorch-ddp.yaml")
    (accuracy,) = re.findall(r"accuracy (\d\.\d+)", done.stdout)
    assert float(accuracy) > 0.9
    assert "rank 1 of 2\n" in (kedge.task("worker-1") / USER_STDOUT / CURRENT).read_text()
    assert "Succeeded" in done.stdout


def test_many_runs_500_tasks_and_loses_no_line(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "many.yaml")
    lines = re.findall(r"^task:(\d+) +\| task (\d+) of 500$", done.stdout, re.MULTILINE)
    assert sorted(int(task) for task, said in lines if task == said) == list(range(500))
    assert "and 480 more succeeded" in done.stdout
    assert "Succeeded" in done.stdout


def test_fails_names_the_task_that_failed_and_stops_the_others(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "fails.yaml", code=1)
    states = dict(re.findall(r"^worker:(\d) +(\w+)", done.stdout, re.MULTILINE))
    assert states == {"0": "stopped", "1": "stopped", "2": "failed", "3": "stopped"}
    assert "Failed" in done.stdout
    assert "Failed in" in done.stdout
    assert ": worker:2: data_file_missing; not retried: jobRetryCount is 0" in done.stdout
    page = (Path(EXAMPLES).parent / "docs" / "reports.md").read_text()
    (shown,) = re.findall(r"^    Root cause .+?(?=\n\n)", page, re.MULTILINE | re.DOTALL)
    assert _without_ids(textwrap.dedent(shown)) in _without_ids(done.stdout)


def _without_ids(text: str) -> str:
    return re.sub(r"\S+/fails-\w{6}/", "RUN/", text)


def test_retry_starts_a_second_attempt_after_a_transient_failure(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "retry.yaml")
    assert "Succeeded" in done.stdout
    assert "attempt 2" in done.stdout
    assert "attempt 0" in kedge("logs", "retry", "--attempt", "1").stdout
    assert "left alone" in kedge("logs", "retry").stdout


def test_resume_goes_on_from_the_checkpoint_of_the_attempt_that_failed(kedge: Kedge, tmp_path: Path) -> None:
    check_resume(kedge)
    without_failure = Kedge(tmp_path / "other")
    without_failure.folder.mkdir()
    without_failure("run", EXAMPLES / "resume.yaml", "-p", "fail_after=0")
    line = Path("output", "model", "line.json")
    assert (without_failure.task() / line).read_text() == (kedge.task(attempt=1) / line).read_text()


@pytest.mark.parametrize("name", ["python", "busybox-python"])
def test_resume_goes_on_in_containers(in_containers: Callable[[str], Kedge], name: str) -> None:
    kedge = in_containers(name)
    check_resume(kedge, "-p", f"image={kedge.image}")


def check_resume(kedge: Kedge, *options: str) -> None:
    done = kedge("run", EXAMPLES / "resume.yaml", *options)
    assert "Succeeded in" in done.stdout
    first, second = (kedge.task_log(attempt=attempt).splitlines() for attempt in (0, 1))
    assert (first[0], first[12][:8]) == ("started without a checkpoint", "epoch 12")
    assert (second[0], second[1][:8], second[-2][:8]) == ("resumed after epoch 12", "epoch 13", "epoch 20")
    assert json.loads((kedge.only_run() / "job-dir" / "checkpoint.json").read_text())["epoch"] == 20
    assert list((kedge.task() / "output" / "model").iterdir()) == []
    result = json.loads((kedge.task(attempt=1) / "output" / "model" / "line.json").read_text())
    assert abs(result["slope"] - 3) + abs(result["offset"] - 2) < 0.1


def test_storages_are_read_and_written(kedge: Kedge) -> None:
    for name in ("in", "out"):
        (kedge.folder / name).mkdir()
    (kedge.folder / "in" / "a.txt").write_text("one two\n")
    done = kedge("run", EXAMPLES / "storages.yaml", "--storage", "datasets=in", "--storage", "results=out")
    assert "worker:0 | 2" in done.stdout
    assert [path.read_text().strip() for path in (kedge.folder / "out").iterdir()] == ["2"]
    assert "extras.storages[0]: Storage datasets is not found: none is configured" in (
        kedge("run", EXAMPLES / "storages.yaml", code=2).stderr
    )


def test_save_goes_on_from_the_checkpoint_before_the_time_limit(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "save.yaml", "-p", "steps=25")
    assert "the sum is 325" in done.stdout
    assert "extras.kedge.attemptTimeLimit of 2.5 s ends in 1 s; hooks before the stop run now" in done.stderr
    saved = [int(step) for step in re.findall(r"saved step (\d+)", done.stdout)]
    started = [int(step) for step in re.findall(r"started after step (\d+)", done.stdout)]
    assert started[0] == 0
    assert 0 < started[-1] <= saved[-1]
    assert set(started) <= {0, *saved}


@pytest.mark.skipif(not shutil.which("mpirun"), reason="Open MPI is missing (Debian: apt-get install openmpi-bin)")
@pytest.mark.skipif(not importlib.util.find_spec("mpi4py"), reason="mpi4py is missing (make test installs it)")
def test_mpi_starts_ranks_in_all_tasks(kedge: Kedge) -> None:
    check_mpi(kedge)


def test_mpi_starts_ranks_in_containers_without_ssh(in_containers: Callable[[str], Kedge]) -> None:
    kedge = in_containers("mpi")
    check_mpi(kedge)
    assert kedge.leftovers() == []


def check_mpi(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "mpi.yaml", "-p", "steps=1000")
    ranks = dict(re.findall(r"rank (\d) of 8 in (\S+-\d)", kedge.task_log("master-0")))
    tasks = ["master-0", "worker-0", "worker-1", "worker-2"]
    assert ranks == {str(rank): tasks[rank // 2] for rank in range(8)}
    assert "master:0 | pi is 3.1415927" in done.stdout
    assert "Succeeded" in done.stdout


def test_every_example_is_valid(kedge: Kedge) -> None:
    files = sorted(Path(EXAMPLES).glob("*.yaml"))
    assert len(files) >= 6
    for file in files:
        assert file.name in kedge("validate", file).stdout
