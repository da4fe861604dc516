"""The plugin tensorboard, with a stand-in of TensorBoard that really listens and shows its arguments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.contract import RUNTIME_LOG
from kedge.testing.wait import wait_until

from .conftest import Kedge

PROGRAM = """#!{python}
import http.server, pathlib, sys
if "--version" in sys.argv:
    print("a warning of 3.7 things\\n{version}")
    sys.exit()
pathlib.Path("{folder}/arguments").write_text(" ".join(sys.argv[1:]))
if {fails}:
    sys.exit("no such plugin")
port = next(int(a.partition("=")[2]) for a in sys.argv if a.startswith("--port="))
http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
COMPLETION = {"minFailedInstances": 1, "minSucceededInstances": -1}
ENTRY = {"plugin": "com.microsoft.pai.runtimeplugin.tensorboard", "failurePolicy": "fail"}


def stand_in(folder: Path, version: str, fails: bool = False) -> str:
    """A PATH with a program `tensorboard` of this version first; without one, if there is no version."""
    (folder / "bin").mkdir()
    if version:
        program = folder / "bin/tensorboard"
        program.write_text(PROGRAM.format(python=sys.executable, version=version, folder=folder, fails=fails))
        program.chmod(0o755)
    return f"{folder}/bin:/usr/bin:/bin"


def job(kedge: Kedge, commands: str, **parameters: object) -> Path:
    roles = {
        "first": {"instances": 2, "commands": [commands], "completion": COMPLETION},
        "second": {"commands": ["true"], "completion": COMPLETION},
    }
    entry = {**ENTRY, "parameters": parameters}
    return kedge.job("", roles=roles, extras={"com.microsoft.pai.runtimeplugin": [entry]})


@pytest.mark.parametrize(
    ("version", "logdir", "expected"),
    [
        ("2.15.1", {"a": "/logs"}, "--logdir=/logs --port={port} --host=127.0.0.1"),
        ("2.15.1", {"a": "/x", "b": "/y"}, "--logdir_spec=a:/x,b:/y --port={port} --host=127.0.0.1"),
        ("1.15.0", {"a": "/x", "b": "/y"}, "--logdir=a:/x,b:/y --port={port} --host=127.0.0.1"),
    ],
)
def test_it_runs_beside_the_first_task(kedge: Kedge, version: str, logdir: dict[str, str], expected: str) -> None:
    path = stand_in(kedge.folder, version)
    waits = f"until [ $PAI_TASK_INDEX = 1 -o -e {kedge.folder}/go ]; do sleep 0.05; done"
    kedge.environment["PATH"] = path
    process = kedge.start("run", job(kedge, waits, port=6006, logdir=logdir))
    wait_until(lambda: kedge.runs() and _addresses(kedge), 60)
    (address,) = _addresses(kedge)
    shown = json.loads(kedge("show", kedge.runs()[0].name, "--json").stdout)
    services = {f"{task['role']}:{task['index']}": task["services"] for task in shown["tasks"]}
    assert services["first:0"] == [{"name": "tensorboard", "address": address, "running": True}]
    assert services["first:1"] == services["second:0"] == []
    (kedge.folder / "go").touch()
    printed = kedge.finish(process, 0)
    assert f"first:0: tensorboard at {address}" in printed
    assert f"Services    first:0 tensorboard at {address} (ended)" in printed
    port = address.rpartition(":")[2].strip("/")
    peers = json.loads((kedge.only_run() / "attempt-0/peers.json").read_text())
    assert peers["roles"]["first"][0]["ports"]["tensorboard"] == [int(port)]
    assert (kedge.folder / "arguments").read_text() == expected.format(port=port)
    assert kedge.leftovers() == []


@pytest.mark.parametrize(
    ("version", "fails", "reason"),
    [
        ("3.0.0", False, "TensorBoard 3 is not supported"),
        ("nightly", False, "TensorBoard of an unknown version is not supported"),
        ("2.15.1", True, "TensorBoard ended with exit code 1"),
        ("", False, "TensorBoard is not on the PATH; install it yourself"),  # nothing is put into the user's Python
    ],
)
def test_its_failure_is_not_the_tasks(kedge: Kedge, version: str, fails: bool, reason: str) -> None:
    path = stand_in(kedge.folder, version, fails)
    waits = "[ $PAI_TASK_INDEX = 1 ] || until grep -q service-ended $PAI_LOG_DIR/events.jsonl; do sleep 0.05; done"
    printed = kedge("run", job(kedge, waits, port=6006, logdir={"a": "/logs"}), PATH=path)
    assert (
        "first:0: the service tensorboard ended with exit code 1; the task goes on without it; its output"
        in printed.stderr
    )
    assert f"[tensorboard] {reason}" in (kedge.task("first-0") / RUNTIME_LOG).read_text()


def _addresses(kedge: Kedge) -> list[str]:
    return [event["address"] for event in kedge.events() if event["event"] == "service-started" and event["address"]]


TOOL = """mkdir -p /tmp/bin
cat > /tmp/bin/tensorboard <<'X'
#!/bin/sh
[ "$1" = --version ] && { echo 2.15.0; exit; }
echo "$*" > $PAI_LOG_DIR/arguments
for each; do case $each in --port=*) port=${each#--port=};; esac; done
exec busybox httpd -f -p $port -h /tmp
X
chmod +x /tmp/bin/tensorboard
export PATH=/tmp/bin:$PATH"""


def test_in_a_network_of_the_job_it_has_its_own_port(in_containers: Callable[[str], Kedge]) -> None:
    kedge = in_containers("busybox")
    callbacks = [{"event": "taskStarts", "commands": TOOL.splitlines()}]
    hook = {"name": "tool", "type": "script", "plugin": "cmd", "callbacks": callbacks}
    entry = {**ENTRY, "parameters": {"port": 6006, "logdir": {"a": "/logs"}}}
    roles = {"worker": {"prerequisites": ["tool"], "commands": ["until [ -e $KEDGE_JOB_DIR/go ]; do sleep 0.1; done"]}}
    job = kedge.job("", roles=roles, prerequisites=[hook], extras={"com.microsoft.pai.runtimeplugin": [entry]})
    process = kedge.start("run", job)
    wait_until(lambda: kedge.runs() and _addresses(kedge), 60)
    host, _, port = _addresses(kedge)[0].removeprefix("http://").strip("/").partition(":")
    peers = json.loads((kedge.only_run() / "attempt-0/peers.json").read_text())
    assert (host, port) == (peers["roles"]["worker"][0]["host"], "6006")
    (kedge.only_run() / "job-dir/go").touch()
    kedge.finish(process, 0)
    assert (kedge.task() / "arguments").read_text() == "--logdir=/logs --port=6006 --bind_all\n"
