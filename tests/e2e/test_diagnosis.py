"""What a person is told when a job has failed, and what is kept of it."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from .conftest import EXAMPLES, Kedge

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB "
    "of which 1.20 GiB is free. Including non-PyTorch memory, this process has 22.40 GiB memory in use."
)
RULE = """
[widget-broke]
cause = "bad_config"
role = "root"
rank = 90
patterns = ['WidgetError: no widget named (?P<name>\\w+)']
matches = ["WidgetError: no widget named left"]
rejects = ["WidgetError was handled"]
"""
SPEC = """
- {containerExitCode: 199, patterns: [{exitCode: 9, userLogRegex: 'WidgetError: .*'}]}
"""


def test_a_failed_job_ends_with_one_answer(kedge: Kedge) -> None:
    done = kedge("run", EXAMPLES / "fails.yaml", code=1)
    assert re.search(r"^Root cause +worker:2 +data_file_missing \(permanent, \w+\)$", done.stdout, re.MULTILINE)
    log = re.escape(f"{kedge.only_run()}/attempt-0/worker-2/user-all/current")
    assert re.search(
        rf"^ +FileNotFoundError: .*\n +in train.py:12 in read_part\nLog +{log}:\d+\n", done.stdout, re.MULTILINE
    )
    assert re.search("^After it +3 other tasks were stopped$", done.stdout, re.MULTILINE)
    assert "Logs " not in done.stdout
    assert "Root cause" in kedge("show", "fails").stdout


def test_report_json_and_report_md_say_the_same(kedge: Kedge) -> None:
    kedge("run", "-q", EXAMPLES / "fails.yaml", code=1)
    run = kedge.only_run()
    report = json.loads((run / "report.json").read_text())
    root = report["root"]
    assert (report["version"], report["state"]) == (1, "failed")
    assert (root["task"], root["cause"], root["behavior"]) == ("worker:2", "data_file_missing", "permanent")
    assert root["frame"] == "train.py:12 in read_part"
    assert 1 <= len(root["remedy"]) <= 3
    quote = root["evidence"][0]
    assert Path(quote["file"]).read_text().splitlines()[quote["line"] - 1] == quote["text"]
    assert [(o["kind"], o["count"]) for o in report["others"]] == [("stopped", 3)]
    assert {t["task"]: t["state"] for t in report["tasks"]}["worker:0"] == "stopped"
    text = (run / "report.md").read_text()
    assert "data_file_missing" in text
    assert "worker:2" in text


def test_the_containers_code_and_message_come_from_the_exit_spec_alone(kedge: Kedge) -> None:
    kedge("run", "-q", EXAMPLES / "fails.yaml", code=1)
    folder = kedge.only_run() / "attempt-0" / "worker-2"
    report = json.loads((folder / "report.json").read_text())
    assert (report["exit_code"], report["user_exit_code"]) == (229, 1)
    message = (folder / "pai-termination-log").read_bytes()
    assert message.startswith(b"[PAI_RUNTIME_ERROR_START]\nexitCode: 229\n")
    assert len(message) <= 4096


def test_a_job_that_succeeds_has_a_report_without_a_root(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("echo Traceback; echo ValueError: handled"))
    report = json.loads((kedge.only_run() / "report.json").read_text())
    assert (report["state"], report["root"], report["others"]) == ("succeeded", None, [])


def test_a_cause_that_no_log_tells_of_comes_with_what_the_runtime_saw(kedge: Kedge) -> None:
    done = kedge("run", "-q", kedge.job("exit 127"), code=1)
    assert re.search(r"^Root cause +worker:0 +command_not_found \(permanent, guess\)$", done.stdout, re.MULTILINE)
    assert "the command exited with code 127" in done.stdout
    assert "the command exited with code 127" in (kedge.only_run() / "report.md").read_text()


def test_rules_of_ones_own_change_the_answer(kedge: Kedge) -> None:
    (kedge.folder / "own.toml").write_text(RULE)
    (kedge.folder / "spec.yaml").write_text(SPEC)
    script = "echo 'WidgetError: no widget named left'; exit 9"
    assert "bad_config" not in kedge("run", kedge.job(script), code=1).stdout
    done = kedge("run", kedge.job(script, name="own", extras={"kedge": {"rules": ["own.toml"]}}), code=1)
    assert "bad_config (permanent, sure)" in done.stdout
    done = kedge("run", "--rules", "own.toml", "--rules", "spec.yaml", kedge.job(script, name="both"), code=1)
    assert "bad_config (permanent, sure)" in done.stdout
    (report,) = kedge.jobs.glob("both-*/attempt-0/worker-0/report.json")
    assert json.loads(report.read_text())["exit_code"] == 199


def test_a_bad_rule_file_is_refused_before_anything_runs(kedge: Kedge) -> None:
    (kedge.folder / "own.toml").write_text(RULE.replace("bad_config", "bad_confg"))
    done = kedge("run", "--rules", "own.toml", kedge.job("true"), code=2)
    assert "own.toml: rule widget-broke: unknown cause 'bad_confg'" in done.stderr
    assert kedge.runs() == []
    assert "unknown cause" in kedge("rules", "test", "own.toml", code=2).stderr
    (kedge.folder / "own.toml").write_text(RULE.replace("named left", "called left"))
    assert "does not match" in kedge("rules", "test", "own.toml", code=1).stdout
    (kedge.folder / "own.toml").write_text(RULE)
    (kedge.folder / "spec.yaml").write_text(SPEC)
    assert "own.toml, spec.yaml: all examples pass" in kedge("rules", "test", "own.toml", "spec.yaml").stdout
    (kedge.folder / "spec.yaml").write_text("- {}")
    assert "spec.yaml: entry 1" in kedge("rules", "test", "spec.yaml", code=2).stderr
    assert "No such file" in kedge("run", "--rules", "nothing.toml", kedge.job("true"), code=2).stderr


def test_a_second_exit_spec_is_refused(kedge: Kedge) -> None:
    two = []
    for name in ("one.yaml", "two.yaml"):
        (kedge.folder / name).write_text(SPEC)
        two += ["--rules", name]
    for command in (["run", *two, kedge.job("true")], ["diagnose", *two, "one.yaml"]):
        assert "only one exit spec can be used, not " in kedge(*command, code=2).stderr


def test_diagnose_reads_plain_and_compressed_logs_and_stdin(kedge: Kedge) -> None:
    log = f'step 1\nTraceback (most recent call last):\n  File "/w/train.py", line 88, in step\n{OOM}\n'.encode()
    (kedge.folder / "a.log").write_bytes(log)
    (kedge.folder / "b").write_bytes(gzip.compress(log))
    (kedge.folder / "c").write_bytes(zstandard.compress(log))
    for name in ("a.log", "b", "c"):
        found = json.loads(kedge("diagnose", "--json", "--exit-code", "1", name).stdout)
        assert (found["cause"], found["behavior"], found["task"]) == ("gpu_oom", "permanent", name)
        assert found["evidence"][0]["line"] == 4
        assert (found["exit_code"], found["pai_code"]) == (1, 226)
    shown = kedge("diagnose", "a.log").stdout
    assert "train.py:88 in step" in shown
    assert "batch size" in shown
    assert "No such file" in kedge("diagnose", "nothing.log", code=2).stderr
    assert "not a run folder" in kedge("diagnose", ".", code=2).stderr


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_diagnose_takes_what_is_there_of_a_compressed_log(
    kedge: Kedge, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """Of a copy that was interrupted, of several members, of a damaged one."""
    log = compress(b"MemoryError\n")
    for content, cut in ((log + log[:-1], True), (log + log[:6], True), (log + bytes(2000) + log, False)):
        (tmp_path / "log").write_bytes(content)
        done = kedge("diagnose", "--json", "log")
        assert json.loads(done.stdout)["evidence"][0]["text"] == "MemoryError"
        assert ("the compressed data of log is truncated" in done.stderr) == cut
    (tmp_path / "log").write_bytes(log[:4] + b"\xff" * 1000)
    assert "damaged" in kedge("diagnose", "log", code=2).stderr


def test_diagnose_counts_the_lines_of_the_whole_file(kedge: Kedge) -> None:
    log = kedge.folder / "long.log"
    log.write_text("".join(f"step {number}\n" for number in range(1_500_000)) + "MemoryError\n")
    said = json.loads(kedge("diagnose", "--json", log).stdout)
    assert said["evidence"][0] == {"file": str(log), "line": 1_500_001, "text": "MemoryError"}


def test_diagnose_finds_a_traceback_long_before_the_end(kedge: Kedge) -> None:
    """Where the end of the log tells nothing, also in what is compressed."""
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
    log = f"start\n{trace}ModuleNotFoundError: No module named 'apex'\n" + "".join(
        f"item {n}\n" for n in range(1_500_000)
    )
    (kedge.folder / "log").write_text(log)
    (kedge.folder / "log.gz").write_bytes(gzip.compress(log.encode(), 1))
    for name in ("log", "log.gz"):
        said = json.loads(kedge("diagnose", "--json", "--exit-code", "9", name).stdout)
        assert said["cause"] == "missing_module"
        assert said["evidence"][0] == {"file": name, "line": 4, "text": "ModuleNotFoundError: No module named 'apex'"}


def test_diagnose_abstains_and_knows_success(kedge: Kedge) -> None:
    (kedge.folder / "log").write_text("epoch 1 done\n")
    assert "Nothing failed" in kedge("diagnose", "log").stdout
    assert json.loads(kedge("diagnose", "--json", "log").stdout)["cause"] == "none_success"
    assert json.loads(kedge("diagnose", "--json", "--exit-code", "1", "log").stdout)["cause"] == "unknown"
    assert json.loads(kedge("diagnose", "--json", "--exit-code", "-9", "log").stdout)["cause"] == "sigkill_unattributed"


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "empty"), (b" \n\n", "empty"), (b"\0" * 5000, "empty"), (bytes(range(256)) * 99, "not text"),
     ("ok\n".encode("utf-16"), "not text")],
)  # fmt: skip
def test_what_holds_no_text_is_not_judged(kedge: Kedge, content: bytes, why: str) -> None:
    (kedge.folder / "log").write_bytes(content)
    assert f"log: nothing to diagnose: it is {why}" in kedge("diagnose", "log", code=2).stderr
    assert json.loads(kedge("diagnose", "--json", "--exit-code", "1", "log").stdout)["cause"] == "unknown"


@pytest.mark.parametrize(
    ("log", "code"), [("OSError: [Errno 98] Address already in use", 10), (OOM, 11), ("Killed", 12), ("saved", 0)]
)
def test_the_exit_status_tells_a_script_whether_to_try_again(kedge: Kedge, log: str, code: int) -> None:
    (kedge.folder / "log").write_text(f"{log}\n")
    kedge("diagnose", "--exit-status", "log", code=code)
    kedge("diagnose", "log")


def test_diagnose_of_a_run_folder_gives_its_root_cause(kedge: Kedge) -> None:
    kedge("run", "-q", EXAMPLES / "fails.yaml", code=1)
    found = json.loads(kedge("diagnose", "--json", kedge.only_run()).stdout)
    assert (found["version"], found["task"], found["cause"]) == (1, "worker:2", "data_file_missing")
    assert kedge("diagnose", kedge.only_run()).stdout.startswith("Root cause  worker:2")
    kedge("rm", "fails")
    kedge("run", "-q", kedge.job("true"))
    assert kedge("diagnose", "--exit-status", kedge.only_run()).stdout == "Nothing failed (sure).\n"


def test_what_programs_get_of_a_failed_run(kedge: Kedge) -> None:
    job = kedge.job("exit 3", parameters={"lr": 0.1, "name": "a"}, jobRetryCount=1)
    kedge("run", "-q", "-p", "lr=0.5", job, code=1)
    run = kedge.only_run()
    shown = json.loads(kedge("show", "--json", run.name).stdout)
    assert (shown["version"], shown["parameters"]) == (1, {"lr": "0.5", "name": "a"})
    assert (shown["root"]["task"], shown["root"]["cause"], shown["cause"]) == ("worker:0", "unknown", "unknown")
    assert (shown["others"], shown["suspects"]) == ([], [])
    assert shown["folders"] == {"run": str(run), "code": str(run / "code"), "job_dir": str(run / "job-dir")}
    (task,) = shown["tasks"]
    assert (task["attempts"], task["tries"], task["folder"]) == (1, 2, str(run / "attempt-1" / "worker-0"))
    listed = json.loads(kedge("ps", "--json").stdout)
    assert (listed["cause"], listed["tasks"], listed["succeeded"]) == ("unknown", 1, 0)
    assert re.search(rf"^{run.name} +failed +0/1 .* not recognised *$", kedge("ps").stdout, re.MULTILINE)


def test_a_cause_that_is_not_recognised_comes_with_the_last_words(kedge: Kedge) -> None:
    done = kedge("run", "-q", kedge.job("echo so far; exit 3"), code=1)
    assert re.search(
        r"^Root cause  worker:0   not recognised: the command exited with code 3\nLast words  so far\nLog ",
        done.stdout, re.MULTILINE,
    )  # fmt: skip
    assert "unknown" not in done.stdout


def test_several_logs_are_tasks_of_one_job(kedge: Kedge) -> None:
    (kedge.folder / "rank0.log").write_text(
        "[rank0]: torch.distributed.DistBackendError: NCCL timeout\nRuntimeError: Connection closed by peer\n"
    )
    (kedge.folder / "rank1.log").write_text(f"{OOM}\n")
    found = json.loads(kedge("diagnose", "--json", "rank0.log", "rank1.log", "--exit-code", "1").stdout)
    assert (found["task"], found["cause"]) == ("rank1.log", "gpu_oom")
    assert sum(other["count"] for other in found["others"]) == 1


def test_a_line_of_the_script_is_told_as_that_of_the_job_file(on_engine: Kedge) -> None:
    kedge, commands = on_engine, ["echo '<% $parameters.two %>'", "if true; then\n  no-such-program\nfi"]
    job = kedge.job(commands, parameters={"two": "a\nb"})
    text = job.read_text()
    done = kedge("run", "-q", job, code=1)
    line = 1 + text[: text.index("no-such-program")].count("\n")
    told = rf"^ +{re.escape(str(job))}:{line}: no-such-program: (command )?not found$"
    assert re.search(told, done.stdout, re.MULTILINE)
    assert json.loads((kedge.only_run() / "report.json").read_text())["root"]["job_line"] == f"{job}:{line}"
