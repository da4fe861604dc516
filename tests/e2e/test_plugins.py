"""Plugins in real runs: from packages, on PATH, and the downloads of the built-in ones."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .conftest import EXAMPLES, Kedge

TOKEN = "a-token-that-nobody-may-see"


def item(name: str, plugin: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": "script", "plugin": plugin, **keys}


def job(kedge: Kedge, commands: str | list[str], *items: dict[str, Any], **keys: Any) -> Path:
    roles = {"worker": {"prerequisites": [each["name"] for each in items]}}
    return kedge.job(commands, roles=roles, prerequisites=list(items), **keys)


def runtime_log(kedge: Kedge) -> str:
    return (kedge.only_run() / "attempt-0" / "worker-0" / "runtime.log").read_text()


def everything_in(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def report(kedge: Kedge) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((kedge.only_run() / "attempt-0" / "worker-0" / "report.json").read_text())
    return found


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A PYTHONPATH with the example package and the metadata by which its plugin is found."""
    source = EXAMPLES / "plugin-package"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    about = tmp_path / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [f"{name} = {place}" for name, place in project["entry-points"]["kedge.plugins"].items()]
    (about / "entry_points.txt").write_text("\n".join(["[kedge.plugins]", *points]))
    return os.pathsep.join([str(source / "src"), str(about.parent), *filter(None, [os.environ.get("PYTHONPATH")])])


def wheel(folder: Path) -> Path:
    """A package `greeting` to install."""
    path = folder / "greeting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("greeting.py", "text = 'installed'\n")
        about = "greeting-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", f"greeting.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return path


def test_the_example_package_installs_what_the_job_names(kedge: Kedge, package: str, tmp_path: Path) -> None:
    index = "https://user:<% $secrets.token %>@127.0.0.1:9/simple"
    pip = item("packages", "pip", packages=[str(wheel(tmp_path))], index=index)
    commands = [
        "PYTHONPATH=$PIP_TARGET python3 -c 'import greeting; print(greeting.text)'",
        'echo "version check: $PIP_DISABLE_PIP_VERSION_CHECK"; stat -c %a .kedge-pip/pip.conf',
    ]
    path = job(kedge, commands, pip, secrets={"token": TOKEN})
    target = str(tmp_path / "target")
    done = kedge("run", path, PYTHONPATH=package, PIP_TARGET=target)
    assert "installed" in done.stdout
    assert "version check: 1" in done.stdout
    assert "600" in done.stdout
    config = (kedge.only_run() / "attempt-0" / "worker-0" / "work" / ".kedge-pip" / "pip.conf").read_text()
    assert config == f"[global]\nindex-url = https://user:{TOKEN}@127.0.0.1:9/simple\n"


def test_the_example_executable_writes_the_events(kedge: Kedge) -> None:
    path = f"{EXAMPLES / 'plugin-executable'}:{kedge.environment['PATH']}"
    kedge("run", job(kedge, "echo $TIMELINE; exit 3", item("times", "timeline", file="t.txt")), code=1, PATH=path)
    work = kedge.only_run() / "attempt-0" / "worker-0" / "work"
    events = [line.split()[1] for line in (work / "t.txt").read_text().splitlines()]
    assert events == ["taskStarts", "taskFails", "containerExit"]
    assert "t.txt" in kedge.task_log()


def test_a_hook_is_retried_as_its_item_declares(kedge: Kedge) -> None:
    flaky = item("flaky", "cmd", preCommands=["echo x >> tries", "test $(wc -l < tries) -eq 3"], retry={"max": 2})
    kedge("run", job(kedge, "wc -l < tries", flaky))
    assert kedge.task_log().strip() == "3"


def test_a_hook_is_ended_at_its_time_limit(kedge: Kedge) -> None:
    slow = item("slow", "cmd", preCommands=["sleep 600"], timeoutSec=1, retry={"max": 1})
    kedge("run", job(kedge, "echo never", slow), code=1)
    (hook,) = report(kedge)["hooks"]
    assert (hook["step"], hook["tries"]) == ("slow", 2)
    assert kedge.task_log() == ""


def test_an_ignored_parameter_error_is_a_note_and_the_job_runs(kedge: Kedge) -> None:
    done = kedge("run", job(kedge, "echo ran", item("code", "git", failurePolicy="ignore")))
    assert done.stderr.count("the parameter 'repo_uri' is missing") == 1
    assert "ran" in done.stdout


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A repository with two commits, and the id of the first."""
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q")
    for text in ("first", "second"):
        (folder / "src" / "text").write_text(text)
        (folder / ".hidden").write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", text)
    return folder, git(folder, "rev-parse", "HEAD~1")


def test_git_clones_a_commit_with_all_its_files(kedge: Kedge, repository: tuple[Path, str]) -> None:
    folder, first = repository
    code = item("code", "git", repo_uri=f"file://{folder}", clone_dir="code", commit=first)
    kedge("run", job(kedge, "cat code/src/text code/.hidden", code))
    assert "firstfirst" in kedge.task_log()


def test_a_missing_repository_fails_the_task_and_names_the_item(kedge: Kedge, tmp_path: Path) -> None:
    code = item("code", "git", repo_uri=f"file://{tmp_path}/nowhere", clone_dir="code")
    kedge("run", job(kedge, "echo never", code), code=1)
    (hook,) = report(kedge)["hooks"]
    assert (hook["step"], hook["policy"]) == ("code", "fail")
    assert kedge.task_log() == ""
    assert "nowhere" in runtime_log(kedge)


class Files(SimpleHTTPRequestHandler):
    """Serves a folder without logging; `private` needs the token."""

    def do_GET(self) -> None:
        known = base64.b64encode(f"me:{TOKEN}".encode()).decode()
        if self.path.startswith("/private/") and self.headers["Authorization"] != f"Basic {known}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder that is served over HTTP, and its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def private(repository: Path, folder: Path) -> None:
    """Put the repository where it can be cloned only with the token."""
    (folder / "private").mkdir()
    git(folder, "clone", "-q", "--bare", str(repository), "private/code.git")
    git(folder / "private" / "code.git", "update-server-info")


def test_a_private_repository_is_cloned_and_its_token_is_stored_nowhere(
    kedge: Kedge, repository: tuple[Path, str], served: tuple[Path, str]
) -> None:
    private(repository[0], served[0])
    address = f"{served[1]}/private/code.git"
    code = item("code", "git", repo_uri=address, clone_dir="code", username="me", token="<% $secrets.token %>")
    path = job(
        kedge,
        ["cat code/src/text code/.git/config; env"],
        code,
        secrets={"token": TOKEN},
        extras={"kedge": {"mask": False}},
    )
    kedge("run", path)
    assert "second" in kedge.task_log()
    assert TOKEN.encode() not in everything_in(kedge.only_run())


def test_without_the_token_a_private_repository_fails_at_once(
    kedge: Kedge, repository: tuple[Path, str], served: tuple[Path, str]
) -> None:
    private(repository[0], served[0])
    code = item("code", "git", repo_uri=f"{served[1]}/private/code.git", clone_dir="code")
    kedge("run", job(kedge, "echo never", code), code=1)
    assert (report(kedge)["hooks"][0]["tries"], kedge.task_log()) == (1, "")
    assert "401" in runtime_log(kedge) or "could not read Username" in runtime_log(kedge)


def archive(**files: str) -> bytes:
    """A .tar.gz of these files and their texts."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{name}.txt")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def data(name: str, uri: str | list[str], **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": "data", "uri": uri, **keys}


def caches(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_data_is_downloaded_checked_and_unpacked(kedge: Kedge, served: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = served
    content = archive(train="the data")
    (folder / "set.tar.gz").write_bytes(content)
    with zipfile.ZipFile(folder / "more.zip", "w") as more:
        more.writestr("test.txt", "more data")
    (folder / "one.csv").write_text("1,2\n")
    (folder / "two.csv").write_text("3,4\n")
    digest = hashlib.sha256(content).hexdigest()
    items = [
        data("set", f"{address}/set.tar.gz", sha256=digest, path="set"),
        data("tables", [f"{address}/one.csv", f"{address}/two.csv"], path="tables"),
        data("both", [f"{address}/set.tar.gz", f"{address}/more.zip"], path="both"),
        data("only-named", [f"{address}/no.csv"]),
    ]
    kedge(
        "run",
        job(kedge, ["cat set/train.txt tables/one.csv tables/two.csv", "ls both; ls"], *items),
        **caches(tmp_path),
    )
    assert "the data1,2\n3,4\ntest.txt\ntrain.txt\n" in kedge.task_log()
    assert "no.csv" not in kedge.task_log()


def test_data_with_a_wrong_checksum_fails_the_task(kedge: Kedge, served: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = served
    (folder / "one.csv").write_text("1,2\n")
    wrong = data("table", f"{address}/one.csv", sha256="0" * 64, path="one.csv")
    kedge("run", job(kedge, "echo never", wrong), code=1, **caches(tmp_path))
    assert report(kedge)["hooks"][0]["step"] == "table"
    assert f"not {'0' * 64}" in runtime_log(kedge)
    assert kedge.task_log() == ""
    assert not os.path.exists(kedge.only_run() / "attempt-0" / "worker-0" / "work" / "one.csv")


def test_ignored_missing_data_lets_the_job_run(kedge: Kedge, served: tuple[Path, str], tmp_path: Path) -> None:
    missing = data("table", f"{served[1]}/no.csv", path="no.csv", failurePolicy="ignore")
    kedge("run", job(kedge, "echo ran", missing), **caches(tmp_path))
    assert kedge.task_log().strip() == "ran"
    assert report(kedge)["hooks"][0]["policy"] == "ignore"
    assert "HTTP Error 404" in runtime_log(kedge)
