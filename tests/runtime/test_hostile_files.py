"""A task that puts pipes, folders and links in place of every file that its supervisor reads or writes."""

from __future__ import annotations

import json
import os

import pytest

from kedge import contract

# Those that are there while a command runs, and those that come at its end.
NAMES = (
    contract.TERMINATION_LOG, contract.REPORT_FILE, f"{contract.REPORT_FILE}.partial", contract.ERROR_FILE,
    contract.EVENTS_FILE, contract.RUNTIME_LOG, contract.SPEC_FILE, f"{contract.USER_ALL}/current",
    f"{contract.USER_STDOUT}/current", f"{contract.USER_STDERR}/current", contract.USER_ALL, "pai/runtime.d/reserve",
    "pai/runtime.d/runtime_log_pipe", "pai/runtime.d/user.sh", "work/train.log", "work/other.log",
    contract.OUTPUT_DIR, contract.JOB_DIR,
)  # fmt: skip
PLANTED = {
    "fifo": "mkfifo $1",
    "folder": "mkdir -p $1/inner",
    "link-to-zero": "ln -s /dev/zero $1",
    "link-to-itself": "ln -s $1 $1",
    "sparse": "truncate -s 1T $1",
}
OUTSIDE = "precious"


@pytest.mark.parametrize("kind", PLANTED)
def test_anything_planted_in_place_of_the_tasks_files(attempt, kind):
    plant = f"""plant() {{ rm -rf $1; {PLANTED[kind]} || :; }}
set +o errexit
for name in {" ".join(NAMES)}; do plant {attempt.folder}/$name; done
echo "RuntimeError: CUDA out of memory" >&2
exit 3
"""
    secrets = attempt.folder / "secrets"
    secrets.mkdir(parents=True)
    (secrets / contract.SECRET_VALUES).write_text('{"token": "hunter2hunter2"}')
    attempt.spec = attempt.spec._replace(secrets_dir=str(secrets))
    assert attempt.run(plant) == contract.UNRECOGNISED
    assert attempt.report["user_exit_code"] == 3
    assert attempt.report["reason"] == contract.COMMAND_FAILED
    written = attempt.folder / contract.TERMINATION_LOG
    assert written.is_file()
    assert not written.is_symlink()


@pytest.mark.parametrize("plant", [*PLANTED.values(), "ln -s /tmp $1", "touch $1", "true"])
def test_the_jobs_folder_is_a_folder_of_the_run_whatever_a_task_before_put_there(attempt, plant):
    shared = attempt.folder.parent / "job-dir"
    attempt.spec = attempt.spec._replace(job_dir=str(shared))
    assert attempt.run(f"plant() {{ rm -r $1; {plant} || :; }}; plant {shared}") == 0
    assert attempt.run('cd -P "$KEDGE_JOB_DIR"; pwd; touch checkpoint') == 0, attempt.report
    assert attempt.stream(contract.USER_STDOUT).endswith(f"{shared}\n".encode())
    assert (shared / "checkpoint").exists()


@pytest.mark.parametrize("kind", PLANTED)
def test_a_stream_is_rotated_while_the_task_plants_something(attempt, kind):
    attempt.spec = attempt.spec._replace(logs=contract.LogPolicy(file_bytes=5000, kept_files=2))
    # The supervisor may create the file again between the two commands, so try until it works.
    plant = f"""plant() {{ until rm -rf $1 && {PLANTED[kind]}; do :; done; }}
seq 2000
rm -f {attempt.folder}/user-all/@* {attempt.folder}/user-stdout/current
plant {attempt.folder}/user-stdout/current
plant {attempt.folder}/user-all/@400000000000000000000000.s
seq 2000
"""
    assert attempt.run(plant) == 0, attempt.log
    assert attempt.report["reason"] == contract.SUCCEEDED
    assert sum(os.path.isfile(path) for path in (attempt.folder / "user-all").iterdir()) <= 4


@pytest.mark.parametrize(
    "content", ["[" * 10**5, '{"message": ' * 10**4, "null", '{"message": {"extraInfo": []}}', '"\\ud800"', "NaN"]
)
def test_any_error_file(attempt, content):
    (attempt.folder / "work").mkdir(parents=True)
    (attempt.folder / "work" / "text").write_text(content)
    assert attempt.run('cp text "$TORCHELASTIC_ERROR_FILE"; exit 1') == contract.UNRECOGNISED
    assert attempt.report["diagnosis"], attempt.log
    assert not [line for line in attempt.log if "bug" in line]


@pytest.mark.parametrize(
    "plant", [os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/zero", p), lambda p: p.write_text("[" * 10**5),
              lambda p: p.write_text(json.dumps({"roles": {"worker": [{"host": 1, "ports": []}]}}))]
)  # fmt: skip
def test_any_peers_file(attempt, plant, tmp_path):
    plant(tmp_path / "peers.json")
    attempt.spec = attempt.spec._replace(peers_file=str(tmp_path / "peers.json"))
    assert attempt.run("echo never") == contract.UNRECOGNISED
    assert attempt.report["reason"] == contract.CANNOT_START
    assert f"cannot be read from {tmp_path}/peers.json" in attempt.report["message"]


def test_targets_of_planted_links_are_not_written(attempt, tmp_path):
    (tmp_path / OUTSIDE).write_text("as it was")
    names = (contract.TERMINATION_LOG, contract.REPORT_FILE, "report.json.partial")
    links = "".join(f"ln -sf {tmp_path}/{OUTSIDE} {attempt.folder}/{name}; " for name in names)
    assert attempt.run(f"{links} exit 3") == contract.UNRECOGNISED
    assert (tmp_path / OUTSIDE).read_text() == "as it was"
    assert attempt.report["user_exit_code"] == 3
