"""The download action: a real server that misbehaves, a real cache, real kills."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest
from tests.runtime.actions.downloads import DATA, QUICK, SUM, cause

from kedge import contract
from kedge.contract import DATA_CACHE_DIR, FETCHED_DIR, Retry, SecretRef
from kedge.testing.wait import wait_until


def cache(tmp_path):
    folders = (tmp_path / "cache/kedge" / name for name in ("data", "data-partial"))
    return {path.name: path for folder in folders if folder.exists() for path in folder.iterdir()}


@pytest.mark.parametrize("digest", [None, SUM])
@pytest.mark.parametrize(
    ("path", "place"),
    [("{tmp}/new/file", "new/file"), ("{tmp}/new/", "new/set.bin"), (None, "task/work/set.bin"),
     ("$THERE/x", "there/x"), ("sub/", "task/work/sub/set.bin")],
)  # fmt: skip
def test_a_file_arrives(attempt, download, served, tmp_path, digest, path, place):
    attempt.spec = attempt.spec._replace(environment={"THERE": str(tmp_path / "there")})
    parameters = {"sha256": digest} if digest else {}
    if path:
        parameters["path"] = path.format(tmp=tmp_path)
    assert download(uri=served("set.bin"), **parameters) == 0
    assert (tmp_path / place).read_bytes() == DATA
    assert sorted(cache(tmp_path)) == ([SUM, f"{SUM}.lock"] if digest else [])
    assert any(line.startswith("set.bin: 1.0 MB, ") for line in attempt.log)
    assert [name for name in os.listdir((tmp_path / place).parent) if ".kedge-" in name] == []


def test_several_files_go_into_a_folder(download, served, tmp_path):
    assert download(uris=[served("a"), served("b", b"b")], path=str(tmp_path / "all")) == 0
    assert sorted(os.listdir(tmp_path / "all")) == ["a", "b"]


def test_a_cached_file_is_not_fetched_again(download, served, web, tmp_path):
    uri = served("x")
    assert download(uri=uri, sha256=SUM, path=str(tmp_path / "one")) == 0
    assert download(uri=uri, sha256=SUM, path=str(tmp_path / "two")) == 0
    assert len(web.requests) == 1
    (tmp_path / "two").write_bytes(b"changed by the user")
    assert cache(tmp_path)[SUM].read_bytes() == DATA


def test_an_existing_file_with_the_right_sum_is_kept(attempt, download, served, web, tmp_path):
    (tmp_path / "one").write_bytes(DATA)
    assert download(uri=served("x"), sha256=SUM, path=str(tmp_path / "one")) == 0
    assert web.requests == []


def test_a_damaged_cache_entry_is_fetched_again(attempt, download, served, tmp_path):
    uri = served("x")
    assert download(uri=uri, sha256=SUM, path=str(tmp_path / "one")) == 0
    cache(tmp_path)[SUM].chmod(0o644)
    with cache(tmp_path)[SUM].open("r+b") as file:
        file.write(b"damage")
    assert download(uri=uri, sha256=SUM, path=str(tmp_path / "two")) == 0
    assert (tmp_path / "two").read_bytes() == cache(tmp_path)[SUM].read_bytes() == DATA
    assert any("is damaged and is fetched again" in line for line in attempt.log)


def hostile(path, kind, tmp_path):
    """Put something in place of a cached file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(DATA)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        (path / "sub").mkdir(parents=True)
    else:
        path.write_bytes(b"other")


KINDS = ("fifo", "link", "folder", "file")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["data/{}", "data-partial/{}.partial"])
def test_only_complete_regular_files_in_the_cache_are_used(attempt, download, served, tmp_path, kind, place):
    path = tmp_path / "cache/kedge" / place.format(SUM)
    hostile(path, kind, tmp_path)
    assert download(uri=served("x"), sha256=SUM, path=str(tmp_path / "one")) == 0
    assert (tmp_path / "one").read_bytes() == DATA
    entry = cache(tmp_path)[SUM]
    assert entry.is_file()
    assert not entry.is_symlink()
    assert entry.stat().st_mode & 0o777 == 0o444


@pytest.fixture
def boxed(attempt):
    """A task as in a container, with a read-only cache: the folder of the cache, and that for fetched files."""
    given, own = (attempt.folder / "pai" / name for name in (DATA_CACHE_DIR, FETCHED_DIR))
    for folder in (given, own):
        folder.mkdir(parents=True)
    return given, own


def test_in_a_container_the_cache_is_only_read(download, served, web, tmp_path, boxed):
    given, own = boxed
    (given / SUM).write_bytes(DATA)
    with (given / SUM).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as any task could
        assert download(uri=served("x"), sha256=SUM, path=str(tmp_path / "one")) == 0
    assert (tmp_path / "one").read_bytes() == DATA
    assert web.requests == []
    assert list(given.iterdir()) == [given / SUM]
    assert list(own.iterdir()) == []


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_in_a_container_missing_files_are_fetched_for_the_controller(download, served, tmp_path, boxed, kind):
    given, own = boxed
    if kind:
        hostile(given / SUM, kind, tmp_path)
    before = [path.lstat().st_ino for path in given.iterdir()]
    assert download(uri=served("x"), sha256=SUM, path=str(tmp_path / "one")) == 0
    assert (tmp_path / "one").read_bytes() == (own / SUM).read_bytes() == DATA
    assert [path.lstat().st_ino for path in given.iterdir()] == before


def test_a_file_with_the_wrong_sum_is_refused(attempt, download, served, tmp_path):
    assert download(uri=served("x", b"other"), sha256=SUM, path=str(tmp_path / "one")) == 255
    assert cause(attempt) == "data_corrupt"
    assert "hook of data" in attempt.report["diagnosis"]["frame"]
    assert f"not {SUM}" in attempt.report["message"]
    assert not (tmp_path / "one").exists()
    assert SUM not in cache(tmp_path)


@pytest.mark.parametrize("digest", [None, SUM])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_that_dies_in_the_middle(attempt, download, served, web, tmp_path, ranges, digest):
    web.cuts, web.ranges = [300_000, 300_000, 7], ranges
    parameters = {"sha256": digest} if digest else {}
    assert download(uri=served("x"), path=str(tmp_path / "one"), **parameters) == 0
    assert (tmp_path / "one").read_bytes() == DATA
    assert len(web.requests) == 4
    assert [r.headers["Range"] for r in web.requests[:2]] == [None, "bytes=300000-"]
    assert any("the server ended the connection after 300.0 kB of 1.0 MB (try 1 of 4" in line for line in attempt.log)


def test_a_file_that_changes_between_two_tries_is_not_mixed(download, served, web, tmp_path):
    uri = served("x")
    web.cuts = [1000]
    web.before_answer = lambda number: served("x", b"new content") if number == 2 else None
    assert download(uri=uri, path=str(tmp_path / "one")) == 0
    assert (tmp_path / "one").read_bytes() == b"new content"


def test_progress_resets_the_number_of_tries(download, served, web, tmp_path):
    web.cuts = [100_000] * 8
    assert download(uri=served("x"), path=str(tmp_path / "one")) == 0
    assert len(web.requests) == 9


def test_429_ten_times(attempt, download, served, web, tmp_path):
    web.answers = [429] * 10
    assert download(uri=served("x"), path=str(tmp_path / "x"), patience={**QUICK, "tries": 11}) == 0
    assert len(web.requests) == 11


def test_429_at_every_try_ends_with_250(attempt, download, served, web, tmp_path):
    web.answers = [429] * 100
    assert download(uri=served("x"), path=str(tmp_path / "x")) == 250
    assert (cause(attempt), attempt.report["exit_code"]) == ("network_transient", 250)
    assert "HTTP Error 429" in attempt.report["message"]
    assert "(given up after 4 tries)" in attempt.report["message"]
    assert attempt.report["retry_after_sec"] is None
    assert len(web.requests) == 4


def test_the_servers_last_retry_after_is_passed_to_the_next_attempt(attempt, download, served, web, tmp_path):
    web.answers, web.headers = [429] * 100, {"Retry-After": "7"}
    assert download(uri=served("x"), path=str(tmp_path / "x"), patience={**QUICK, "tries": 1}) == 250
    assert attempt.report["retry_after_sec"] == 7.0


def test_every_further_try_is_an_event(attempt, download, served, web, tmp_path):
    web.answers = [429, 503]
    assert download(uri=served("x"), path=str(tmp_path / "x")) == 0
    told = [event for event in attempt.events if event["event"] == contract.HOOK_RETRYING]
    assert [(event["step"], event["next_try"], event["tries"]) for event in told] == [("data", 2, 4), ("data", 3, 4)]
    assert "429" in told[0]["message"]
    assert "503" in told[1]["message"]


@pytest.mark.parametrize(("said", "least"), [("7", 7.0), ("Fri, 31 Dec 2100 23:59:59 GMT", 30.0)])
def test_retry_after_delays_the_next_try(attempt, download, served, web, tmp_path, said, least):
    web.answers, web.headers = [503], {"Retry-After": said}
    download.prepare(uri=served("x"), patience={"tries": 2, "first_sec": 0.01, "cap_sec": 30.0})
    attempt.start("true")
    lines = wait_until(lambda: [line for line in attempt_log(attempt) if "the next one in" in line])
    delay = float(lines[0].partition("the next one in ")[2].split()[0])
    assert least <= delay < least + 0.1
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143


def attempt_log(attempt):
    return attempt.log if (attempt.folder / contract.RUNTIME_LOG).exists() else []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "remote_access_denied"),
        (403, "remote_access_denied"),
        (404, "data_file_missing"),
        (410, "data_file_missing"),
    ],
)
def test_permanent_failures_are_not_retried(attempt, download, served, web, status, expected):
    web.answers = [status] * 9
    assert download(uri=served("x")) == 255
    assert (cause(attempt), len(web.requests)) == (expected, 1)
    assert f"HTTP Error {status}" in attempt.report["message"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [("http://no-such-host.invalid/x", "network_unreachable"), ("http://127.0.0.1:1/x", "network_transient"),
     ("http://127.0.0.1:port/x", "bad_config"), ("/no/such/file", "data_file_missing"),
     ("file:///no/such/file", "data_file_missing")],
)  # fmt: skip
def test_addresses_that_do_not_resolve_or_answer(attempt, download, uri, expected):
    assert download(uri=uri) == (250 if expected.startswith("network") else 255)
    assert cause(attempt) == expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"uri": "http://127.0.0.1:99999/x"}, "is not a valid address: Port out of range 0-65535"),
        ({"uri": "http://[::1/x"}, "is not a valid address: Invalid IPv6 URL"),
        ({"uri": "/etc/\0"}, "is not a valid path: embedded null byte"),
        ({"uri": "file:///etc/%00"}, "does not exist"),
        ({"uri": "/dev/zero"}, "is neither a file nor a folder"),
        ({"uri": "pipe"}, "is neither a file nor a folder"),
        ({"uri": "folder"}, "pipe is neither a file nor a folder"),
        ({"uri": "/etc/passwd", "path": "a\0b"}, "is not a valid path: embedded null byte"),
        ({"uri": "/etc/passwd", "path": "\ud800"}, "is not a valid path"),
        ({"uri": "/etc/passwd", "path": "x" * 300}, "File name too long"),
    ],
)
def test_invalid_parameters_are_explained(attempt, download, parameters, message):
    work = attempt.folder / "work"
    (work / "folder").mkdir(parents=True)
    os.mkfifo(work / "pipe")
    os.mkfifo(work / "folder/pipe")
    assert download(**parameters) == 255
    assert message in attempt.report["message"]
    assert "a bug in kedge" not in "\n".join(attempt.log)


def test_a_retry_of_the_step_resumes_the_download(attempt, download, served, web, tmp_path):
    """After the last try of one process, the next process uses what has arrived."""
    web.cuts = [300_000, 1, 1]
    download.prepare(uri=served("x"), path=str(tmp_path / "one"), patience={**QUICK, "tries": 1})
    (step,) = attempt.spec.steps
    attempt.spec = attempt.spec._replace(steps=(step._replace(retry=Retry(3, 0.01)),))
    assert attempt.run("true") == 0
    assert (tmp_path / "one").read_bytes() == DATA
    asked = [request.headers["Range"] for request in web.requests]
    assert asked == [None, "bytes=300000-", "bytes=300001-", "bytes=300002-"]
    assert any("kept 300.0 kB of x beside" in line for line in attempt.log)
    assert not [path for path in tmp_path.iterdir() if ".kedge-" in path.name]


def test_after_kill_9_the_next_attempt_resumes_even_without_a_sum(attempt, download, served, web, tmp_path):
    web.cuts, web.hang_after = [400_000], 1
    parameters = {"uri": served("x"), "path": str(tmp_path / "one")}
    download.prepare(**parameters)
    attempt.start("true")
    wait_until(lambda: len(web.requests) == 2)
    (action,) = children(attempt.process.pid)
    os.killpg(action, signal.SIGKILL)
    assert attempt.wait() == 137
    web.hang_after = 1000
    assert download(**parameters) == 0
    assert web.requests[-1].headers["Range"] == "bytes=400000-"
    assert (tmp_path / "one").read_bytes() == DATA
    assert not [path for path in tmp_path.iterdir() if ".kedge-" in path.name]


def test_a_file_above_the_limit_is_refused(attempt, download, served, web, tmp_path):
    web.announced = 1 << 30
    assert download(uri=served("x"), max_bytes=1 << 29, path=str(tmp_path / "x")) == 255
    assert "larger than its limit of 536.9 MB" in attempt.report["message"]


def test_more_than_the_disk_holds(attempt, download, served, web, tmp_path):
    web.announced = 1 << 60
    assert download(uri=served("x"), path=str(tmp_path / "x")) == 255
    assert cause(attempt) == "disk_full"


def test_a_file_of_unknown_size_stops_at_the_limit(attempt, download, served, web, tmp_path):
    web.announced = -1
    assert download(uri=served("x"), max_bytes=1000, path=str(tmp_path / "x")) == 255
    assert "larger than its limit of 1.0 kB" in attempt.report["message"]


def test_credentials_do_not_follow_a_redirect(download, served, web, tmp_path):
    web.redirects = [f"http://localhost:{web.server.server_port}/x"]
    uri = served("x").replace("://", "://me:secret@")
    assert download(uri=uri, path=str(tmp_path / "x")) == 0
    assert [request.headers["Authorization"] is None for request in web.requests] == [False, True]


def test_secrets_in_an_address_are_not_logged(attempt, download, served, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / contract.SECRET_VALUES).write_text(json.dumps({"s": "a+b/c=d?", "short": "pin4"}))
    attempt.spec = attempt.spec._replace(secrets_dir=str(secrets))
    parts = [served("x"), "?sig=", SecretRef("s", "<%s%>")._asdict(), "&p=", SecretRef("short", "<%p%>")._asdict()]
    assert download(uri={"text": parts}, sha256="0" * 64) == 255
    for path in attempt.folder.rglob("*"):
        assert not path.is_file() or b"a+b/c=d?" not in path.read_bytes(), path
    assert "pin4" not in "\n".join(attempt.log)


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_kill_9_in_the_middle_leaves_nothing_half_written(attempt, download, served, web, tmp_path):
    web.cuts, web.hang_after = [400_000], 1
    parameters = {"uri": served("x"), "sha256": SUM, "path": str(tmp_path / "one")}
    download.prepare(**parameters)
    attempt.start("true")
    wait_until(lambda: len(web.requests) == 2)
    (action,) = children(attempt.process.pid)
    os.killpg(action, signal.SIGKILL)
    assert attempt.wait() == 137
    assert not (tmp_path / "one").exists()
    assert set(cache(tmp_path)) == {f"{SUM}.partial", f"{SUM}.lock"}
    web.hang_after = 1000
    assert download(**parameters) == 0
    assert web.requests[-1].headers["Range"] == "bytes=400000-"
    assert (tmp_path / "one").read_bytes() == DATA
    assert set(cache(tmp_path)) == {SUM, f"{SUM}.lock"}
    assert [name for name in os.listdir(tmp_path) if ".kedge-" in name] == []


def test_a_partial_file_with_wrong_content_is_discarded(attempt, download, served, web, tmp_path):
    folder = tmp_path / "cache/kedge/data-partial"
    folder.mkdir(parents=True)
    (folder / f"{SUM}.partial").write_bytes(b"wrong")
    assert download(uri=served("x"), sha256=SUM, path=str(tmp_path / "one")) == 0
    assert (tmp_path / "one").read_bytes() == DATA
    assert [r.headers["Range"] for r in web.requests] == ["bytes=5-", None]


def test_two_tasks_at_once_fetch_once(attempt, download, served, web, tmp_path):
    other = type(attempt)(tmp_path / "other")
    web.hang_after = 0
    download.prepare(uri=served("x"), sha256=SUM, path="./data")
    other.spec = attempt.spec._replace(folder=str(other.folder), workdir=f"{other.folder}/work")
    attempt.start("true")
    wait_until(lambda: len(web.requests) == 1)
    other.start("true")
    wait_until(lambda: any("in use by another task" in line for line in attempt_log(other)))
    web.release.set()
    assert (attempt.wait(), other.wait()) == (0, 0)
    assert len(web.requests) == 1
    for folder in (attempt.folder, other.folder):
        assert (folder / "work/data").read_bytes() == DATA


def test_many_tasks_spread_their_starts(attempt, download, served, tmp_path):
    peers = tmp_path / "peers.json"
    peers.write_text(json.dumps({"roles": {"worker": [{"host": None, "ports": {}}] * 51}}))
    attempt.spec = attempt.spec._replace(peers_file=str(peers))
    assert download(uri=served("x"), patience={**QUICK, "spread_sec": 0.1}) == 0
    assert "waits up to 0.1 seconds before it starts, because the job has 51 tasks" in attempt.log


def test_the_disk_fills(attempt, download, served, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    download.prepare(uri=served("x"), path=str(folder / "one"))
    attempt.start("true", prefix=("bash", "-c", 'ulimit -f 600; exec "$@"', "-"))
    assert attempt.wait() == 255
    assert cause(attempt) == "disk_full"
    assert os.listdir(folder) == []


def test_an_address_cannot_choose_a_path_outside_the_folder(download, served, web, tmp_path):
    uri = served("x").replace("/x", "/%2e%2e%2fserved%2fx")
    assert download(uri=uri, path=str(tmp_path / "in") + "/") == 0
    assert os.listdir(tmp_path / "in") == ["x"]
