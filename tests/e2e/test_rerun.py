"""A job is run again from what its run has recorded, when everything it was made of has gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.own_files import clear

from .conftest import Kedge

SECRET = "hunter2hunter2"
RULE = """\
[never-seen]
cause = "bad_config"
role = "root"
rank = 70
patterns = ["NEVER: seen"]
matches = ["NEVER: seen"]
rejects = ["NEVER"]
"""


def says(name: str, *require: str) -> dict[str, Any]:
    """A hook that adds its name to a file in the job folder."""
    callbacks = [{"event": "taskStarts", "commands": [f"echo {name} >> $KEDGE_JOB_DIR/names"]}]
    return {"name": name, "type": "script", "plugin": "cmd", "callbacks": callbacks, "require": list(require)}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return path


def info(kedge: Kedge, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((kedge.jobs / name / "run.json").read_text())
    return found


def again(kedge: Kedge, *options: str, **environment: str) -> tuple[str, str]:
    """Run the newest run again. Returns its id and the log of its only task."""
    name = kedge("rerun", "-d", "job", *options, **environment).stdout.strip()
    kedge("wait", name)
    return name, kedge("logs", name, "worker-0").stdout


@pytest.fixture
def project(kedge: Kedge) -> Path:
    """A job in a folder of its own, with files and a marketplace outside of it."""
    write(kedge.folder / "market" / "script" / "sold.yaml", says("sold"))
    write(kedge.folder / "outside" / "deep.yaml", says("deep"))
    folder = kedge.folder / "project"
    write(folder / "items" / "both.yaml", says("both", "../../outside/deep.yaml", "marketplace://script/sold"))
    write(folder / "rules.toml", RULE)
    write(folder / "code" / "main.sh", "cat data; cat $KEDGE_JOB_DIR/names; echo $1\n")
    write(folder / "code" / "data", "first\n")
    os.chmod(folder / "code" / "main.sh", 0o755)
    job = kedge.job(
        "./main.sh <% $parameters.lr %>",
        roles={"worker": {"script": "code", "prerequisites": ["./items/both.yaml"]}},
        prerequisites=[{"name": "code", "type": "script", "uri": "./code"}],
        parameters={"lr": 1.0},
        extras={"kedge": {"rules": ["rules.toml"]}},
    )
    return job.rename(folder / "job.yaml")


@pytest.mark.parametrize("locked", [False, True])
def test_a_run_needs_none_of_its_files_again(kedge: Kedge, project: Path, locked: bool) -> None:
    market = ("--marketplace", str(kedge.folder / "market"))
    if locked:
        kedge("lock", project, *market)
    kedge("run", project, *market)
    expected = "first\ndeep\nsold\nboth\n1.0\n"
    assert kedge.task_log() == expected
    for name in ("project", "outside", "market", "cache"):
        shutil.rmtree(kedge.folder / name)
    assert again(kedge)[1] == expected
    last, log = again(kedge, "-p", "lr=0.5")  # of the rerun
    assert log == expected.replace("1.0", "0.5")
    assert info(kedge, last)["source"] == str(project)
    shown = kedge("show", last).stdout
    assert f"Rerun of    {info(kedge, last)['rerun_of']}" in shown
    assert f"Options     -p lr=0.5 --marketplace {kedge.folder}/market" in shown
    assert len(list((kedge.jobs / last / "inputs").glob("rules-*.toml"))) == 1
    assert not project.parent.exists()  # not even a lock file was written


def test_what_has_changed_since_has_no_effect(kedge: Kedge, project: Path) -> None:
    kedge("run", project, "--marketplace", kedge.folder / "market")
    write(kedge.folder / "outside" / "deep.yaml", says("changed"))
    write(project.parent / "code" / "data", "changed\n")
    project.write_text("changed")
    assert again(kedge)[1] == "first\ndeep\nsold\nboth\n1.0\n"


def test_a_job_from_stdin_runs_again_from_any_folder(kedge: Kedge, project: Path) -> None:
    text = project.read_bytes()
    subprocess.run(
        kedge.argv(("run", "-q", "-", "--marketplace", str(kedge.folder / "market"))),
        input=text, cwd=project.parent, env=kedge.environment, check=True, capture_output=True,
    )  # fmt: skip
    shutil.rmtree(project.parent)
    name, log = again(kedge)
    assert log == "first\ndeep\nsold\nboth\n1.0\n"
    assert info(kedge, name)["source"] == "<stdin>"
    assert again(kedge)[1] == log


def test_secrets_are_given_again(kedge: Kedge, tmp_path: Path) -> None:
    secrets = {"token": SECRET, "keys": [{"name": "another-secret"}], "unused": "not-referred-to"}
    command = "echo <% $secrets.token %> <% $secrets.keys[0].name %> $TAKEN | sed 's/[2-9]/_/g'"
    kedge("run", kedge.job(command, secrets=secrets), "--env", "TAKEN", TAKEN="taken-2-taken")
    error = kedge("rerun", "job", code=2).stderr
    assert "give each again with --secret NAME=VALUE, NAME=@FILE or NAME=env:VARIABLE: keys[0].name, token\n" in error
    assert "the value of TAKEN came from your shell and was not stored; export it, or add --env TAKEN=VALUE" in error
    assert len(kedge.runs()) == 1
    given = ("--secret", "token=token-3-token", "--secret", "keys[0].name=key-4-key")
    assert "keys[0].name\n" in kedge("rerun", "job", *given[:2], code=2, TAKEN="x").stderr
    done = kedge("rerun", "job", *given, TAKEN="taken-5-taken")
    assert "note: secrets that were not given again, and to which nothing in the job refers: unused\n" in done.stderr
    name, log = again(kedge, *given, "--secret", "unused=given", "--env", "TAKEN", TAKEN="taken-5-taken")
    assert log == "token-_-token key-_-key taken-_-taken\n"
    values = ("token-3-token", "key-4-key", "taken-5-taken", SECRET, "taken-2-taken")
    kept = [file for file in (kedge.jobs / name).rglob("*") if file.is_file()]
    assert [file for file in kept for value in values if value.encode() in file.read_bytes()] == []
    assert "Secrets     keys[0].name, token" in kedge("show", name).stdout
    done = kedge("rerun", name, *given, "--env", "TAKEN=plain")
    assert "to which nothing in the job refers: unused\n" in done.stderr  # not the part that was given by its path


def test_values_that_held_a_secret_are_asked_for(kedge: Kedge) -> None:
    keys = {"secrets": {"token": SECRET}, "parameters": {"url": f"x-{SECRET}", "other": 1}}
    command = f"echo <% $parameters.url %> <% $parameters.other %> $A; : {SECRET}"
    job = kedge.job(command, **keys)
    kedge("run", job, "-p", f"other=o-{SECRET}", "--env", f"A=a-{SECRET}")
    secret = ("--secret", f"token={SECRET}")
    error = kedge("rerun", "job", *secret, code=2).stderr
    assert "the parameter other held a secret, which was not stored; give it again with -p other=VALUE" in error
    assert "the variable A held a secret, which was not stored; give it again with --env A=VALUE" in error
    error = kedge("rerun", "job", *secret, "-p", "other=2", "--env", "A=3", code=2).stderr
    assert "parameters.url: held a secret, which was not stored with the run; give it again with -p url=VALUE" in error
    assert "taskRoles.worker.commands[0]: held a secret, which was not stored with the run" in error


def test_a_document_with_a_secret_is_not_kept(kedge: Kedge) -> None:
    write(kedge.folder / "item.yaml", says(SECRET))
    write(kedge.folder / "other.yaml", says("other"))
    listed = {"worker": {"prerequisites": ["./item.yaml", "./other.yaml"]}}
    kedge("run", kedge.job("echo <% $secrets.token %>", roles=listed, secrets={"token": SECRET}))
    kept = [file.read_text() for file in (kedge.only_run() / "inputs" / "documents").iterdir()]
    assert kept == [(kedge.folder / "other.yaml").read_text()]
    error = kedge("rerun", "job", "--secret", f"token={SECRET}", code=2).stderr
    assert "item.yaml is not in the record of the run" in error
    assert "it held a secret" in error
    assert SECRET not in error
    done = kedge("show", "job", "--export", "new")
    assert "item.yaml: not exported, because it held a secret" in done.stderr
    assert "note: its secrets were not stored; give them with --secret: token" in kedge("show", "job", "--yaml").stderr


def test_a_password_of_an_image_is_left_out_with_a_note(kedge: Kedge) -> None:
    job = kedge.job("echo done")
    job.write_text(
        job.read_text().replace("uri: busybox", f"uri: busybox\n  auth: {{username: me, password: {SECRET}}}")
    )
    kedge("run", job)
    done = kedge("rerun", "job")
    assert "note: the password of the image image was not stored; it is pulled without credentials" in done.stderr


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"folder": ""}, "recorded too little of it; start from its job file (kedge show"),
        ({"options": {"parameters": {"lr": 1}}}, "run.json is damaged: `options` has a value of the wrong type"),
        ({"options": []}, "run.json is damaged: `options` has the wrong type"),
    ],
)
def test_a_run_without_a_record_is_an_error(kedge: Kedge, change: dict[str, Any], why: str) -> None:
    kedge("run", kedge.job("true"))
    run = kedge.only_run()
    (run / "run.json").write_text(json.dumps(info(kedge, run.name) | change))
    assert why in kedge("rerun", run.name, code=2).stderr


def test_a_run_of_an_older_kedge_is_shown(kedge: Kedge) -> None:
    """Its run.json has neither options nor the folder of the job file."""
    kedge("run", kedge.job("true"))
    run = kedge.only_run()
    (run / "run.json").write_text(
        json.dumps({name: value for name, value in info(kedge, run.name).items() if name not in ("options", "folder")})
    )
    assert "Options" not in kedge("show", "job").stdout
    for words in (("rerun", "job"), ("show", "job", "--export", "new")):
        assert "recorded too little of it; start from its job file" in kedge(*words, code=2).stderr


@pytest.mark.parametrize("what", ["documents", "job.lock", "code", "link"])
def test_a_damaged_record_is_an_error_with_a_place(kedge: Kedge, project: Path, what: str) -> None:
    kedge("run", project, "--marketplace", kedge.folder / "market")
    run = kedge.only_run()
    if what == "documents":
        for file in (run / "inputs" / "documents").iterdir():
            file.write_text("changed")
    elif what == "job.lock":
        (run / "inputs" / "job.lock").write_text("{")
    elif what == "link":  # as a task could make it
        (run / "job.yaml").unlink()
        (run / "job.yaml").symlink_to(project)
    else:
        clear(run / "code")
    expected = {
        "documents": f"is not in the record of the run {run.name}",
        "job.lock": f"{run}/inputs/job.lock:1:2: this lock file cannot be read",
        "code": f"there is no file or folder {run}/code/code",
        "link": f"{run.name}: its job.yaml cannot be read",
    }
    assert expected[what] in kedge("rerun", "job", code=2).stderr


def test_the_job_folder_of_a_run_that_still_runs_is_not_copied(kedge: Kedge) -> None:
    name = kedge("run", "-d", kedge.job("echo ready; sleep 1000")).stdout.strip()
    kedge.wait_for_output("ready")
    error = kedge("rerun", name, "--with-job-dir", code=2).stderr
    assert f"{name} is running, so its job folder still changes; wait for its end, or stop it" in error
    assert len(kedge.runs()) == 1


def test_what_leads_out_of_the_job_folder_is_named_and_not_copied(kedge: Kedge) -> None:
    kedge("run", kedge.job("cd $KEDGE_JOB_DIR; ln -s /etc/passwd out; mkfifo pipe; echo kept > kept"))
    done = kedge("rerun", "-q", "job", "--with-job-dir")
    assert " --with-job-dir\n" in kedge("show", "job").stdout
    assert "not copied from the job folder (links that lead out of it, pipes and the like): out, pipe" in done.stderr
    kedge("run", "-q", kedge.job("rm -r $KEDGE_JOB_DIR; ln -s / $KEDGE_JOB_DIR", name="linked"))
    error = kedge("rerun", "linked", "--with-job-dir", code=2).stderr
    assert "/job-dir: it cannot be copied: Not a directory" in error


def test_the_engine_and_its_options_are_those_of_the_run(kedge: Kedge) -> None:
    roles = {"worker": {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 1}}}
    kedge("run", kedge.job("echo done", roles=roles), "--allow-fewer-gpus", CUDA_VISIBLE_DEVICES="")
    name, log = again(kedge, CUDA_VISIBLE_DEVICES="")
    assert log == "done\n"
    assert info(kedge, name)["options"]["engine"] == {"allow_fewer_gpus": True}
    assert "Options     --allow-fewer-gpus" in kedge("show", name).stdout
    assert "there is no engine 'nope'" in kedge("rerun", "job", "--engine", "nope", code=2).stderr


def test_a_rerun_is_not_held_unless_that_is_asked_again(kedge: Kedge) -> None:
    kedge("run", kedge.job("exit 3"), "--hold-on-failure", "0.1", code=1)
    (first,) = kedge.runs()
    assert "Options     --hold-on-failure 0.1s" in kedge("show", first.name).stdout
    kedge("rerun", first.name, code=1)
    kedge("rerun", first.name, "--hold-on-failure", "0.1", code=1)
    logs = [(run / "events.jsonl").read_text() for run in kedge.runs()]
    assert sorted("task-held" in log for log in logs) == [False, True, True]
