"""The commands around a run: ps, show, logs, wait, rm, plan, schema, completion."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

from jsonschema import Draft202012Validator

from .conftest import EXAMPLES, Kedge


def test_ps_lists_runs_newest_first(kedge: Kedge) -> None:
    assert "no runs yet" in kedge("ps").stdout
    for name in ("first", "second"):
        kedge("run", "-q", kedge.job("true", name=name))
    names = re.findall(r"^(first|second)-\w{6} +succeeded +1/1", kedge("ps").stdout, re.MULTILINE)
    assert names == ["second", "first"]
    facts = [json.loads(line) for line in kedge("ps", "--json").stdout.splitlines()]
    assert [fact["state"] for fact in facts] == ["succeeded", "succeeded"]


def test_ps_knows_engines(kedge: Kedge) -> None:
    assert "there is no engine 'slrm'; did you mean 'slurm'?" in kedge("ps", "--engine", "slrm", code=2).stderr


def test_show_gives_the_summary_the_masked_file_and_json(kedge: Kedge) -> None:
    job = kedge.job("true", secrets={"token": "hunter2hunter2"}, description="kept")
    kedge("run", "-q", job)
    assert re.search(r"^worker:0 +succeeded", kedge("show", "job").stdout, re.MULTILINE)
    shown = kedge("show", "job", "--yaml").stdout
    assert 'secrets: "******"' in shown
    assert "description: kept" in shown
    status = json.loads(kedge("show", "job", "--json").stdout)
    assert (status["state"], status["tasks"][0]["exit_code"]) == ("succeeded", 0)


def test_errors_for_unknown_names_list_the_known_ones(kedge: Kedge) -> None:
    assert "there are no runs yet" in kedge("logs", "job", code=2).stderr
    kedge("run", "-q", kedge.job("true"))
    assert "did you mean job" in kedge("show", "jbo", code=2).stderr
    assert "its roles are worker (0 to 0)" in kedge("logs", "job", "worker:3", code=2).stderr
    assert "it has 1" in kedge("logs", "job", "--attempt", "2", code=2).stderr
    assert "no such file" in kedge("run", "nothing.yaml", code=2).stderr.lower()
    assert "kedge run" in kedge("hello.yaml", code=2).stderr


def test_a_run_that_is_named_twice_is_removed_once(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("true"))
    name = kedge.only_run().name
    assert kedge("rm", name, "job").stdout == f"{name} removed\n"
    assert kedge.runs() == []


def test_ps_counts_older_runs(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("true", name="again"))
    assert "older" not in kedge("ps").stderr
    first = kedge.only_run()
    for number in range(22):
        copy = shutil.copytree(first, kedge.jobs / f"again-copy{number:02}", symlinks=True)
        facts = json.loads((copy / "run.json").read_text())
        (copy / "run.json").write_text(json.dumps(facts | {"id": copy.name}))
    assert kedge("ps").stderr == "3 older not shown; see kedge ps --all\n"
    assert len(kedge("ps", "--all").stdout.splitlines()) == 1 + 23


def test_plan_shows_variables_on_a_line_each(kedge: Kedge) -> None:
    extras = {"kedge": {"env": {"A": "one\ntwo\x1b[2J", "B": "job"}, "taskRoles": {"worker": {"env": {"B": "role"}}}}}
    options = ("--env", "C=given", "--env", "TAKEN")
    shown = kedge("plan", kedge.job("true", extras=extras), *options, TAKEN="hunter2hunter2").stdout
    rows = ["A=one^Jtwo^[[2J", "B=role", "C=given", "TAKEN=(the submitter's $TAKEN)"]
    assert [line[16:] for line in shown.split("\n") if "=" in line] == rows


def test_long_values_are_cut_where_people_read_them(kedge: Kedge) -> None:
    long = "x" * 20_000
    job, options = kedge.job("true", parameters={"p": 1}), ("-p", f"p={long}", "--env", f"A={long}")
    kedge("run", job, *options)
    for text in (kedge("plan", job, *options).stdout, kedge("show", "job").stdout):
        assert "x… (20,002 characters)" in text
        assert len(text) < 5000
    assert json.loads(kedge("show", "job", "--json").stdout)["options"]["env"] == {"A": long}


def test_plan_shows_roles_commands_and_one_task(kedge: Kedge) -> None:
    text = kedge("plan", EXAMPLES / "digits.yaml", "-p", "epochs=3").stdout
    assert "worker ×3" in text
    assert "python worker.py --epochs 3 --batch-size 16" in text
    assert "transient failures up to 10 times, others never (jobRetryCount is 0)" in text
    task = kedge("plan", EXAMPLES / "digits.yaml", "--task", "worker:2").stdout
    assert f"starts in     its own copy of {EXAMPLES}/digits" in task
    assert "KEDGE_OUTPUT_DIR for results" in task
    assert "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=2" in task
    plan = json.loads(kedge("plan", EXAMPLES / "digits.yaml", "--json").stdout)
    assert [role["name"] for role in plan["roles"]] == ["ps", "worker"]
    assert plan["codeMode"] == "private"
    spec = json.loads(kedge("plan", EXAMPLES / "digits.yaml", "--json", "--task", "ps-0").stdout)
    assert spec["environment"]["PAI_CURRENT_TASK_ROLE_NAME"] == "ps"
    assert (
        "it has ps:0 to ps:0, worker:0 to worker:2"
        in kedge("plan", EXAMPLES / "digits.yaml", "--task", "w:1", code=2).stderr
    )
    assert kedge.runs() == []


def test_plan_and_show_name_stops_and_time_limits(kedge: Kedge) -> None:
    settings = {
        "timeLimit": "8h",
        "warnBefore": "5m",
        "stop": {"graceSec": "90s"},
        "taskRoles": {"worker": {"attemptTimeLimit": "1h30m", "stop": {"signal": "INT", "target": "command"}}},
    }
    job = kedge.job("true", extras={"kedge": settings})
    printed = " ".join(kedge("plan", job).stdout.split())
    kedge("run", "-q", job)
    shown = " ".join(kedge("show", "job").stdout.split())
    for text in ("8 h for the whole run", "1 h 30 min for each attempt", "beforeStop hooks run 5 min before the end"):
        assert text in printed
        assert text in shown
    assert "stop SIGTERM, then SIGKILL after 1 min 30 s time limit 8 h for the whole run" in printed
    assert "stop SIGINT to the command's own process, then SIGKILL after 1 min 30 s" in printed
    limits = json.loads(kedge("show", "job", "--json").stdout)["time_limits"]
    assert (limits["run_sec"], limits["roles"][0]["attempt_sec"]) == (28800.0, 5400.0)


def test_a_plan_never_shows_a_secret(kedge: Kedge) -> None:
    job = kedge.job("echo <% $secrets.token %>", secrets={"token": "hunter2hunter2"})
    for options in ((), ("--json",), ("--task", "worker:0"), ("--task", "worker:0", "--json")):
        shown = kedge("plan", job, *options).stdout
        assert "<% $secrets.token %>" in shown
        assert "hunter2" not in shown


def test_schema_is_a_valid_json_schema_that_accepts_the_examples(kedge: Kedge) -> None:
    schema = json.loads(kedge("schema").stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


def test_completion_scripts_are_understood_by_bash(kedge: Kedge) -> None:
    script = kedge("completion", "bash").stdout
    kedge("run", "-q", kedge.job("true"))
    name = kedge.only_run().name
    shell = f"{script}\ncomplete -p kedge"
    assert "kedge" in subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout
    words = {"COMP_WORDS": "kedge show jo", "COMP_CWORD": "2", "_KEDGE_COMPLETE": "bash_complete"}
    assert name in kedge(**words).stdout
    words |= {"COMP_WORDS": "kedge logs job work", "COMP_CWORD": "3"}
    assert kedge(**words).stdout == "plain,worker\nplain,worker-0\n"


def test_output_into_a_closed_pipe_is_not_an_error(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("seq 200000"))
    process = kedge.start("logs", "job", "worker:0")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_version_and_help(kedge: Kedge) -> None:
    assert re.fullmatch(r"kedge \d+\.\d+\.\d+\n", kedge("--version").stdout)
    listed = kedge("--help").stdout
    for command in ("run", "validate", "plan", "ps", "show", "logs", "wait", "stop", "rm", "schema", "completion"):
        assert re.search(rf"^  {command} +\w", listed, re.MULTILINE), command
