"""Damaged files of a run: every file of a real run is replaced by everything that a task could put there. All commands
must still work for other runs, and report and remove the damaged one."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from kedge.cli import main as command_line
from kedge.testing.command import Kedge

HEALTHY, DAMAGED = "healthy-aaaaaa", "damaged-bbbbbb"
LIMIT_SEC = 60  # far more than any command takes
DEEP = b'{"event": ' * 50_000
HOSTILE_TEXTS = {
    "empty": b"",
    "nul": bytes(5000),
    "no-utf8": b'{"id": "\xff\xfe"}\n',
    "list": b"[]\n",
    "null": b"null\n",
    "text": b'"run"\n',
    "object": b"{}\n",
    "nan": b'{"event": "task-launched", "index": NaN, "version": NaN}\n',
    "huge-number": b'{"event": "job-submitted", "roles": {"worker": ' + b"9" * 5000 + b"}}\n",
    "deep": DEEP,
    "closed-deep": b"[" * 900 + b"]" * 900 + b"\n",
    "long-line": b'{"event": "note", "text": "' + b"x" * (2 << 20),
    "surrogate": b'{"event": "remark", "text": "\\ud800", "id": "\\udfff", "root": null}\n',
}
PLANTED: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "folder": lambda path: (path / "inner").mkdir(parents=True),
    "link-to-zero": lambda path: path.symlink_to("/dev/zero"),
    "link-to-itself": lambda path: path.symlink_to(path.name),
    "link-to-nothing": lambda path: path.symlink_to("nothing"),
    "link-to-a-pipe": lambda path: path.symlink_to("/proc/self/fd/0"),
    "sparse": lambda path: _sparse(path),
}
COMMANDS = [
    ["ps"], ["show", DAMAGED], ["logs", DAMAGED], ["logs", "--follow", DAMAGED, "--stream", "runtime"],
    ["wait", DAMAGED], ["stop", DAMAGED],
]  # fmt: skip
MORE_COMMANDS = [["ps", "--json", "--all"], ["cache"], ["show", "--json", DAMAGED], ["show", "--yaml", DAMAGED]]


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


class Hangs(BaseException):
    """The command has not failed with a bug."""


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a real run with two attempts, code, rules of its own, and a root cause."""
    kedge = Kedge(tmp_path_factory.mktemp("real"))
    (kedge.folder / "code").mkdir()
    (kedge.folder / "code" / "train.py").write_text("print('step 1'); raise MemoryError\n")
    spec = {"spec": [{"code": 231, "pattern": {"runtimeContainerPatterns": [{"exitCode": 77}]}}]}
    (kedge.folder / "exit.yaml").write_text(json.dumps(spec))
    code = {"name": "code", "type": "script", "uri": "code"}
    role = {"instances": 1, "prerequisites": ["code"], "taskRetryCount": 1}
    job = kedge.job(["python train.py"], roles={"worker": role}, prerequisites=[code], jobRetryCount=1)
    process = kedge.start("run", "-q", job)
    process.communicate()
    yield kedge.only_run()
    kedge.close()


@pytest.fixture
def run_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs kedge in this process; a command that takes too long is interrupted and fails."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def too_long(number: int, frame: FrameType | None) -> None:
        raise Hangs(sys.argv)

    def run(*args: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["kedge", *args])
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(LIMIT_SEC)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = command_line._run()
        finally:
            signal.alarm(0)
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
        return Done(code, *texts)

    return run


@pytest.fixture
def jobs(tmp_path: Path, finished: Path) -> Path:
    """A folder with two copies of the run; the second will be damaged."""
    jobs = tmp_path / "state" / "kedge" / "jobs"
    for name in (HEALTHY, DAMAGED):
        copy_of(finished, jobs / name)
    return jobs


def copy_of(run: Path, target: Path) -> None:
    shutil.copytree(run, target, symlinks=True)
    facts = json.loads((target / "run.json").read_text())
    (target / "run.json").write_text(json.dumps(facts | {"id": target.name, "name": target.name.partition("-")[0]}))


def parts(run: Path) -> list[str]:
    """The files and folders of a run, by their paths in it."""
    found = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
    return [name for name in found if "/pai/" not in name and not name.startswith("code/")]


def replace(path: Path, plant: Callable[[Path], None]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    plant(path)


def hold_up(run_command: Callable[..., Done], what: str) -> None:
    """Check that all commands handle the damaged run, and that the healthy run is unchanged."""
    for args in COMMANDS if "/" in what else MORE_COMMANDS + COMMANDS:
        done = run_command(*args)
        assert done.code in (0, 1, 2), f"{what}: kedge {' '.join(args)}: {done}"
        assert "Traceback" not in done.err, f"{what}: kedge {' '.join(args)}: {done.err}"
        if args[0] == "ps":
            assert done.code == 0, (what, done)
            assert {HEALTHY, DAMAGED} <= set(done.out.replace('"', " ").split()), (what, done)
    assert "failed" in run_command("show", HEALTHY).out


@pytest.mark.parametrize("kind", PLANTED)
def test_anything_in_place_of_any_file(kind: str, jobs: Path, finished: Path, run_command: Callable[..., Done]) -> None:
    for number, name in enumerate(parts(finished), list(PLANTED).index(kind)):
        if "/" in name and number % 5:
            continue  # deeper files get one or two kinds each
        if kind == "sparse" and ("user-" in name or name.endswith(".log")):
            continue  # a log may be endless; it is printed while it is read
        replace(jobs / DAMAGED / name, PLANTED[kind])
        hold_up(run_command, f"{name} is {kind}")
        assert run_command("rm", DAMAGED) == Done(0, f"{DAMAGED} removed\n", "")
        assert sorted(os.listdir(jobs)) == [HEALTHY]
        copy_of(finished, jobs / DAMAGED)


@pytest.mark.parametrize("kind", HOSTILE_TEXTS)
def test_any_text_in_any_file_that_is_read(
    kind: str, jobs: Path, finished: Path, run_command: Callable[..., Done]
) -> None:
    for name in ("run.json", "events.jsonl", "lock", "plan.json", "report.json", "attempt-0/worker-0/events.jsonl"):
        (jobs / DAMAGED / name).write_bytes(HOSTILE_TEXTS[kind])
        hold_up(run_command, f"{name} is {kind}")
        assert run_command("rm", DAMAGED) == Done(0, f"{DAMAGED} removed\n", "")
        copy_of(finished, jobs / DAMAGED)


VALUES: list[Any] = [None, True, -1, 10**18, 1.5, "x", "\ud800", "../..", [], {}, [[]], {"a": {"b": 1}}]


def places(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths to all values inside a JSON value."""
    yield way
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from places(inner, (*way, key))


def with_value(document: Any, way: tuple[str | int, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    if not way:
        return value
    at = copy
    for key in way[:-1]:
        at = at[key]
    at[way[-1]] = value
    return copy


def test_any_value_of_a_wrong_type(jobs: Path, finished: Path, run_command: Callable[..., Done]) -> None:
    commands = {"run.json": ["ps"], "report.json": ["show", DAMAGED], "lock": ["show", "--json", DAMAGED]}
    for name, args in commands.items():
        document = json.loads((jobs / DAMAGED / name).read_text())
        for number, way in enumerate(places(document)):
            for value in VALUES[number % 4 :: 4]:
                (jobs / DAMAGED / name).write_text(json.dumps(with_value(document, way, value)))
                done = run_command(*args)
                assert done.code == 0, f"{name} {way} {value!r}: kedge {args}: {done}"
        (jobs / DAMAGED / name).write_text(json.dumps(document))


def test_any_line_of_a_wrong_type_in_the_events(jobs: Path, run_command: Callable[..., Done]) -> None:
    path = jobs / DAMAGED / "events.jsonl"
    events = path.read_bytes()
    before = run_command("ps").out
    assert before.count("failed") >= 2
    for line in events.splitlines():
        event = json.loads(line)
        lines = [json.dumps(with_value(event, way, value)) for way in places(event) for value in VALUES]
        lines += [json.dumps({k: v for k, v in event.items() if k != key}) for key in event]
        hostile = "".join(f"{each}\n" for each in lines if "job-completed" not in each).encode()
        path.write_bytes(events.splitlines(keepends=True)[0] + hostile)
        for args in (["ps"], ["show", DAMAGED], ["logs", DAMAGED], ["logs", "--follow", DAMAGED], ["wait", DAMAGED]):
            assert run_command(*args).code in (0, 1)
    assert run_command("stop", DAMAGED).code == 0
    assert run_command("rm", DAMAGED).code == 0


def test_a_damaged_run_says_what_is_damaged(jobs: Path, run_command: Callable[..., Done]) -> None:
    (jobs / DAMAGED / "run.json").write_text("{")
    assert f"{DAMAGED}  damaged" in run_command("ps").out
    shown = run_command("show", DAMAGED).out
    assert "its run.json is damaged" in shown
    assert f"kedge rm {DAMAGED}" in shown
    assert json.loads(run_command("show", "--json", DAMAGED).out)["state"] == "damaged"
    assert run_command("wait", DAMAGED).code == 1
    assert run_command("rm", DAMAGED).code == 0
    assert DAMAGED not in run_command("ps", "--all").out


def test_lists_of_runs_while_runs_are_removed(jobs: Path, finished: Path, run_command: Callable[..., Done]) -> None:
    over = threading.Event()

    def remove_and_make() -> None:
        number = 0
        while not over.is_set():
            copy_of(finished, jobs / f"gone-{number:06}")
            os.rename(jobs / f"gone-{number:06}", jobs / f".removed-{number:06}")
            shutil.rmtree(jobs / f".removed-{number:06}")
            copy_of(finished, jobs / f"part-{number:06}")
            shutil.rmtree(jobs / f"part-{number:06}")
            number += 1

    other = threading.Thread(target=remove_and_make)
    other.start()
    try:
        for _ in range(30):
            for args in (["ps"], ["ps", "--json"], ["cache"]):
                done = run_command(*args)
                assert done.code == 0, done
                assert HEALTHY in done.out or args == ["cache"]
    finally:
        over.set()
        other.join()


SABOTAGE = """
run=$(dirname $(dirname $(dirname $PWD)))
echo "{\\"event\\": \\"task-completed\\", \\"role\\": 7}" >> $run/events.jsonl
echo "{\\"event\\": \\"task-retrying\\", \\"time\\": \\"2026-02-01T02:54:48Z\\"}" >> $run/events.jsonl
echo "{\\"event\\": \\"job-submitted\\", \\"roles\\": {\\"other\\": 3}}" >> $run/events.jsonl
for name in report.json .report.json.new report.md attempt-1 attempt-0/worker-0.1; do mkdir -p $run/$name/inner; done
for name in run.json plan.json job.yaml attempt-0/peers.json; do rm $run/$name; mkfifo $run/$name; done
exit 250
"""


def test_a_task_that_damages_its_own_run_while_it_runs(kedge: Kedge) -> None:
    job = kedge.job(SABOTAGE, roles={"worker": {"taskRetryCount": 1}}, jobRetryCount=1)
    done = kedge("run", "--json", job, code=1)
    assert "bug" not in done.stdout + done.stderr
    assert (kedge.only_run() / "report.json").is_file()
    assert "damaged" in kedge("ps").stdout
    kedge("rm", kedge.only_run().name)
    assert kedge.runs() == []
