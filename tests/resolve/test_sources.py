"""The sources of prerequisites (files, addresses, marketplaces) and their failures."""

from __future__ import annotations

import os
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from kedge.errors import FORBIDDEN, INVALID, NOT_FOUND, UNKNOWN, InputError, Unreachable
from kedge.resolve.sources.base import Unavailable
from kedge.resolve.sources.http import Http, RequestLimits
from kedge.testing.wait import wait_until

from .conftest import Folder, Server, echo, names, scripts, serving


def refused(http: Http, url: str) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        http.fetch(url)
    http.close()
    return caught.value


# Files.


def test_paths_are_relative_to_the_file_that_names_them(folder: Folder) -> None:
    folder.write("data/mnist.yaml", echo("mnist", require=["./parts/deep.yaml", "../beside.yaml"]))
    folder.write("data/parts/deep.yaml", echo("deep", require=["../../beside.yaml"]))
    absolute = folder.write("elsewhere/x.yaml", echo("x"))
    folder.write("beside.yaml", echo("beside"))
    job = folder.resolve(["./data/mnist.yaml", str(absolute)])
    assert names(job) == ["beside", "deep", "mnist", "x"]


def test_a_file_may_have_several_items(folder: Folder) -> None:
    folder.write("all.yaml", [echo("a", require=["b"]), echo("b"), echo("c")])
    folder.write(
        "job-like.yaml",
        {"taskRoles": {}, "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "u"}, echo("d")]},
    )
    folder.write("one.yaml", [echo("e")])
    assert names(folder.resolve(["./all.yaml#a", "./job-like.yaml", "./one.yaml"])) == ["b", "a", "d", "e"]
    assert folder.problem(["./all.yaml"]).message == "Item ./all.yaml is not a prerequisite."
    assert "has no such item" in folder.problem(["./all.yaml#z"]).message


def test_a_plain_name_in_a_file_means_the_jobs_item_first(folder: Folder) -> None:
    folder.write("all.yaml", [echo("a", require=["b"]), echo("b", "theirs")])
    job = folder.resolve(["./all.yaml#a"], prerequisites=[echo("b", "ours", type="script")])
    assert scripts(job)["b"] == "ours\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "Prerequisite ./x.yaml cannot be read"),
        ("a: 1\na: 2\n", "Prerequisite ./x.yaml cannot be read"),
        ("", "Item ./x.yaml is not a prerequisite."),
        ("just text", "Item ./x.yaml is not a prerequisite."),
        ("type: data\n", "the key 'name' is missing"),
        (
            "name: x\ncallbacks: [{event: taskStart, commands: [a]}]\n",
            "Event taskStart of prerequisite x is not supported.",
        ),
        ("name: x\ncallbacks: [{event: taskStarts, commands: ['<% $parameters.x']}]\n", "'<%' starts a reference"),
        ("name: x\nrequire: nothing\n", "must be a list"),
        ("name: x\nrequire: [{}]\n", "the key 'name' is missing"),
        ("name: x\nplugin: nosuch\n", "Plugin 'nosuch' is not supported"),
        ("x" * (1 << 20) + "y", "is larger than 1 MiB"),
    ],
)
def test_a_file_without_a_valid_prerequisite_is_an_error(folder: Folder, content: str, message: str) -> None:
    folder.write("x.yaml", content)
    problems = folder.problems(["./x.yaml"])
    assert any(message in problem.message for problem in problems), problems
    assert all(problem.code == INVALID for problem in problems)


def test_only_regular_files_are_read(folder: Folder) -> None:
    os.mkfifo(folder.path / "fifo")
    (folder.path / "dir").mkdir()
    assert "it is a named pipe, not a regular file" in folder.problem(["./fifo"]).message
    assert "it is a directory, not a regular file" in folder.problem(["./dir"]).message
    assert "there is no file" in folder.problem(["./none.yaml"]).message


# Addresses.


def test_an_item_at_an_address(folder: Folder, server: Server) -> None:
    url = server.serve(
        "/x.yaml", [echo("a", "echo {{ v }}", template_variables=[{"name": "v", "default": 1}]), echo("b")]
    )
    job = folder.resolve([f"{url}#a", f"{url}#b"])
    assert names(job) == ["a(v=1)", "b"]
    assert server.paths() == ["/x.yaml"]
    (_, headers) = server.asked[0]
    assert not {name.lower() for name in headers} & {"authorization", "cookie"}


def test_an_item_from_another_machine_must_not_refer_to_files(folder: Folder, server: Server) -> None:
    secret = folder.write("secret.yaml", echo("secret"))
    for number, wanted in enumerate(["./secret.yaml", "../secret.yaml", str(secret)]):
        url = server.serve(f"/{number}.yaml", echo("a", require=[wanted]))
        problem = folder.problem([url])
        assert (
            problem.message
            == f"Prerequisite {wanted}: an item from another machine must not refer to files of this machine"
        )
        assert problem.file == url


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, NOT_FOUND),
        (410, NOT_FOUND),
        (401, FORBIDDEN),
        (403, FORBIDDEN),
        (500, UNKNOWN),
        (429, UNKNOWN),
        (204, UNKNOWN),
    ],
)
def test_every_answer_but_200_is_an_error(folder: Folder, server: Server, status: int, code: str) -> None:
    url = server.serve("/x.yaml", echo("a"), status=status)
    problem = folder.problem([url])
    assert problem.code == code
    assert f"answers {status}" in problem.message
    assert problem.where == "taskRoles.w.prerequisites[0]"


def test_a_failure_of_another_machine_is_not_an_input_error(folder: Folder, server: Server) -> None:
    text = folder.job([server.serve("/x.yaml", "name: [", status=200)])
    with pytest.raises(Unreachable):
        folder.resolve_text(text)
    with pytest.raises(Unreachable, match=r"job\.yaml:\d+:\d+: taskRoles\.w\.prerequisites\[0\]"):
        folder.resolve(["http://127.0.0.1:9/x.yaml"])
    with pytest.raises(InputError):
        folder.resolve(["http://127.0.0.1:9/x.yaml", "./none.yaml"])


@pytest.mark.parametrize(
    "address", ["http://..../x", f"http://{'a' * 300}/x", "https://xn--a/x", "http://256.1.1.1/x", "http://[::1/x"]
)
def test_an_impossible_host_is_an_input_error(folder: Folder, address: str) -> None:
    problem = folder.problem([address])
    assert "is not a valid address" in problem.message or "is invalid" in problem.message
    assert (problem.where, problem.line) == ("taskRoles.w.prerequisites[0]", 11)


@pytest.mark.parametrize("address", ["http://[::1/x", "http://xn--a/", "http:///", "https://host:port/"])
def test_an_impossible_marketplace_address_is_an_error(folder: Folder, address: str) -> None:
    problem = folder.problem(["marketplace://name/x"], {"marketplace": address})
    assert "is not a valid address" in problem.message


def test_a_few_redirects_are_followed(server: Server) -> None:
    for number in range(7):
        server.serve(f"/{number}", "", status=302, Location=f"{server.url}/{number + 1}")
    server.serve("/7", "name: a")
    http = Http()
    assert http.fetch(f"{server.url}/2").data == b"name: a"
    assert "redirects more than 5 times" in refused(http, f"{server.url}/1").message


def test_other_hosts_get_neither_requests_nor_credentials(server: Server) -> None:
    with serving() as other:
        target = other.serve("/x", "name: a")
        server.serve("/cookie", "", status=302, Location=target, **{"Set-Cookie": "session=1; Path=/"})
        server.serve("/user", "", status=302, Location=target.replace("//", "//user:password@"))
        http = Http()
        http.fetch(f"{server.url}/cookie")
        http.fetch(f"{server.url}/user")
        http.close()
        for _, headers in other.asked:
            assert not {name.lower() for name in headers} & {"authorization", "cookie"}
    for hosts in (["example.org"], ["localhost"]):
        error = refused(Http(hosts), f"{server.url}/x")
        assert error.code == FORBIDDEN
        assert "--allow-host 127.0.0.1" in error.message
    assert server.paths() == ["/cookie", "/user"]


def test_redirects_must_lead_to_allowed_hosts_and_safe_schemes(server: Server) -> None:
    server.serve("/away", "", status=302, Location="http://localhost:1/x")
    server.serve("/file", "", status=302, Location="file:///etc/passwd")
    assert "host localhost is not allowed" in refused(Http(["127.0.0.1"]), f"{server.url}/away").message
    assert "less secure" in refused(Http(), f"{server.url}/file").message


def test_an_answer_has_limits(server: Server) -> None:
    patient, limits = RequestLimits(read=60, total=60, bytes=1000), RequestLimits(read=0.2, total=0.4)
    sent: list[int] = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        try:
            while True:
                sent.append(handler.wfile.write(b"x" * 65536))
        except OSError:
            sent.append(-1)

    def silent(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(1)

    def dies(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "500")
        handler.end_headers()
        handler.wfile.write(b"name: a")

    server.answers |= {"/endless": endless, "/silent": silent, "/dies": dies}
    assert "is larger than 0 KiB" in refused(Http(limits=patient), f"{server.url}/endless").message
    wait_until(lambda: -1 in sent, what="the server notices that nobody reads")
    assert sum(sent) < 1 << 26
    assert "does not answer in time" in refused(Http(limits=limits), f"{server.url}/silent").message
    assert refused(Http(limits=patient), f"{server.url}/dies").code == UNKNOWN
    server.serve("/packed", "x", **{"Content-Encoding": "gzip"})
    assert "a content encoding that was not requested" in refused(Http(), f"{server.url}/packed").message


def test_a_slow_document_ends_at_the_time_limit(server: Server) -> None:
    def drops(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while handler.wfile.write(b"#"):
                handler.wfile.flush()
                handler.connection.settimeout(0.05)
                try:
                    handler.connection.recv(1)
                    return
                except TimeoutError:
                    continue
        except OSError:
            return

    server.answers["/drops"] = drops
    limits = RequestLimits(read=60, total=0.3)
    assert "takes more than 0.3 s" in refused(Http(limits=limits), f"{server.url}/drops").message


def test_a_job_may_fetch_at_most_20_documents(folder: Folder, server: Server) -> None:
    urls = [server.serve(f"/{n}.yaml", echo(f"i{n}")) for n in range(21)]
    assert len(names(folder.resolve(urls[:20]))) == 20
    assert folder.problem(urls).message.endswith("a job may use at most 20 documents from other machines")


def test_a_place_that_does_not_answer_is_tried_once(folder: Folder, server: Server) -> None:
    url = server.serve("/x.yaml", "", status=503)
    assert (
        len(
            folder.problems(
                ["a", "b"], extras={"reference_prerequisites": [{"name": n, "require": [url]} for n in "ab"]}
            )
        )
        == 2
    )
    assert server.paths() == ["/x.yaml"]


# Marketplaces.


def test_a_folder_without_an_index(folder: Folder) -> None:
    folder.write("m/data/mnist.yaml", echo("mnist", require=["marketplace://script/tools", "wget"]))
    folder.write("m/script/tools.yaml", echo("tools"))
    folder.write("m/output/tools.yaml", echo("upload"))
    folder.write("m/wget.yml", {**echo("wget"), "type": "script"})
    folder.write("m/.hidden/wget.yaml", echo("no"))
    inputs = {"marketplace": str(folder.path / "m")}
    listed = ["marketplace://data/mnist", "marketplace://output/tools", "marketplace://script/wget"]
    assert names(folder.resolve(listed, inputs)) == ["tools", "wget", "mnist", "upload"]
    assert names(folder.resolve(["marketplace://prerequisites/itemId/mnist"], inputs)) == ["tools", "wget", "mnist"]
    assert names(folder.resolve(["marketplace://prerequisites/itemId/output%2Ftools"], inputs)) == ["upload"]
    assert "it is ambiguous" in folder.problem(["marketplace://name/tools"], inputs).message
    assert folder.problem(["marketplace://data/wget"], inputs).code == NOT_FOUND


def test_the_same_files_at_a_url(folder: Folder, server: Server) -> None:
    entries = [{"id": 7, "name": "a b", "type": "data", "path": "data/a b.yaml", "version": 2}]
    server.serve("/market/index.json", {"items": entries})
    server.serve("/market/data/a%20b.yaml", echo("ab"))
    for where in ("/market", "/market/", "/market/index.json"):
        inputs = {"marketplace": server.url + where}
        job = folder.resolve(["marketplace://name/a%20b", "marketplace://prerequisites/itemId/7"], inputs)
        assert names(job) == ["ab"]
        assert job.requirements.entries[0].version == "2"
    assert folder.problem(["marketplace://name/c"], inputs).code == NOT_FOUND
    nowhere = folder.problem(["marketplace://name/c"], {"marketplace": f"{server.url}/none"})
    assert (nowhere.code, "there is no marketplace at" in nowhere.message) == (UNKNOWN, True)


@pytest.mark.parametrize(
    "path", ["../secret.yaml", "/etc/passwd", "a/../../secret.yaml", "link.yaml", "file:x", "a\\b"]
)
def test_an_index_cannot_lead_out_of_the_marketplace(folder: Folder, path: str) -> None:
    folder.write("secret.yaml", echo("secret"))
    folder.write("m/index.json", {"items": [{"id": 1, "name": "x", "path": path}]})
    (folder.path / "m/link.yaml").symlink_to("../secret.yaml")
    problem = folder.problem(["marketplace://name/x"], {"marketplace": str(folder.path / "m")})
    assert problem.code == UNKNOWN
    assert "inside the marketplace" in problem.message or "out of the marketplace" in problem.message


@pytest.mark.parametrize(
    "index",
    [
        "",
        "[]",
        "{}",
        '{"items": [{}]}',
        '{"items": 3}',
        '{"items": [3]}',
        "[" * 200_000,
    ],
)
def test_an_invalid_index_is_an_error(folder: Folder, index: str) -> None:
    folder.write("m/index.json", index)
    problem = folder.problem(["marketplace://name/x"], {"marketplace": str(folder.path / "m")})
    assert "is invalid" in problem.message


def test_the_marketplace_can_be_set_in_three_places(folder: Folder, tmp_path: Path) -> None:
    for name in ("given", "own", "usual"):
        folder.write(f"{name}/x.yaml", echo(name))
    x = ["marketplace://name/x"]
    own: dict[str, Any] = {"extras": {"kedge": {"marketplace": "./own"}}}
    assert "no marketplace is configured; set --marketplace DIR|URL" in folder.problem(x).message
    usual = {"usual_marketplace": str(tmp_path / "usual")}
    assert names(folder.resolve(x, usual)) == ["usual"]
    assert names(folder.resolve(x, usual, **own)) == ["own"]
    assert names(folder.resolve(x, {"marketplace": str(tmp_path / "given"), **usual}, **own)) == ["given"]
    assert "is not a folder" in folder.problem(x, {"marketplace": str(tmp_path / "none")}).message
