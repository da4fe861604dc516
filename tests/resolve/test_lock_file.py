"""Lock files and the cache: changes are refused, locked documents are available offline, and writes are atomic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import Action, Callback, Step
from kedge.errors import InputError, Problem
from kedge.resolve import pins
from kedge.resolve.document_cache import DocumentCache, default_folder, digest
from kedge.resolve.lock_file import Lock, Pin, Repository, load, lock_path, save
from kedge.resolve.sources import git, pinning, registry
from kedge.testing.wait import wait_until

from .conftest import Folder, Server, as_text, echo, scripts

A = "marketplace://name/a"


class Locked:
    """A job in a folder whose only item is in a marketplace; `lock` writes its current lock file."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.file = folder.path / "job.lock"
        self.item("echo 1")

    def item(self, line: str, **keys: Any) -> None:
        self.folder.write("market/a.yaml", echo("a", line, **keys))

    def resolve(self, **inputs: Any) -> Any:
        return self.folder.resolve([A], {"marketplace": str(self.folder.path / "market"), **inputs})

    def lock(self) -> None:
        save(str(self.file), self.resolve(update_lock=("all",)).lock.new)

    def problem(self, **inputs: Any) -> Problem:
        return self.folder.problem([A], {"marketplace": str(self.folder.path / "market"), **inputs})


@pytest.fixture
def locked(folder: Folder) -> Locked:
    made = Locked(folder)
    made.lock()
    return made


def test_the_lock_file_names_source_version_and_content(folder: Folder, server: Server) -> None:
    items = [echo("x", version="1.0")]
    url = server.serve("/x.yaml", items)
    folder.write("local.yaml", echo("l"))
    state = folder.resolve([f"{url}#x", "./local.yaml"]).lock
    assert state.old is None
    assert state.path == str(folder.path / "job.lock")
    sha256 = digest((folder.path / "local.yaml").read_bytes())
    assert state.new.to_json() == {
        "version": 1,
        "items": {url: {"identity": url, "source": url, "sha256": digest(as_text(url, items).encode())}},
        "files": {"local.yaml": sha256},
        "git": {},
        "images": {},
    }


def test_an_item_alone_in_its_document_gives_its_own_version(locked: Locked) -> None:
    locked.item("echo 1", version="1.0")
    locked.lock()
    assert locked.resolve().lock.new.items[A].version == locked.resolve(offline=True).lock.new.items[A].version == "1.0"
    locked.item("echo 2", version="1.1")
    assert "(version" not in locked.problem().message.partition("\n")[0]


def test_a_lock_file_reads_back_and_does_not_depend_on_the_working_directory(locked: Locked, tmp_path: Path) -> None:
    lock = load(str(locked.file))
    assert lock is not None
    assert lock.to_json() == json.loads(locked.file.read_text())
    assert lock.items[A].source == "market/a.yaml"
    assert locked.resolve().lock.new == lock


def test_changed_content_is_refused_until_it_is_accepted(locked: Locked) -> None:
    locked.item("echo 2", version=2)
    problem = locked.problem()
    first, *rest = problem.message.split("\n")
    assert (
        first == f"Prerequisite {A}: it has changed since job.lock was written; accept the change with --update-lock a"
    )
    assert [line.strip() for line in rest] == ["-  - echo 1", "+  - echo 2", "+version: 2"]
    for accepted in ("a", A, "all"):
        job = locked.resolve(update_lock=(accepted,))
        assert scripts(job) == {"a": "echo 2\n"}
        assert job.lock.new != job.lock.old
    assert locked.problem(update_lock=("b",))


def test_an_unused_update_lock_name_is_an_error(locked: Locked) -> None:
    with pytest.raises(InputError, match="--update-lock b: the job uses nothing of that name from outside its file"):
        locked.resolve(update_lock=("a", "b"))


def test_a_changed_version_is_reported(folder: Folder) -> None:
    made = Locked(folder)
    index: dict[str, Any] = {"items": [{"id": 1, "name": "a", "path": "a.yaml", "version": 1}]}
    folder.write("market/index.json", index)
    made.lock()
    index["items"][0]["version"] = 2
    folder.write("market/index.json", index)
    made.item("echo 2")
    assert "(version 1 is now 2)" in made.problem().message


def test_a_new_item_is_used_with_a_note(locked: Locked) -> None:
    locked.folder.write("market/b.yaml", echo("b"))
    job = locked.folder.resolve([A, "marketplace://name/b"], {"marketplace": str(locked.folder.path / "market")})
    assert job.notes == ("marketplace://name/b is not in job.lock yet; run 'kedge lock' to add it",)


def test_a_changed_local_file_gives_only_a_note(folder: Folder) -> None:
    folder.write("l.yaml", echo("l"))
    save(str(folder.path / "job.lock"), folder.resolve(["./l.yaml"]).lock.new)
    assert folder.resolve(["./l.yaml"]).notes == ()
    folder.write("l.yaml", echo("l", "echo 2"))
    job = folder.resolve(["./l.yaml"])
    assert job.notes == (f"{folder.path}/l.yaml has changed since job.lock was written",)
    assert job.lock.new.files["l.yaml"] == digest((folder.path / "l.yaml").read_bytes())


def test_offline_everything_comes_from_the_cache(locked: Locked) -> None:
    (locked.folder.path / "market/a.yaml").unlink()
    job = locked.resolve(offline=True)
    assert scripts(job) == {"a": "echo 1\n"}
    assert job.lock.new == job.lock.old
    assert "does not exist" in locked.problem().message


def test_a_locked_job_runs_offline_if_the_server_fails(folder: Folder, server: Server) -> None:
    url = server.serve("/x.yaml", echo("x"))
    save(str(folder.path / "job.lock"), folder.resolve([url]).lock.new)
    server.serve("/x.yaml", "", status=503)
    hint = "use --offline to take the locked version from the cache"
    assert hint in folder.problem([url]).message
    assert scripts(folder.resolve([url], {"offline": True})) == {"x": "echo x\n"}
    (folder.path / "job.lock").unlink()
    assert hint not in folder.problem([url]).message


def test_offline_needs_the_lock_file_and_the_cache(locked: Locked) -> None:
    cache = DocumentCache(locked.folder.path / "cache")
    (entry,) = cache.entries()
    (cache.folder / entry.sha256).write_bytes(b"name: damaged")
    assert "not in the cache" in locked.problem(offline=True).message
    assert cache.entries() == []
    assert scripts(locked.resolve()) == {"a": "echo 1\n"}
    assert scripts(locked.resolve(offline=True)) == {"a": "echo 1\n"}
    locked.file.unlink()
    assert "run 'kedge lock' to add it" in locked.problem(offline=True).message


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "3", '{"version": 2}', '{"version": 1, "items": {"a": {}}}', "[" * 100_000]
)
def test_an_invalid_lock_file_is_an_error(folder: Folder, content: str) -> None:
    folder.write("job.lock", content)
    with pytest.raises(
        InputError, match=r"job\.lock\S*: this lock file cannot be read .*run 'kedge lock' to write a new one"
    ):
        folder.resolve([])


def test_a_lock_file_is_written_atomically(folder: Folder) -> None:
    file = folder.write("job.lock", "old")
    os.chmod(folder.path, 0o500)
    try:
        with pytest.raises(OSError, match="Permission denied") if os.getuid() else pytest.raises(NotADirectoryError):
            save(str(file) if os.getuid() else str(file / "x"), Lock())
    finally:
        os.chmod(folder.path, 0o700)
    assert file.read_text() == "old"
    assert list(folder.path.iterdir()) == [file]
    assert lock_path("a/b.c/job.yaml") == "a/b.c/job.lock"


# The cache.


def test_the_cache_keeps_and_prunes(tmp_path: Path) -> None:
    cache = DocumentCache(tmp_path / "deep" / "cache")
    assert cache.get("0" * 64) is None
    assert cache.entries() == cache.prune() == []
    for data in (b"old", b"new"):
        cache.put(data)
        cache.put(data)
    os.utime(cache.folder / digest(b"old"), (0, 0))
    assert [entry.sha256 for entry in cache.entries()] == [digest(b"new"), digest(b"old")]
    assert [entry.size for entry in cache.prune(unused_sec=3600)] == [3]
    assert cache.get(digest(b"new")) == b"new"
    leftover = cache.folder / ".tmp"
    leftover.write_bytes(b"half")
    os.utime(leftover, (0, 0))
    cache.prune()
    assert list(cache.folder.iterdir()) == []


def test_used_documents_are_not_pruned(tmp_path: Path) -> None:
    cache = DocumentCache(tmp_path)
    for use in (cache.put, lambda data: cache.get(digest(data))):
        cache.put(b"x")
        os.utime(tmp_path / digest(b"x"), (0, 0))
        use(b"x")
        assert cache.prune(unused_sec=3600) == []


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DocumentCache(tmp_path / "file" / "cache")
    cache.put(b"x")
    assert cache.get(digest(b"x")) is None
    assert default_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/kedge/items")
    assert default_folder({}) == Path.home() / ".cache/kedge/items"


WRITER = """
import os, sys
from pathlib import Path
from kedge.resolve.document_cache import DocumentCache
cache = DocumentCache(Path(sys.argv[1]))
print(flush=True)
while True:
    cache.put(bytes([65 + os.urandom(1)[0] % 8]) * 500_000)
    cache.prune() if sys.argv[2] == "prune" else None
"""


def test_the_cache_survives_concurrent_use_and_killed_writers(tmp_path: Path) -> None:
    argv = [[sys.executable, "-c", WRITER, str(tmp_path), kind] for kind in ("write", "write", "prune")]
    writers = [subprocess.Popen(one, stdout=subprocess.PIPE) for one in argv]
    cache = DocumentCache(tmp_path)
    seen: set[bytes] = set()
    wanted = [bytes([65 + n]) * 500_000 for n in range(8)]

    def enough() -> bool:
        for data in wanted:
            found = cache.get(digest(data))
            assert found in (None, data)
            seen.add(data[:1] if found else b"")
        return len(seen) > 3

    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"\n"
        wait_until(enough, what="documents of all writers")
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    for entry in cache.entries():
        assert (cache.get(entry.sha256) is not None) == (entry.sha256 in {digest(data) for data in wanted})


# Commits and digests.


def repository(folder: Path) -> tuple[str, dict[str, str]]:
    """A repository with a branch and an annotated tag, and the commits of each."""

    def run(*argv: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(["git", *identity, *argv], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    folder.mkdir()
    run("init", "-q", "-b", "main")
    run("commit", "-q", "--allow-empty", "-m", "1")
    first = run("rev-parse", "HEAD")
    run("tag", "-a", "v1", "-m", "v1")
    run("branch", "deep/main")
    run("commit", "-q", "--allow-empty", "-m", "2")
    return str(folder), {"HEAD": run("rev-parse", "HEAD"), "main": run("rev-parse", "main"), "v1": first}


def test_commits_come_from_the_git_server(tmp_path: Path) -> None:
    uri, commits = repository(tmp_path / "repo")
    wanted = [Repository(uri, ref) for ref in commits]
    assert pinning.commits(wanted) == {f"{uri}#{ref}": Pin(commit) for ref, commit in commits.items()}
    assert git.commit(Repository(uri, "no")).unlocked == "the server has no no"
    assert "not appear to be a git repository" in str(git.commit(Repository(str(tmp_path / "none"), "HEAD")).unlocked)
    assert git.commit(Repository(f"ext::sh -c 'touch {tmp_path}/ran'", "HEAD")).unlocked
    assert git.commit(Repository("--upload-pack=touch ran", "HEAD")).unlocked
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("parameters", "ref"),
    [
        ({}, "HEAD"),
        ({"options": ["--depth 1", "--branch v1"]}, "v1"),
        ({"options": ["-b", "dev"]}, "dev"),
        ({"options": ["--branch=x", "--quoted 'never closed"]}, "x"),
        ({"commit": "v2", "options": ["-b dev"]}, "v2"),
        ({"commit": "0" * 40}, None),
        ({"repo_uri": {"text": []}}, None),
    ],
)
def test_clones_without_a_commit_are_pinned(parameters: dict[str, Any], ref: str | None) -> None:
    action = Action("git", {"repo_uri": "https://h/x.git", **parameters})
    step = Step("s", (Callback("taskStarts", ("a",)), Callback("taskStarts", action=action)))
    found = list(pins.repositories([step]))
    assert found == ([] if ref is None else [Repository("https://h/x.git", ref)])
    assert pins.pinned([step], None) == (step,)
    lock = Lock(git={one.key: Pin("f" * 40) for one in found} | {"other#HEAD": Pin(unlocked="why")})
    (pinned,) = pins.pinned([step], lock)
    assert pinned.callbacks[1].action is not None
    assert pinned.callbacks[1].action.parameters.get("commit") == ("f" * 40 if ref else parameters.get("commit"))
    assert pinned.callbacks[0] == step.callbacks[0]


def test_the_commit_of_a_lock_file_reaches_the_step(folder: Folder) -> None:
    item = {"name": "g", "type": "script", "plugin": "git", "repo_uri": "https://h/x.git", "clone_dir": "x"}
    job = folder.resolve(["g"], prerequisites=[item])
    assert job.lock.repositories == (Repository("https://h/x.git", "HEAD"),)
    save(job.lock.path, Lock(git={"https://h/x.git#HEAD": Pin("a" * 40)}))
    again = folder.resolve(["g"], prerequisites=[item])
    (callback,) = again.roles[0].steps[0].callbacks
    assert callback.action is not None
    assert callback.action.parameters["commit"] == "a" * 40
    assert again.lock.repositories == job.lock.repositories
    assert again.lock.new == again.lock.old


def test_digests_come_from_the_registry(server: Server) -> None:
    host = server.url.removeprefix("http://")
    digests = {"Docker-Content-Digest": "sha256:abc"}
    server.serve("/v2/team/image/manifests/v1", "", **digests)
    challenge = f'Basic realm="x", bearer REALM="{server.url}/token",service="s" , scope="repository:x:pull,push"'
    server.serve("/v2/closed/manifests/latest", "", status=401, **{"WWW-Authenticate": challenge})
    server.serve("/token?service=s&scope=repository%3Ax%3Apull%2Cpush", '{"token": "t"}')
    server.serve("/v2/busy/manifests/latest", "", status=429)
    known = f"x@sha256:{'a' * 64}"
    found = pinning.digests([f"{host}/team/image:v1", f"{host}/closed", f"{host}/busy", known, "No Name"])
    assert found[f"{host}/team/image:v1"] == Pin("sha256:abc")
    assert found[known] == Pin(known.removeprefix("x@"))
    assert str(found["No Name"].unlocked).startswith("this is not an image name: 'No Name' ")
    assert found[f"{host}/busy"].unlocked == "the registry answers 429 Too Many Requests"
    assert found[f"{host}/closed"].unlocked == "the registry answers 401 Unauthorized"
    tokens = [headers.get("Authorization") for path, headers in server.asked if "closed" in path]
    assert tokens == [None, "Bearer t"]
    assert "cannot be reached" in str(registry.digest("127.0.0.1:9/x").unlocked)
