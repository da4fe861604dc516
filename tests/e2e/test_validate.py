"""kedge validate, plan and run about job files with errors and warnings."""

from __future__ import annotations

import json
import subprocess

from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge


def test_warnings_are_shown_by_every_command_that_reads_a_job(kedge: Kedge) -> None:
    job = kedge.job("echo done", roles={"worker": {"taskRetryCount": 3}})
    message = "taskRoles.worker.taskRetryCount: has no effect without 'extras.gangAllocation: false'"
    for command in (("validate",), ("plan",), ("run", "-q")):
        said = kedge(*command, job).stderr
        assert f"warning: {job}:" in said, command
        assert message in said, command
        assert (said.count("taskRetryCount") == 2) == (command[0] != "run")  # with its line, and briefly
    assert message.removeprefix("taskRoles") in kedge("validate", "--strict", job, code=2).stderr
    assert "1 error" not in kedge("validate", job).stderr


def test_a_run_shows_only_the_first_warnings(kedge: Kedge) -> None:
    job = kedge.job([f"echo {{{{ p{n} }}}} <% $parameters.p{n} %>" for n in range(9)], parameters=dict.fromkeys(
        (f"p{n}" for n in range(9)), 1))  # fmt: skip
    said = kedge("run", "-q", job).stderr
    assert said.count("warning: ") == 5
    assert "and 4 more warnings; see kedge validate" in said


def test_errors_come_with_the_warnings_in_the_order_of_the_file(kedge: Kedge) -> None:
    job = kedge.job("echo <% $params.lr %>", roles={"worker": {"taskRetryCount": 3}})
    said = kedge("validate", job, code=2).stderr
    assert said.index("error: ") != said.index("warning: ")
    assert said.endswith("1 error, 1 warning\n")


def test_json_is_for_editors_and_ci(kedge: Kedge) -> None:
    job = kedge.job("echo <% $params.lr %>", roles={"worker": {"taskRetryCount": 3}})
    told = json.loads(kedge("validate", "--json", job, code=2).stdout)
    assert told["version"] == 1
    assert [problem["severity"] for problem in told["problems"]] in (["error", "warning"], ["warning", "error"])
    (error,) = (problem for problem in told["problems"] if problem["severity"] == "error")
    assert set(error) == {"severity", "file", "line", "column", "path", "message", "suggestion"}
    assert (error["path"], error["suggestion"]) == ("taskRoles.worker.commands[0]", "<% $parameters.lr %>")
    assert job.read_text().split("\n")[error["line"] - 1][error["column"] - 1 :].startswith("<% $params.lr %>")


def test_json_is_json_whatever_the_file_is(kedge: Kedge) -> None:
    job = kedge.job("true")
    assert json.loads(kedge("validate", "--json", job).stdout) == {"version": 1, "problems": []}
    for content in (b"a: [1", b"\xff\xfe", b"", b"- 1\n", b"a: \x00"):
        job.write_bytes(content)
        (problem,) = json.loads(kedge("validate", "--json", job, code=2).stdout)["problems"]
        assert problem["file"] == str(job)
    (problem,) = json.loads(kedge("validate", "--json", "no/such.yaml", code=2).stdout)["problems"]
    assert (problem["line"], problem["message"]) == (None, "there is no such file")
    job = kedge.job("true")
    (problem,) = json.loads(kedge("validate", "--json", job, "-p", "a=1", code=2).stdout)["problems"]
    assert "no parameter is named 'a'" in problem["message"]
    told = json.loads(
        kedge("validate", "--json", "--strict", kedge.job("x", roles={"w": {"taskRetryCount": 1}}), code=2).stdout
    )
    assert [problem["severity"] for problem in told["problems"]] == ["error"]


def test_a_job_can_come_from_stdin(kedge: Kedge) -> None:
    (kedge.folder / "code").mkdir()
    (kedge.folder / "code" / "say.sh").write_text("echo from the code\n")
    code = {"name": "code", "type": "script", "uri": "./code"}
    job = kedge.job("sh say.sh", roles={"worker": {"script": "code"}}, prerequisites=[code], secrets={"a": "hidden!"})
    text = job.read_text()
    job.unlink()

    def pipe(*args: str, of: str = text) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            kedge.argv(args), input=of, cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True,
            timeout=TIMEOUT, check=False,
        )  # fmt: skip

    assert pipe("validate", "-").stdout == "<stdin>: job job: worker ×1\n"
    assert "sh say.sh" in pipe("plan", "-").stdout
    assert json.loads(pipe("lock", "-").stdout)["version"] == 1
    refused = pipe("validate", "-", of=text.replace("cpu", "cpus"))
    assert (refused.returncode, refused.stderr.startswith("error: <stdin>:")) == (2, True)
    started = pipe("run", "-d", "-")
    assert started.returncode == 0, started.stderr
    kedge("wait", started.stdout.strip())
    wait_until(lambda: kedge.task_log() == "from the code\n", TIMEOUT, "what the task says")
    assert kedge("show", "job", "--yaml").stdout.split("\n")[:3] == text.split("\n")[:3]
    assert 'secrets: "******"' in kedge("show", "job", "--yaml").stdout
    assert sorted(path.name for path in kedge.folder.iterdir() if path.suffix in (".lock", ".yaml")) == []
