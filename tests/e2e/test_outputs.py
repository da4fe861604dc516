"""What tasks write for their user: in the summary, listed, copied out and in, and kept when a run is deleted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from kedge.cli import options
from kedge.jobs.files import parse_place
from kedge.runs.folder import Run
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge
from .terminals import CTRL_C, Terminal

WRITES = [
    'echo "$PAI_TASK_INDEX" > "$KEDGE_OUTPUT_DIR/model.pt"; echo shared > "$KEDGE_JOB_DIR/checkpoint"',
    'cd "$KEDGE_OUTPUT_DIR"; mkdir run; echo best > run/best; ln -s run latest; ln -s /etc out',
]
EVERY = {"completion": {"minSucceededInstances": -1}}


@pytest.fixture
def done(kedge: Kedge) -> Kedge:
    """A run of three tasks that has ended."""
    kedge("run", "-q", kedge.job(WRITES, roles={"worker": {"instances": 3, **EVERY}}))
    return kedge


def content(path: Path) -> dict[str, str]:
    return {
        str(file.relative_to(path)): file.read_text(errors="replace")
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def test_the_summary_names_outputs_with_their_sizes(done: Kedge) -> None:
    said = done("show", "job").stdout
    lines = said[said.index("Outputs") :].splitlines()
    assert lines[:4] == [
        "Outputs     worker:0  run/best (5 B), model.pt (2 B)",
        "            worker:1  run/best (5 B), model.pt (2 B)",
        "            worker:2  run/best (5 B), model.pt (2 B)",
        "            job       checkpoint (7 B)",
    ]
    facts = json.loads(done("show", "--json", "job").stdout)
    found = [(each["task"], each["files"], each["size"]) for each in facts["outputs"]]
    assert found == [("worker:0", 2, 7), ("worker:1", 2, 7), ("worker:2", 2, 7), (None, 1, 7)]
    assert Path(facts["folders"]["job_dir"], "checkpoint").read_text() == "shared\n"


def test_many_outputs_are_folded(kedge: Kedge) -> None:
    command = 'cd "$KEDGE_OUTPUT_DIR"; for i in 1 2 3 4 5; do echo x > $i; done'
    said = kedge("run", "-q", kedge.job(command, roles={"worker": {"instances": 7, **EVERY}})).stdout
    run = kedge.only_run().name
    shown = [line.strip() for line in said[said.index("Outputs") :].splitlines()]
    assert shown[0] == "Outputs     worker:0  1 (2 B), 2 (2 B), 3 (2 B) and 2 more, 10 B in all"
    assert shown[4:6] == ["and 15 files, 30 B of 3 more", f"listed by kedge outputs {run}"]


def test_a_run_without_outputs_shows_nothing_of_them(kedge: Kedge) -> None:
    assert "Outputs" not in kedge("run", kedge.job("true")).stdout
    assert kedge("outputs", "job").stderr == "no files\n"


def test_outputs_are_listed_for_all_a_role_or_a_task(done: Kedge) -> None:
    rows = [line.split() for line in done("outputs", "job").stdout.splitlines()]
    of_one = [["link", "latest"], ["2", "B", "model.pt"], ["link", "out"], ["5", "B", "run/best"]]
    assert rows[0] == ["TASK", "SIZE", "PATH"]
    assert rows[1:5] == [["worker:0", *each] for each in of_one]
    assert rows[-1] == ["job", "7", "B", "checkpoint"]
    assert len(rows) == 14
    assert len(done("outputs", "job", "worker").stdout.splitlines()) == 13
    found = [json.loads(line) for line in done("outputs", "job", "worker-2", "--json").stdout.splitlines()]
    assert [(each["task"], each["path"], each["size"]) for each in found if not each["link"]] == [
        ("worker:2", "model.pt", 2), ("worker:2", "run/best", 5),
    ]  # fmt: skip
    assert Path(found[1]["file"]).read_text() == "2\n"
    assert "has no task or role ps; its roles are worker" in done("outputs", "job", "ps", code=2).stderr


def test_attempts_are_listed_and_copied_by_their_numbers(kedge: Kedge) -> None:
    command = 'echo "$FC_FRAMEWORK_ATTEMPT_ID.$FC_TASK_ATTEMPT_ID" > "$KEDGE_OUTPUT_DIR/try"; exit 1'
    roles = {"worker": {"taskRetryCount": 1}}
    job = kedge.job(command, roles=roles, jobRetryCount=1, extras={"gangAllocation": False})
    kedge("run", "-q", job, code=1)
    rows = [line.split() for line in kedge("outputs", "--all-attempts", "job").stdout.splitlines()[1:]]
    numbers = [row[1] for row in rows]
    assert numbers == sorted(numbers)
    assert len(rows) > 1
    for number in [*numbers, numbers[0][0], None]:
        option = ("--attempt", number) if number else ()
        kedge("cp", *option, "job/worker-0:try", kedge.folder / "try")
        first = number or numbers[-1]
        last = first if "." in first else max(each for each in numbers if each[0] == first)
        expected = ".".join(str(int(part) - 1) for part in last.split("."))
        assert (kedge.folder / "try").read_text() == f"{expected}\n"
    assert "has no attempt 7 of worker:0" in kedge("cp", "--attempt", "7", "job/worker-0:try", ".", code=2).stderr


def test_files_and_folders_are_copied_out_as_by_cp(done: Kedge) -> None:
    here = done.folder
    done("cp", "job/worker-1:model.pt", here)
    assert (here / "model.pt").read_text() == "1\n"
    done("cp", "job/worker:2:model.pt", here / "model.pt")
    assert (here / "model.pt").read_text() == "2\n"
    done("cp", "job/worker-0:latest", here / "new")  # through a link that stays inside
    assert content(here / "new") == {"best": "best\n"}
    all_of_it = done("cp", "job/worker-0:", here / "new")
    assert content(here / "new") == {"best": "best\n", "worker-0/model.pt": "0\n", "worker-0/run/best": "best\n"}
    assert "worker-0:out is a link that leads out of the copied folder, to /etc: skipped" in all_of_it.stderr
    assert "copied 2 files, 7 B" in all_of_it.stderr
    several = [f"job/worker-{index}:" for index in range(3)]
    (here / "all").mkdir()
    done("cp", *several, "job:checkpoint", "all")
    assert sorted(os.listdir(here / "all")) == ["checkpoint", "worker-0", "worker-1", "worker-2"]


def test_absolute_links_of_a_task_to_its_own_folder_are_followed(on_engine: Kedge) -> None:
    kedge = on_engine
    commands = [
        'cd "$KEDGE_OUTPUT_DIR"; mkdir -p a/b; echo best > a/b/file; ln -s "$KEDGE_OUTPUT_DIR/a" latest',
        'ln -s "$KEDGE_OUTPUT_DIR/latest/b" a/again; ln -s "$KEDGE_OUTPUT_DIR" a/top; ln -s "$KEDGE_OUTPUT_DIR-2" no',
    ]
    kedge("run", "-q", kedge.job(commands))
    kedge("cp", "job/worker-0:latest/again/file", ".")
    assert (kedge.folder / "file").read_text() == "best\n"
    kedge("cp", "./file", "job/worker-0:latest/new")
    assert (kedge.task() / "output" / "a" / "new").read_text() == "best\n"
    said = kedge("cp", "job/worker-0:", "all").stderr
    links = {name: os.readlink(kedge.folder / "all" / name) for name in ("latest", "a/again", "a/top")}
    assert links == {"latest": "a", "a/again": "../latest/b", "a/top": "../."}
    assert (kedge.folder / "all" / "a" / "top" / "latest" / "again" / "file").read_text() == "best\n"
    assert said.count("skipped") == said.count("worker-0:no is a link that leads out of the copied folder") == 1
    said = kedge("cp", "job/worker-0:latest", "part").stderr
    assert said.count("skipped") == 2  # they lead out of this part
    assert sorted(os.listdir(kedge.folder / "part")) == ["b", "new"]


REFUSED = [
    (("job/worker-0:out/passwd", "."), "job/worker-0:out/passwd leads out of the folder"),
    (("job/worker-0:../runtime.log", "."), "leads out of the folder"),
    (("job/worker-0:/etc/passwd", "."), "leads out of the folder"),
    (("job/worker-0:none", "."), "No such file or directory; kedge outputs job lists what there is"),
    (("job/worker-9:x", "."), "has no task or role worker-9; its roles are worker (0 to 2)"),
    (("job/worker-0:model.pt", "none/"), "none/: there is no such folder"),
    (("job.yaml", "job/worker-0:out/new"), "leads out of the folder"),
    (("job.yaml", "job/worker-0:none/new"), "No such file or directory"),
    (("none", "job/worker-0:"), "none: cannot be read: No such file or directory"),
    (("job/worker-0", "."), "write JOB/TASK:PATH or JOB:PATH, for example job/worker-0:"),
    (("job:x", "job:y"), "cannot be copied from one run to another"),
    (("other:x", "."), "there is no run 'other'"),
    (("--folder", "code", "job/worker-0:x", "."), "worker:0 of job-"),
    (("--attempt", "last", "job/worker-0:x", "."), "'last' is not an attempt"),
]


def test_a_target_that_cannot_be_written_is_one_clear_error(done: Kedge) -> None:
    message = done("cp", "job/worker-0:model.pt", "/proc/model.pt", code=4).stderr
    assert message.startswith("error: /proc/model.pt: cannot be written: ")


def test_what_cannot_be_copied(done: Kedge) -> None:
    before = content(done.only_run()), sorted(os.listdir(done.folder))
    for args, message in REFUSED:
        assert message in done("cp", *args, code=2).stderr
    assert (content(done.only_run()), sorted(os.listdir(done.folder))) == before


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("job/worker-3:a/b", ("job", "worker-3", "a/b")),
        ("job/worker:3:a:b", ("job", "worker:3", "a:b")),
        ("job/worker-3:", ("job", "worker-3", "")),
        ("job:a/b:c", ("job", None, "a/b:c")),
        ("job.v2:x", ("job.v2", None, "x")),
        ("./job:x", None),
        ("/tmp/job:x", None),
        ("job/other/x:y", None),
        ("file", None),
    ],
)
def test_places(text: str, place: tuple[str, str | None, str] | None) -> None:
    assert parse_place(text) == place


def test_a_copy_into_a_task_that_has_ended_is_noted(done: Kedge) -> None:
    (done.folder / "late").touch()
    assert "note: worker-0 of job-" in done("cp", "late", "job/worker-0:").stderr
    assert "not running" not in done("cp", "late", "job:").stderr


def test_the_code_of_a_task_is_reachable(kedge: Kedge) -> None:
    code = kedge.folder / "source"
    code.mkdir()
    (code / "main.py").write_text("old")
    kedge("run", "-q", kedge.job("echo changed > main.py; pwd"), "--workdir", code)
    kedge("cp", "--folder", "code", "job/worker-0:", "mine")
    assert [*content(kedge.folder / "mine").values()] == ["changed\n"]


def test_an_interrupted_copy_leaves_nothing(kedge: Kedge) -> None:
    """The file is so long that its copy cannot end."""
    kedge("run", "-q", kedge.job('mkdir "$KEDGE_OUTPUT_DIR/a"; truncate -s 3G "$KEDGE_OUTPUT_DIR/a/big"'))
    (big,) = kedge.task().glob("output/a/big")
    with big.open("r+b") as file:  # every block is written, in pieces: no holes to skip
        for at in range(0, 3 << 30, 64 << 10):
            file.seek(at)
            file.write(b"x")
    copy = kedge.start("cp", "job/worker-0:a", "a")
    target = kedge.folder
    while copy.poll() is None and not [name for name in os.listdir(target) if name.endswith(".kedge-cp")]:
        pass
    copy.send_signal(signal.SIGTERM)
    assert copy.wait() == 130
    assert not [name for name in os.listdir(target) if name.endswith(".kedge-cp")]
    assert not (target / "a").exists()


def test_rm_names_what_it_deletes_and_asks_on_a_terminal(done: Kedge) -> None:
    refused = Terminal(done, "rm", "job")
    refused.shows("Delete this run?")
    assert "7 files, 28 B" in refused.seen
    refused.press(b"n\n")
    assert refused.code() == 1
    assert len(done.runs()) == 1
    for key, code in ((b"\x04", 1), (CTRL_C, 130)):
        ended = Terminal(done, "rm", "job")
        ended.shows("Delete this run?")
        _waiting_for_a_key(ended.pid)
        ended.press(key)
        assert ended.code() == code
        assert ended.seen.endswith("\r\nnothing was deleted\r\n"), ended.seen
    assert len(done.runs()) == 1
    agreed = Terminal(done, "rm", "job")
    agreed.shows("Delete this run?")
    agreed.press(b"y\n")
    assert agreed.code() == 0
    assert done.runs() == []


class _Piped(Kedge):
    """Commands whose output goes through a pipe."""

    def argv(self, args: tuple[object, ...]) -> list[str]:
        return ["/bin/sh", "-c", '"$@" | cat', "sh", *super().argv(args)]


def test_rm_asks_although_its_output_goes_through_a_pipe(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("true"))
    for answer, left in ((b"n\n", 1), (b"y\n", 0)):
        asked = Terminal(_Piped(kedge.folder), "rm", "job")
        asked.shows("Delete this run?")
        assert kedge.only_run().name in asked.seen
        asked.press(answer)
        assert asked.code() == 0, "that of the last command of the pipe"
        assert len(kedge.runs()) == left


def _waiting_for_a_key(pid: int) -> None:
    """Wait until a command that has shown a question sleeps: Python misses a Ctrl-C that comes just before it reads."""
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S", TIMEOUT)


def test_rm_does_not_ask_with_yes_or_without_a_terminal(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("true"))
    sure = Terminal(kedge, "rm", "--yes", "job")
    assert sure.code() == 0
    kedge("run", "-q", kedge.job("true"))
    assert "removed" in kedge("rm", "job").stdout
    assert kedge.runs() == []


def test_rm_can_keep_the_outputs(done: Kedge) -> None:
    run = done.only_run()
    outside = done.folder / "outside"
    outside.mkdir()
    (outside / "user-all").write_text("mine")
    done("stop", "job")
    (run / "attempt-0" / "planted-0").symlink_to(outside)
    before = {name: text for name, text in content(run).items() if "/output/" in name or name.startswith("job-dir/")}
    assert str(run) in done("rm", "--keep-outputs", "job").stdout
    after = content(run)
    assert {name: text for name, text in after.items() if "attempt-0/" in name or "job-dir/" in name} == before
    assert (outside / "user-all").read_text() == "mine"
    assert "succeeded" in done("ps").stdout
    assert "its logs and code were deleted" in done("show", "job").stdout
    assert "the logs of this run were deleted" in done("logs", "job").stderr
    assert len(done("outputs", "job").stdout.splitlines()) == 14
    done("rm", "--keep-outputs", "job")  # once more changes nothing
    assert content(run) == after
    done("rm", "job")
    assert done.runs() == []


def test_rm_refuses_an_active_run_before_it_asks(kedge: Kedge) -> None:
    kedge("run", "-d", kedge.job("echo ready; sleep 1000"))
    kedge.wait_for_output("ready")
    asked = Terminal(kedge, "rm", "job")
    assert asked.code() == 2
    assert "stop it first" in asked.seen
    assert "is running: stop it first" in kedge("rm", "--keep-outputs", "job", code=2).stderr


def test_places_are_completed(done: Kedge, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in done.environment.items():
        monkeypatch.setenv(name, value)
    run = Run(done.only_run()).id

    def completed(text: str) -> list[tuple[str, str]]:
        return [(item.value, item.type) for item in options.complete_place(None, None, text)]  # type: ignore[arg-type]

    assert completed(run[:4]) == [(f"{run}:", "plain"), (f"{run}/", "plain")]
    assert completed(f"{run}/worker") == [(f"{run}/worker-{index}:", "plain") for index in range(3)]
    assert completed("./x") == [("./x", "file")]
    assert completed("") == [("", "file")]
