from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kedge.contract import timestamp
from kedge.errors import CannotRun, InputError
from kedge.runs.folder import Run, RunInfo, create, creation_time, delete, find, jobs_dir, parse_task, runs


def saved_run(jobs: Path, name: str, second: int = 0) -> Run:
    run = create(jobs, name)
    run.save(RunInfo(run.id, name, "ann", "local", timestamp(second * 10**9), "0.1.0", "/home/ann/job.yaml"))
    return run


def test_jobs_dir() -> None:
    assert jobs_dir({"XDG_STATE_HOME": "/state"}) == Path("/state/kedge/jobs")
    default = Path.home() / ".local/state/kedge/jobs"
    assert jobs_dir({}) == jobs_dir({"XDG_STATE_HOME": ""}) == jobs_dir({"XDG_STATE_HOME": "state"}) == default


def test_create(tmp_path: Path) -> None:
    run = create(tmp_path / "a" / "jobs", "digits")
    assert re.fullmatch(r"digits-[a-z2-7]{6}", run.id)
    assert run.path.stat().st_mode & 0o777 == 0o700


NAMES = [("x" * 50, "x" * 40), ("a/b c~ü", "a-b-c-"), ("../..", "job"), (".-", "job")]


@pytest.mark.parametrize(("name", "stem"), NAMES)
def test_any_name_makes_a_safe_id(tmp_path: Path, name: str, stem: str) -> None:
    run = create(tmp_path, name)
    assert run.path.parent == tmp_path
    assert re.fullmatch(f"{stem}-[a-z2-7]{{6}}", run.id)


def test_many_runs_at_once_have_different_ids(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: create(tmp_path, "digits").id, range(200)))
    assert len(set(made)) == 200


def test_a_run_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotRun, match=r"file/jobs: cannot make a run folder here: .* XDG_STATE_HOME"):
        create(tmp_path / "file" / "jobs", "digits")


def test_info_round_trip(tmp_path: Path) -> None:
    run = create(tmp_path, "digits")
    info = RunInfo(run.id, "digits", "ann", "local", timestamp(0), "0.1.0", "job.yaml", "/run/user/7/s")
    run.save(info)
    assert run.info() == info


def test_keys_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    run = saved_run(tmp_path, "digits")
    run.run_file.write_text(run.run_file.read_text().replace("{", '{"colour": "blue", ', 1))
    assert run.info().name == "digits"


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    middle, new, old = saved_run(tmp_path, "m", 5), saved_run(tmp_path, "n", 9), saved_run(tmp_path, "o", 1)
    assert runs(tmp_path) == [new, middle, old]


def test_the_last_run_is_the_newest_even_if_the_clock_was_set_back(tmp_path: Path) -> None:
    saved_run(tmp_path, "digits", 4_000_000_000)  # the clock was far ahead
    new = create(tmp_path, "digits")
    new.save(RunInfo(new.id, "digits", "ann", "local", creation_time(tmp_path), "0.1.0", "/home/ann/job.yaml"))
    assert find(tmp_path, "digits") == new


@pytest.mark.parametrize("damage", ["z", "9999-12-31T23:59:59.999999999Z", "999999"])
def test_a_damaged_time_of_another_run_does_no_harm(tmp_path: Path, damage: str) -> None:
    damaged = saved_run(tmp_path, "digits")
    info = json.loads(damaged.run_file.read_text())
    damaged.run_file.write_text(json.dumps(info | {"created": damage}))
    assert creation_time(tmp_path).startswith("20")


def test_folders_that_are_not_runs_are_skipped(tmp_path: Path) -> None:
    run = saved_run(tmp_path, "digits")
    create(tmp_path, "half-made")
    (tmp_path / "a-file").touch()
    for name in (".removed-x", "no id", "n\udcff"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(run.run_file.read_text())
    assert runs(tmp_path) == [run]
    assert runs(tmp_path / "none") == []
    with pytest.raises(InputError, match="a-file is not a run folder"):
        Run(tmp_path / "a-file").info()


def test_damaged_runs_are_listed_as_such(tmp_path: Path) -> None:
    whole = saved_run(tmp_path, "digits").run_file.read_text()
    damaged = {
        "torn": '{"id": "to', "list": "[]", "few": '{"id": "few"}', "copied": whole,
        "typed": whole.replace('"user": "ann"', '"user": 7'), "timed": whole.replace("1970-01-01", "yesterday "),
    }  # fmt: skip
    for name, text in damaged.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
    assert {run.id for run in runs(tmp_path)} > set(damaged)
    damage = {name: Run(tmp_path / name).info().damage for name in damaged}
    assert all(text.startswith("its run.json is damaged: ") for text in damage.values())
    assert damage["copied"].endswith("it belongs to another run")
    assert damage["typed"].endswith("`user` has the wrong type")
    assert find(tmp_path, "tor") == Run(tmp_path / "torn")
    delete(Run(tmp_path / "torn"))
    assert not (tmp_path / "torn").exists()


def test_find(tmp_path: Path) -> None:
    old, new, other = (
        saved_run(tmp_path, "digits", 1),
        saved_run(tmp_path, "digits", 2),
        saved_run(tmp_path, "digits-for-all", 3),
    )
    assert find(tmp_path, "digits") == new
    assert find(tmp_path, old.id) == old
    assert find(tmp_path, "digits-for-all") == other
    assert find(tmp_path, "digits-for-") == other
    assert find(tmp_path, old.id[:-1]) == old


def test_find_an_ambiguous_prefix(tmp_path: Path) -> None:
    a, b = saved_run(tmp_path, "digits", 1), saved_run(tmp_path, "digits", 2)
    with pytest.raises(InputError) as caught:
        find(tmp_path, "digit")
    assert str(caught.value) == f"'digit' is ambiguous; it may be {b.id}, {a.id}: give more of the id"


@pytest.mark.parametrize("text", ["", "nothing-like-it", "..", "/", "."])
def test_find_an_unknown_name_lists_the_latest_runs(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="there are no runs yet"):
        find(tmp_path, text)
    made_runs = [saved_run(tmp_path, "digits", second) for second in range(7)]
    with pytest.raises(InputError, match=f"the latest are {made_runs[-1].id}, .* and 2 more"):
        find(tmp_path, text)


def test_find_suggests_the_nearest_name(tmp_path: Path) -> None:
    saved_run(tmp_path, "digits")
    with pytest.raises(InputError, match="did you mean digits"):
        find(tmp_path, "digist")


def test_paths_and_back(tmp_path: Path) -> None:
    run = create(tmp_path, "digits")
    folders = [run.task("worker", 10, 0), run.task("worker", 3, 0, 2), run.task("worker", 3, 0), run.task("ps_2", 0, 1)]
    assert [str(folder.relative_to(run.path)) for folder in folders] == [
        "attempt-0/worker-10",
        "attempt-0/worker-3.2",
        "attempt-0/worker-3",
        "attempt-1/ps_2-0",
    ]
    for folder in folders:
        folder.mkdir(parents=True)
    run.peers(0).touch()
    assert run.attempts() == [0, 1]
    assert [found[:3] for found in run.tasks(0)] == [("worker", 3, 0), ("worker", 3, 2), ("worker", 10, 0)]
    assert run.tasks(1)[0].path == folders[3]
    assert run.tasks(2) == []


@pytest.mark.parametrize("text", ["worker:3", "worker-3"])
def test_parse_task(text: str) -> None:
    assert parse_task(text) == ("worker", 3)


@pytest.mark.parametrize("text", ["worker", "worker:", ":3", "worker:-1", "worker:3x", "worker:3\n", "a b:3", "a/b:1"])
def test_parse_what_is_not_a_task(text: str) -> None:
    with pytest.raises(InputError, match="is not a task: write ROLE:INDEX, for example worker:0"):
        parse_task(text)


def test_delete_removes_read_only_folders(tmp_path: Path) -> None:
    run = saved_run(tmp_path, "digits")
    cache = run.task("worker", 0, 0) / "cache"
    cache.mkdir(parents=True)
    (cache / "module").touch()
    (cache / "link").symlink_to(tmp_path)
    cache.chmod(0o555)
    delete(run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may delete everything")
def test_delete_names_what_cannot_be_deleted_and_the_run_stays_listed(tmp_path: Path) -> None:
    run = saved_run(tmp_path, "digits")
    run.attempt(0).mkdir()
    run.path.chmod(0o500)
    with pytest.raises(CannotRun, match="attempt-0: Permission denied"):
        delete(run)
    assert runs(tmp_path) == [run]
    run.path.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_of_runs_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o300)
    with pytest.raises(CannotRun, match=f"{tmp_path}: cannot be read"):
        runs(tmp_path)
    tmp_path.chmod(0o700)
