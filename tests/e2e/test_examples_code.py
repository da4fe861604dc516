"""The examples' commands and programs, started by hand with the variables that an engine gives them."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kedge.claims.locks import Claims
from kedge.claims.ports import reserve
from kedge.testing.wait import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
DEADLINE = 600.0
CLAIMS = Claims()


class Task(NamedTuple):
    """A running task and the file with all that it prints."""

    process: subprocess.Popen[bytes]
    log: Path

    def output(self) -> str:
        return self.log.read_text()

    def wait(self) -> int:
        return self.process.wait(DEADLINE)

    def says(self, text: str) -> None:
        wait_until(lambda: text in self.output() or self.process.poll() is not None, DEADLINE)
        assert text in self.output()

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Example:
    """One job file: starts its tasks, each as its role says, in a copy of the role's script folder."""

    def __init__(self, name: str, folder: Path, **parameters: object) -> None:
        self.job = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
        self.parameters = self.job.get("parameters", {}) | parameters
        self.folder = folder
        self.peers = peer_variables(self.job["taskRoles"])
        self.tasks: list[Task] = []
        for item in self.job["prerequisites"]:
            if item["type"] == "script":
                shutil.copytree(EXAMPLES / item["uri"], folder / item["name"])

    def start(self, role: str, index: int = 0, shell: str = "bash", **variables: str) -> Task:
        log = self.folder / f"{len(self.tasks)}.log"
        own = {
            "PAI_CURRENT_TASK_ROLE_NAME": role,
            "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
            "PAI_TASK_INDEX": str(index),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                [shell, "-euc", self.script(role)],
                cwd=self.folder / self.job["taskRoles"][role].get("script", "."),
                env={**os.environ, **self.peers, **own, **variables},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.tasks.append(Task(process, log))
        return self.tasks[-1]

    def script(self, role: str) -> str:
        commands = "\n".join(command.strip() for command in self.job["taskRoles"][role]["commands"])
        return re.sub(r"<% \$parameters\.(\w+) %>", lambda match: str(self.parameters[match[1]]), commands)

    def end(self) -> None:
        for task in self.tasks:
            task.signal(signal.SIGTERM)
        for task in self.tasks:
            task.wait()


def peer_variables(roles: Mapping[str, Any]) -> dict[str, str]:
    """Every task at 127.0.0.1, with a free port for each of its labels."""
    variables = {}
    for name, role in roles.items():
        count = role["instances"]
        labels = [*role["resourcePerInstance"].get("ports", ()), "http"]
        ports = free_ports(count * len(labels))
        for i in range(count):
            variables[f"PAI_HOST_IP_{name}_{i}"] = "127.0.0.1"
            variables |= {f"PAI_PORT_LIST_{name}_{i}_{label}": str(ports.pop()) for label in labels}
        addresses = [f"127.0.0.1:{variables[f'PAI_PORT_LIST_{name}_{i}_http']}" for i in range(count)]
        variables[f"PAI_TASK_ROLE_{name}_HOST_LIST"] = ",".join(addresses)
        variables[f"PAI_TASK_ROLE_TASK_COUNT_{name}"] = str(count)
    return variables


def free_ports(count: int) -> list[int]:
    """Ports that no outgoing connection and no job of kedge takes while these tests run."""
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(held).getsockname()[1] for held in reserve(count, CLAIMS)]


def accuracy(output: str) -> float:
    (found,) = re.findall(r"^accuracy (\S+)$", output, re.MULTILINE)
    return float(found)


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Callable[..., Example]]:
    with contextlib.ExitStack() as stack:

        def load(name: str, **parameters: object) -> Example:
            loaded = Example(name, tmp_path, **parameters)
            stack.callback(loaded.end)
            return loaded

        yield load


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_hello_greets_with_role_index_and_peers(example, shell):
    hello = example("hello")
    tasks = [hello.start("worker", i, shell) for i in range(2)]
    assert [task.wait() for task in tasks] == [0, 0]
    peers = hello.peers["PAI_TASK_ROLE_worker_HOST_LIST"]
    assert [task.output() for task in tasks] == [f"hello from worker {i}, we are at {peers}\n" for i in range(2)]


def test_a_task_of_many_prints_its_own_line(example):
    task = example("many").start("task", 499, "sh")
    assert task.wait() == 0
    assert task.output() == "task 499 of 500\n"


def test_retry_is_terminated_at_first_and_then_succeeds(example):
    retry = example("retry")
    first, second = (retry.start("worker", FC_FRAMEWORK_ATTEMPT_ID=attempt) for attempt in "01")
    assert (first.wait(), second.wait()) == (-signal.SIGTERM, 0)
    assert first.output() == "attempt 0\n"
    assert second.output() == "attempt 1\nthis attempt was left alone\n"


def test_fails_has_one_worker_without_data_and_three_that_wait_until_stopped(example):
    fails = example("fails")
    tasks = [fails.start("worker", i) for i in range(4)]
    broken = tasks.pop(2)
    assert broken.wait() == 1
    assert broken.output().endswith("FileNotFoundError: [Errno 2] No such file or directory: 'data/part-2.csv'\n")
    for task in tasks:
        task.says("waits for the gradients")
        task.signal(signal.SIGTERM)
        assert task.wait() == -signal.SIGTERM


def test_digits_learns_and_its_workers_may_come_before_the_server(example):
    pytest.importorskip("sklearn")
    digits = example("digits", epochs=80)
    workers = [digits.start("worker", i) for i in range(3)]
    for worker in workers:
        worker.says("steps an epoch")
    ps = digits.start("ps")
    assert [task.wait() for task in [*workers, ps]] == [0, 0, 0, 0]
    assert "steps served" in ps.output()
    assert "epoch  80 loss 0.0" in workers[0].output()
    assert min(accuracy(worker.output()) for worker in workers) > 0.9


def test_digits_ends_everywhere_when_a_worker_is_killed(example):
    pytest.importorskip("sklearn")
    digits = example("digits", epochs=1_000_000)
    ps, *workers = [digits.start("ps"), *(digits.start("worker", i) for i in range(3))]
    workers[1].says("epoch  60")
    workers[1].signal(signal.SIGKILL)
    assert ps.wait() == 1
    assert re.search(r"^(Connection|ConnectionReset|BrokenPipe)Error: ", ps.output(), re.MULTILINE)
    assert [workers[0].wait(), workers[2].wait()] == [1, 1]


def test_digits_gradient_is_the_slope_of_the_loss():
    np = pytest.importorskip("numpy")
    model = runpy.run_path(str(EXAMPLES / "digits/model.py"))
    random = np.random.default_rng(1)
    images, labels = random.random((8, 64)), random.integers(0, 10, 8)
    parameters = model["initial"]().astype(np.float64)
    direction = random.normal(size=parameters.shape)
    _, gradient = model["loss_and_gradient"](parameters, images, labels)
    after, _ = model["loss_and_gradient"](parameters + 1e-5 * direction, images, labels)
    before, _ = model["loss_and_gradient"](parameters - 1e-5 * direction, images, labels)
    assert (after - before) / 2e-5 == pytest.approx(gradient @ direction, rel=1e-3)


@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0\x08\0\0\0\0"], ids=["in the length", "in the numbers"])
def test_digits_reports_a_frame_that_breaks_off(sent):
    pytest.importorskip("numpy")
    receive = runpy.run_path(str(EXAMPLES / "digits/wire.py"))["receive"]
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rwb") as stream:
        with theirs:
            theirs.sendall(sent)
        with pytest.raises(ConnectionError, match="inside a frame"):
            receive(stream)


def test_digits_reads_back_frames_until_the_peer_closes():
    np = pytest.importorskip("numpy")
    wire = runpy.run_path(str(EXAMPLES / "digits/wire.py"))
    vectors = [np.array([1.5, -2], dtype=np.float32), np.zeros(0, dtype=np.float32)]
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rwb") as stream:
        with theirs, theirs.makefile("rwb") as other:
            for vector in vectors:
                wire["send"](other, vector)
        assert [wire["receive"](stream).tolist() for _ in vectors] == [[1.5, -2], []]
        assert wire["receive"](stream) is None


def test_the_readme_lists_every_example():
    named = re.findall(r"`(\S+\.yaml)`", (EXAMPLES / "README.md").read_text())
    assert sorted(set(named)) == sorted(path.name for path in EXAMPLES.glob("*.yaml"))
