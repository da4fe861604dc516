"""kedge run: what is printed, what is kept, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge, processes_of


def test_every_problem_of_a_job_file_is_shown_with_its_position(kedge: Kedge) -> None:
    job = kedge.job("echo <% $parameters.lrr %>", parameters={"lr": 1})
    job.write_text(job.read_text().replace("dockerImage: image", "dockerImage: imgae"))
    done = kedge("run", job, code=2)
    assert re.search(r"job.yaml:\d+:\d+: taskRoles.worker.dockerImage: .*did you mean 'image'\?", done.stderr)
    assert "^" in done.stderr
    assert kedge.runs() == []


def test_an_unknown_reference_is_an_error_at_its_place(kedge: Kedge) -> None:
    job = kedge.job("echo one\necho <% $parameters.lrr %>", parameters={"lr": 1})
    done = kedge("validate", job, code=2)
    line = next(n for n, text in enumerate(job.read_text().splitlines(), 1) if "lrr" in text)
    assert f"job.yaml:{line}:" in done.stderr
    assert "no parameter is named 'lrr'; did you mean 'lr'?" in done.stderr


def test_an_unknown_parameter_on_the_command_line_is_an_error(kedge: Kedge) -> None:
    job = kedge.job("echo lr=<% $parameters.lr %>", parameters={"lr": 0.1})
    done = kedge("run", job, "-p", "lrr=1", code=2)
    assert "no parameter is named 'lrr'; did you mean 'lr'?" in done.stderr


@pytest.mark.parametrize("given", ["token=@secret.txt", "token=env:TOKEN"])
def test_a_secret_may_come_from_a_file_or_a_variable(kedge: Kedge, given: str) -> None:
    (kedge.folder / "secret.txt").write_text("hunter2hunter2\n")
    job = kedge.job("echo <% $secrets.token %> | tr 2 _", secrets={"token": "x"})
    assert "worker:0 | hunter_hunter_" in kedge("run", job, "--secret", given, TOKEN="hunter2hunter2").stdout


@pytest.mark.parametrize("given", ["hunter2", "token=@hunter2", "token=env:hunter2", b"token=hunter2\xff"])
def test_a_bad_secret_is_an_error_that_does_not_show_it(kedge: Kedge, given: str | bytes) -> None:
    os.mkfifo(kedge.folder / "hunter2")
    done = kedge("run", kedge.job("true"), "--secret", os.fsdecode(given), code=2)
    assert "hunter2" not in done.stdout + done.stderr
    assert "NAME=VALUE" in done.stderr or "token" in done.stderr


def test_no_stored_file_holds_a_secret(kedge: Kedge) -> None:
    first, second = "hunter2-hunter2", 'it\'s "quoted"\nand of several lines'
    login = {"name": "i", "type": "dockerimage", "uri": "i", "auth": {"username": "me", "password": f"{first}-login"}}
    show = "import json, os; v = os.environ['S']; print(json.dumps(v), repr(v), repr(v.encode()), v.encode().hex())"
    job = kedge.job(
        f'export S="$(cat <<EOF\n<% $secrets.b %>\nEOF\n)"; echo "<% $secrets.a %>"; python3 -c "{show}"; exit 3',
        secrets={"a": first, "b": "x"},
        parameters={"p": f"of {first}"},
    )
    written = job.read_text() + f"# was {first}\n"
    job.write_text(re.sub("prerequisites:", f"prerequisites:\n- {json.dumps(login)}", written, count=1))
    (kedge.folder / "b").write_text(second)
    done = kedge("run", job, "--secret", "b=@b", "-p", f"p=x {first}", code=1)
    assert "worker:0 | ******\nworker:0 | \"******\" '******' b'******' ******\n" in done.stdout
    kept = [path for path in kedge.only_run().rglob("*") if path.is_file()]
    assert {"job.yaml", "plan.json", "run.json", "report.json"} <= {path.name for path in kept}
    for path in kept:
        found = path.read_bytes()
        for secret in (first, second, second.splitlines()[-1], json.dumps(second)[1:-1], second.encode().hex()):
            assert secret.encode() not in found, (path, found)


def test_a_job_from_a_masked_file_needs_its_secrets_again(kedge: Kedge) -> None:
    job = kedge.job("echo <% $secrets.token %> | tr 2 _", secrets={"token": "hunter2hunter2"})
    kedge("run", job)
    copy = kedge.folder / "copy.yaml"
    copy.write_text(kedge("show", "job", "--yaml").stdout)
    assert "hunter2" not in copy.read_text()
    assert "secrets were removed" in kedge("run", copy, code=2).stderr
    (kedge.folder / "unused.yaml").write_text(copy.read_text().replace("<% $secrets.token %>", "nothing"))
    assert "secrets of this file were removed" in kedge("run", "unused.yaml").stderr
    assert "hunter_hunter_" in kedge("run", copy, "--secret", "token=hunter2hunter2").stdout


def test_what_a_killed_submission_has_left_is_removed_by_the_next(kedge: Kedge) -> None:
    left, new = kedge.jobs / "job-aaaaaa", kedge.jobs / "job-bbbbbb"
    for folder in (left, new):
        (folder / "code").mkdir(parents=True)
        (folder / "lock").touch()
    os.utime(left / "lock", (0, 0))
    kedge("run", "-q", kedge.job("true"))
    assert not left.exists()
    assert new.exists()  # it may be in the making


def test_links_that_lead_out_of_the_code_are_named(kedge: Kedge) -> None:
    (kedge.folder / "code").mkdir()
    (kedge.folder / "code" / "data").symlink_to("/usr/share")
    done = kedge("run", kedge.job("ls data >/dev/null"), "--workdir", "code")
    assert "code/data is a link that leads out of the code" in done.stderr


def test_a_working_directory_that_is_not_there_is_an_error(kedge: Kedge) -> None:
    assert "there is no folder" in kedge("run", kedge.job("ls"), "--workdir", "nowhere", code=2).stderr


def test_without_code_every_task_starts_in_an_empty_folder_of_its_own(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("ls -A | wc -l; touch mine; pwd", roles={"worker": {"instances": 2}}))
    assert len(re.findall(r"\| 0$", done.stdout, re.MULTILINE)) == 2
    assert len(set(re.findall(r"\| (/.*)$", done.stdout, re.MULTILINE))) == 2


def test_quiet_shows_the_summary_only(kedge: Kedge) -> None:
    done = kedge("run", "--quiet", kedge.job("echo noise"))
    assert "noise" not in done.stdout
    assert "Succeeded" in done.stdout


def test_known_keys_that_do_nothing_yet_give_one_warning(kedge: Kedge) -> None:
    plugins = [{"plugin": "ssh", "parameters": {"jobssh": True}}]
    job = kedge.job("true", extras={"com.microsoft.pai.runtimeplugin": plugins, "hivedScheduler": {}})
    done = kedge("run", job)
    assert done.stderr.count("without effect in this version") == 1
    assert "hivedScheduler" in done.stderr
    done = kedge("validate", kedge.job("true", extras={"hivedSheduler": {}}))
    assert "unknown key 'hivedSheduler'; did you mean 'hivedScheduler'?" in done.stderr
    plugins[0]["plugin"] = "shh"
    done = kedge("run", kedge.job("true", extras={"com.microsoft.pai.runtimeplugin": plugins}), code=2)
    assert "ssh" in done.stderr


def test_a_job_that_is_too_large_for_the_machine_is_refused_with_the_numbers(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("true", roles={"worker": {"instances": 100_000}}), code=4)
    assert re.search(r"200000 TCP ports are needed, \d+ are left", done.stderr)
    assert kedge.runs() == []
    done = kedge("plan", "--json", kedge.job("true", roles={"worker": {"instances": 100_000}}))
    assert json.loads(done.stdout)["tasks"] == 100_000
    assert "cannot run here" in done.stderr


def test_300_tasks_that_print_to_both_streams_and_end_at_once_lose_no_line(kedge: Kedge) -> None:
    job = kedge.job("echo out $PAI_TASK_INDEX; echo err $PAI_TASK_INDEX >&2", roles={"worker": {"instances": 300}})
    done = kedge("run", job)
    for stream in ("out", "err"):
        said = re.findall(rf"^worker:(\d+) +\| {stream} (\d+)$", done.stdout, re.MULTILINE)
        assert sorted(int(task) for task, index in said if task == index) == list(range(300))


def test_the_open_files_limit_of_the_user_is_restored(kedge: Kedge) -> None:
    script = f"ulimit -Sn 512; exec {shutil.which('python3')} -c 'import os, sys; os.execv(sys.argv[1], sys.argv[1:])' "
    argv = " ".join(kedge.argv(("run", kedge.job("ulimit -Sn"))))
    done = subprocess.run(
        ["bash", "-c", script + argv], env=kedge.environment, capture_output=True, text=True, check=True
    )
    assert "worker:0 | 512" in done.stdout


def test_two_jobs_at_once_have_different_ports_and_runs(kedge: Kedge) -> None:
    script = f"echo port $PAI_CURRENT_CONTAINER_PORT; until [ -e {kedge.folder}/go ]; do sleep 0.1; done"
    job = kedge.job(script, roles={"worker": {"instances": 20}})
    first, second = kedge.start("run", job), kedge.start("run", job)
    wait_until(lambda: all(kedge.task_log(f"worker-{index}").count("port") == 2 for index in range(20)), TIMEOUT)
    (kedge.folder / "go").touch()
    ports = [set(re.findall(r"port (\d+)", process.communicate()[0])) for process in (first, second)]
    assert [len(found) for found in ports] == [20, 20]
    assert not ports[0] & ports[1]
    assert len(kedge.runs()) == 2


def test_ports_of_a_new_attempt_are_new_and_the_same_for_all(kedge: Kedge) -> None:
    script = "echo at $PAI_TASK_ROLE_worker_HOST_LIST; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]"
    kedge("run", kedge.job(script, roles={"worker": {"instances": 2}}, jobRetryCount=1))
    logs = ["".join(kedge.task_log(f"worker-{index}", attempt) for index in range(2)) for attempt in range(2)]
    first, last = (set(re.findall(r"at (\S+)", log)) for log in logs)
    assert len(first) == len(last) == 1
    assert set(re.findall(r":(\d+)", first.pop())).isdisjoint(re.findall(r":(\d+)", last.pop()))


def test_a_progress_bar_is_seen_before_its_line_ends(kedge: Kedge) -> None:
    script = "printf ' 10%%\\r 20%%' >&2; until [ -e ../../../go ]; do sleep 0.1; done; printf '\\r100%%\\n' >&2"
    process = kedge.start("run", kedge.job(script))
    assert process.stdout is not None
    assert process.stdout.readline() == "worker:0 | 20%\n"
    (kedge.only_run() / "go").touch()
    assert process.stdout.readline() == "worker:0 | 100%\n"
    assert process.wait() == 0


def test_a_reader_that_goes_away_does_not_end_the_job(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("echo hello; read x < fifo || true; echo bye; sleep 0.3; touch done"))
    assert process.stdout is not None
    process.stdout.close()
    process.wait()
    assert (kedge.only_run() / "attempt-0" / "worker-0" / "work" / "done").exists()


@contextmanager
def small_state_folder(kedge: Kedge, size: str) -> Iterator[Path]:
    state = kedge.folder / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(state)], check=True)
    try:
        yield state
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)  # a controller may just be ending there


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("detach", [(), ("-d",)])
def test_a_disk_that_is_full_from_the_start_is_refused_and_nothing_left(kedge: Kedge, detach: tuple[str, ...]) -> None:
    with small_state_folder(kedge, "900k"):
        assert "the file system is full" in kedge("run", *detach, kedge.job("true"), code=4).stderr
        assert kedge.runs() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_ends_the_job_with_a_clear_reason(kedge: Kedge) -> None:
    with small_state_folder(kedge, "8m") as state:
        job = kedge.job("yes | head -c 20000000; sleep 1000", roles={"worker": {"instances": 2}})
        done = kedge("run", "--quiet", job, code=4)
        assert "No space left on device" in done.stdout
        shown = kedge("ps").stdout
        assert "failed" in shown
        run = kedge.only_run()
        for file in run.rglob("*.json"):
            json.loads(file.read_text())
        for line in (run / "events.jsonl").read_text().splitlines():
            json.loads(line)
    assert processes_of(str(state)) == []


def test_copies_of_code_that_do_not_fit_are_announced_and_fail_their_task(kedge: Kedge, small_disk: Path) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    (code / "data").write_bytes(os.urandom(600 << 10))
    kedge.environment["XDG_STATE_HOME"] = str(small_disk)
    job = kedge.job("true", roles={"worker": {"instances": 4}})
    done = kedge("run", job, "--workdir", code, code=4)
    assert "each task gets its own copy of the code, 2.3 MiB in all, and only 1." in done.stderr
    assert re.search(r"worker:\d failed: \S+/code/workdir/data: No space left on device", done.stderr)
    shared = kedge.job("cat data | wc -c", name="shared", extras={"kedge": {"code": "readOnly"}})
    (run,) = (small_disk / "kedge" / "jobs").glob("job-*")
    kedge("rm", run.name)
    assert "own copy" not in kedge("run", shared, "--workdir", code).stderr


def test_a_task_without_code_starts_in_a_folder_that_is_kept(kedge: Kedge) -> None:
    kedge("run", kedge.job('echo result > file; [ "$PWD" = "$PAI_WORK_DIR" ]; exit 1', jobRetryCount=1), code=1)
    assert [(kedge.task(attempt=n) / "work" / "file").read_text() for n in (0, 1)] == 2 * ["result\n"]


def test_code_that_tasks_share_cannot_be_written_by_ordinary_users(kedge: Kedge) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    (code / "file").write_text("content\n")
    write = "{ sh -c 'echo x >> file; touch new' 2>&1 || :; } | sed 's/.*: //'"
    job = kedge.job(write, extras={"kedge": {"code": "readOnly"}})
    plain = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    argv = kedge.argv(("run", job, "--workdir", code))
    done = subprocess.run([*plain, *argv], cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True)
    assert kedge.task_log() == 2 * "Permission denied\n", done.stderr
    assert ("tasks can change the read-only code here: they run as root" in done.stderr) == (os.geteuid() == 0)
