"""The git action on real repositories: local ones, and behind an HTTP server that misbehaves."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
from pathlib import Path

import pytest

from kedge import contract
from kedge.contract import Action, Callback, SecretRef, Step
from kedge.testing.wait import wait_until

QUICK = {"tries": 3, "first_sec": 0.01, "cap_sec": 0.02}
TOKEN = "t0ken&with=signs/é"


def git(*arguments, cwd):
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        cwd=cwd, check=True, capture_output=True, text=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
    ).stdout.strip()  # fmt: skip


@pytest.fixture
def repository(tmp_path):
    """A repository with three commits, a folder, a dot file and a branch; `update-server-info` lets HTTP serve it."""
    work = tmp_path / "origin"
    work.mkdir()
    git("init", "-q", "-b", "main", cwd=work)
    for number in (1, 2, 3):
        (work / "file").write_text(f"{number}\n")
        (work / ".hidden").write_text("dot")
        for folder in ("a", "b"):
            (work / folder).mkdir(exist_ok=True)
            (work / folder / "inside").write_text(str(number))
        git("add", ".", cwd=work)
        git("commit", "-q", "-m", str(number), cwd=work)
    git("branch", "side", "HEAD~1", cwd=work)
    git("update-server-info", cwd=work)
    return work


@pytest.fixture
def clone(attempt, tmp_path):
    """Run an attempt whose only step clones; return its status and the path of the clone."""

    def run(policy="fail", **parameters):
        target = str(tmp_path / "code")
        action = Action("git", {"clone_dir": target, "patience": QUICK, **parameters})
        steps = (Step("sources", (Callback("taskStarts", action=action),), policy),)
        home = {"HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": "/dev/null"}
        attempt.spec = attempt.spec._replace(steps=steps, environment={**home, **attempt.spec.environment})
        return attempt.run("true"), Path(target)

    return run


def left_aside(tmp_path):
    return [path.name for path in tmp_path.iterdir() if ".kedge-" in path.name]


def test_everything_is_moved_including_dot_files(clone, repository, tmp_path):
    status, target = clone(repo_uri=str(repository))
    assert status == 0
    assert {path.name for path in target.iterdir()} == {".git", ".hidden", "file", "a", "b"}
    assert git("status", "--porcelain", cwd=target) == ""
    assert not left_aside(tmp_path)


def test_the_default_place(attempt, clone, repository):
    assert clone(repo_uri=str(repository), clone_dir="")[0] == 0
    assert (attempt.folder / "pai/code/file").read_text() == "3\n"


@pytest.mark.parametrize("existing", ["empty", "link"])
def test_the_target_may_be_an_empty_folder(clone, repository, tmp_path, existing):
    (tmp_path / "real").mkdir()
    (tmp_path / "code").symlink_to("real") if existing == "link" else (tmp_path / "code").mkdir()
    assert clone(repo_uri=str(repository))[0] == 0
    assert (tmp_path / "code/.hidden").exists()
    assert (tmp_path / "code").is_symlink() == (existing == "link")


def test_a_folder_that_is_not_empty_is_left_alone(attempt, clone, repository, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/mine").touch()
    status, target = clone(repo_uri=str(repository))
    assert status == 255
    assert f"destination path '{target}' already exists and is not an empty directory." in attempt.report["message"]
    assert attempt.report["diagnosis"]["cause"] == "output_path_error"
    assert os.listdir(target) == ["mine"]


@pytest.mark.parametrize("depth", [None, 1])
@pytest.mark.parametrize("name", ["HEAD~1", "side", "v1"])
def test_a_commit_a_branch_and_a_tag(clone, repository, depth, name):
    git("tag", "v1", "HEAD~1", cwd=repository)
    commit = git("rev-parse", "HEAD~1", cwd=repository)
    options = {"depth": depth} if depth else {}
    uri = f"file://{repository}"
    status, target = clone(repo_uri=uri, commit=commit if name == "HEAD~1" else name, **options)
    assert status == 0
    assert git("rev-parse", "HEAD", cwd=target) == commit
    assert git("rev-list", "--count", "HEAD", cwd=target) == ("1" if depth else "2")


def test_a_commit_that_does_not_exist(attempt, clone, repository):
    assert clone(repo_uri=str(repository), commit="5" * 40)[0] == 255
    assert attempt.report["diagnosis"]["cause"] == "bad_config"
    assert attempt.report["hooks"][0]["tries"] == 1


def test_options_depth_and_sparse(clone, repository):
    status, target = clone(repo_uri=f"file://{repository}", options=["--depth 1", "--branch side"], sparse=["a"])
    assert status == 0
    assert (target / "a/inside").read_text() == "2"
    assert not (target / "b").exists()
    assert git("rev-list", "--count", "HEAD", cwd=target) == "1"


def test_submodules(attempt, clone, repository, tmp_path):
    outer = tmp_path / "outer"
    outer.mkdir()
    git("init", "-q", cwd=outer)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "sub", cwd=outer)
    git("commit", "-q", "-m", "1", cwd=outer)
    allow = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    attempt.spec = attempt.spec._replace(environment=allow)
    status, target = clone(repo_uri=str(outer), submodules=True)
    assert status == 0
    assert (target / "sub/file").read_text() == "3\n"


def test_a_missing_repository_is_not_retried(attempt, clone, web):
    assert clone(repo_uri=f"{web.url}/none.git")[0] == 255
    assert attempt.report["diagnosis"]["cause"] == "bad_config"
    assert len(web.requests) == 1


def test_the_line_with_the_reason_is_quoted(attempt, clone, tmp_path):
    assert clone(repo_uri=f"file://{tmp_path}/none.git")[0] == 255
    assert attempt.report["diagnosis"]["cause"] == "bad_config"
    assert "does not appear to be a git repository" in attempt.report["diagnosis"]["evidence"][0]["text"]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_transient_failures_are_retried(attempt, clone, repository, web, status):
    web.folder = repository
    web.answers = [status] * 2
    assert clone(repo_uri=f"{web.url}/.git")[0] == 0
    assert any(f"returned error: {status} (try 1 of 3, the next one in" in line for line in attempt.log)
    assert any("(try 2 of 3" in line for line in attempt.log)


def test_transient_failures_at_every_try_end_with_250(attempt, clone, web):
    web.answers = [429] * 100
    status, target = clone(repo_uri=f"{web.url}/x.git")
    assert status == attempt.report["exit_code"] == 250
    assert "429" in attempt.report["message"]
    assert "(given up after 3 tries)" in attempt.report["message"]
    assert attempt.report["reason"] == contract.HOOK_FAILED
    assert len(web.requests) == 3
    diagnosis = attempt.report["diagnosis"]
    assert (diagnosis["cause"], diagnosis["behavior"]) == ("network_transient", "transient")
    assert "sources" in diagnosis["frame"]
    assert "exitCode: 250" in (attempt.folder / contract.TERMINATION_LOG).read_text()
    assert not target.exists()


def test_transient_failures_at_every_try_can_be_ignored(attempt, clone, web):
    web.answers = [429] * 100
    assert clone(policy="ignore", repo_uri=f"{web.url}/x.git")[0] == 0
    assert attempt.report["hooks"][0]["code"] == 250


def test_a_name_that_cannot_be_resolved_is_tried_three_times(attempt, clone):
    patience = {**QUICK, "tries": 8}
    assert clone(repo_uri="http://no-such-host.invalid/x.git", patience=patience)[0] == 250
    assert attempt.report["diagnosis"]["cause"] == "network_unreachable"
    assert "(given up after 3 tries)" in attempt.report["message"]


@pytest.mark.parametrize("form", ["token", "username", "in the address"])
def test_credentials_reach_the_server_and_nothing_else(attempt, clone, repository, web, tmp_path, form):
    web.folder = repository
    name = "me" if form != "token" else "x-access-token"
    web.password = base64.b64encode(f"{name}:{TOKEN}".encode()).decode()
    secrets = tmp_path / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / contract.SECRET_VALUES).write_text(f'{{"t": "{TOKEN}", "q": "{QUOTED}"}}')
    attempt.spec = attempt.spec._replace(secrets_dir=str(secrets))
    token = {"text": [SecretRef("t", "<% $secrets.t %>")._asdict()]}
    parameters = {"repo_uri": f"{web.url}/.git", "token": token}
    if form == "username":
        parameters["username"] = "me"
    if form == "in the address":
        address = ["http://me:", SecretRef("q", "<% $secrets.q %>")._asdict(), f"@{web.address}/.git"]
        parameters = {"repo_uri": {"text": address}}
    status, target = clone(**parameters)
    assert status == 0
    assert web.authorised > 3
    assert web.seen, "the server has looked at the processes"
    for needle in (TOKEN, QUOTED):
        assert not [what for what in web.seen if needle.encode() in what]
        for folder in (attempt.folder, target):
            assert not [p for p in folder.rglob("*") if p.is_file() and needle.encode() in p.read_bytes()]


QUOTED = "t0ken%26with%3Dsigns%2F%C3%A9"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"repo_uri": "http://[::1/x.git"}, "is not a valid address: Invalid IPv6 URL"),
        ({"repo_uri": "https://localhost:99999/x.git"}, "is not a valid address: Port out of range"),
        ({"repo_uri": "ssh://localhost:99999/x.git"}, "is not a valid address: Port out of range"),
        ({"repo_uri": "git://localhost:port/x.git"}, "is not a valid address: Port could not be cast"),
        ({"repo_uri": "https://a..b/x.git"}, "is not a valid host name"),
        ({"repo_uri": "https://localhost/\x1b[2J"}, "control character"),
        ({"repo_uri": "none://localhost/x.git"}, "'remote-none' is not a git command"),
        ({"options": ["--depth 1 '"]}, "the git option '--depth 1 '' cannot be parsed: No closing quotation"),
        ({"options": ["--depth\0"]}, "git cannot take the argument '--depth\\x00': it has a NUL character"),
        ({"commit": "\ud800"}, "surrogates not allowed"),
        ({"clone_dir": "a\0b"}, "is not a valid path: embedded null byte"),
        ({"repo_uri": "https://a:b%0Ahost=c@localhost/x.git"}, "has several lines"),
    ],
)
def test_invalid_parameters_of_git(attempt, clone, repository, parameters, message):
    assert clone(**{"repo_uri": str(repository), **parameters})[0] == 255
    assert message in attempt.report["message"]
    assert "a bug in kedge" not in "\n".join(attempt.log)
    assert attempt.report["diagnosis"]["cause"] == "bad_config"
    assert attempt.report["hooks"][0]["tries"] == 1


def test_a_token_may_end_with_a_newline(clone, repository, web):
    web.folder = repository
    web.password = base64.b64encode(b"x-access-token:secret").decode()
    assert clone(repo_uri=f"{web.url}/.git", token="secret\r\n")[0] == 0


def test_wrong_credentials_are_not_retried(attempt, clone, repository, web):
    web.folder = repository
    web.password = "somethingelse"
    assert clone(repo_uri=f"{web.url}/.git", token="wrong")[0] == 255
    assert attempt.report["diagnosis"]["cause"] == "remote_access_denied"
    assert len(web.requests) == 2
    assert clone(repo_uri=f"{web.url}/.git")[0] == 255


def test_a_secret_in_the_options_is_refused(attempt, clone, repository, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / contract.SECRET_VALUES).write_text('{"t": "abc"}')
    attempt.spec = attempt.spec._replace(secrets_dir=str(secrets))
    option = {"text": ["-c http.extraHeader=", SecretRef("t", "<% $secrets.t %>")._asdict()]}
    assert clone(repo_uri=str(repository), options=[option])[0] == 255
    assert "would be visible to everybody" in attempt.report["message"]


def test_without_git(attempt, clone, repository, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bash").symlink_to("/bin/bash")
    attempt.spec = attempt.spec._replace(environment={"PATH": str(tmp_path / "bin")})
    status, _ = clone(repo_uri=str(repository))
    assert (status, attempt.report["user_exit_code"]) == (255, 127)
    assert "git is not installed" in attempt.report["message"]
    assert attempt.report["diagnosis"]["cause"] == "command_not_found"


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def start_and_hang(attempt, clone_dir, web):
    action = Action("git", {"repo_uri": f"{web.url}/.git", "clone_dir": str(clone_dir), "patience": QUICK})
    attempt.spec = attempt.spec._replace(steps=(Step("sources", (Callback("taskStarts", action=action),)),))
    web.hang_after = 2
    attempt.start("true")
    wait_until(lambda: len(web.requests) > 2)
    assert left_aside(clone_dir.parent)
    assert not clone_dir.exists()


def test_a_stop_in_the_middle_leaves_nothing(attempt, repository, web, tmp_path):
    web.folder = repository
    start_and_hang(attempt, tmp_path / "code", web)
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert not (tmp_path / "code").exists()
    assert not left_aside(tmp_path)


def test_the_next_clone_removes_the_leftovers_of_a_killed_one(attempt, clone, repository, web, tmp_path):
    web.folder = repository
    start_and_hang(attempt, tmp_path / "code", web)
    (action,) = children(attempt.process.pid)
    os.killpg(action, signal.SIGKILL)
    assert attempt.wait() == 137
    assert not (tmp_path / "code").exists()
    web.hang_after = 1000
    assert clone(repo_uri=f"{web.url}/.git")[0] == 0
    assert (tmp_path / "code/file").read_text() == "3\n"
    assert not left_aside(tmp_path)
