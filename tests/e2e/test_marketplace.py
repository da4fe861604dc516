"""Prerequisites from a marketplace: in jobs that run, locked, cached and in plans."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .conftest import Kedge
from .prerequisite_jobs import head, in_order, role, runtime_log, write

MARKET = {
    "install_wget": """\
name: install_wget
plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands: ["apt update", "apt install -y wget"]
""",
    "mnist": """\
name: mnist
require:
  - name: marketplace://name/install_wget
plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands:
        - mkdir -p {{ dataPath }}
        - wget http://1.2.3.4/mnist.zip -O {{ dataPath }}
        - cd {{ dataPath }}
template_variables:
  - name: dataPath
""",
    "confignfs_pvc": """\
name: confignfs_pvc
plugin: pvc_storage
plugin_params:
  name: confignfs
  mountPath: {{ mountPath }}
template_variables:
  - name: mountPath
""",
    "imagenet": """\
name: imagenet
require:
  - name: marketplace://name/confignfs_pvc
    template_variables: {mountPath: /mnt/confignfs_pvc}
plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands:
        - mkdir -p {{ dataPath }}
        - cp -r /mnt/confignfs_pvc/imagenet/* {{ dataPath }}
template_variables:
  - name: dataPath
""",
    "debug_hook": """\
name: debug_hook
plugin: cmd
plugin_params:
  callbacks:
    - event: taskFails
      commands:
        - echo "will sleep for {{ min }} minutes for debugging..."
        - sleep {{ min }}m
template_variables:
  - name: min
""",
    "mnist_data": """\
name: mnist_data
type: data
plugin: com.microsoft.pai.runtimeplugin.cmd
pathForUser: /dataset/mnist
requireStorages:
  - {name: confignfs, mountPath: /mnt/confignfs}
callbacks:
  - event: containerStarts
    commands: ['wget "https://host/x" -O /dataset/mnist/x']
""",
}


@pytest.fixture
def market(kedge: Kedge) -> Path:
    """A folder that is a marketplace."""
    for name, text in MARKET.items():
        write(kedge, text, f"market/{name}.yaml")
    return kedge.folder / "market"


def references(name: str, **values: str) -> str:
    given = ", ".join(f"{key}: {value}" for key, value in values.items())
    return (
        "extras:\n  reference_prerequisites:\n"
        f"    - name: {name}\n      require:\n        - name: marketplace://name/{name}\n"
        f"          template_variables: {{{given}}}\n"
    )


def planned(kedge: Kedge, market: Path, name: str, **values: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The scripts of all steps by name and event, and the storages."""
    file = write(kedge, head(name, "") + role(name) + references(name, **values))
    storage = ("--storage", f"confignfs={market}") if name == "imagenet" else ()
    plan = json.loads(kedge("plan", "--json", "--marketplace", market, file, *storage).stdout)
    steps = plan["roles"][0]["steps"]
    return {f"{s['name']} {c['event']}": c["script"] for s in steps for c in s["callbacks"]}, plan["storages"]


def test_an_item_of_the_marketplace_with_values(kedge: Kedge, market: Path) -> None:
    scripts, storages = planned(kedge, market, "mnist", dataPath="/dataset/mnist")
    assert list(scripts) == ["install_wget taskStarts", "mnist taskStarts"]
    assert scripts["mnist taskStarts"].startswith(
        "mkdir -p /dataset/mnist\nwget http://1.2.3.4/mnist.zip -O /dataset/mnist\n"
    )
    assert storages == []
    scripts, storages = planned(kedge, market, "imagenet", dataPath="/dataset/imagenet")
    assert scripts == {
        "imagenet taskStarts": "mkdir -p /dataset/imagenet\ncp -r /mnt/confignfs_pvc/imagenet/* /dataset/imagenet\n"
    }
    assert [(s["name"], s["mountPath"], s["folder"]) for s in storages] == [
        ("confignfs", "/mnt/confignfs_pvc", str(market))
    ]
    scripts, storages = planned(kedge, market, "debug_hook", min="30")
    assert scripts == {"debug_hook taskFails": 'echo "will sleep for 30 minutes for debugging..."\nsleep 30m\n'}
    assert storages == []


def test_an_item_without_its_value_is_refused(kedge: Kedge, market: Path) -> None:
    text = head("mnist", "") + role("mnist") + references("mnist")
    done = kedge("run", write(kedge, text), "--marketplace", market, code=2)
    assert "Template variable dataPath of prerequisite mnist is not fulfilled." in done.stderr
    assert "extras.reference_prerequisites[0].require[0].name" in done.stderr


def test_data_of_the_marketplace_is_there_when_the_command_runs(
    equipped: tuple[Kedge, dict[str, str]], market: Path
) -> None:
    kedge, stubs = equipped
    path = kedge.folder / "dataset"
    text = head("mnist", "") + role("mnist", f"ls -d {path}") + references("mnist", dataPath=str(path))
    done = kedge("run", write(kedge, text), KEDGE_MARKETPLACE=str(market), **stubs)
    assert str(path) in done.stdout
    in_order(runtime_log(kedge), "apt update", "apt install -y wget", f"wget http://1.2.3.4/mnist.zip -O {path}")


@pytest.mark.parametrize(("command", "code", "shown"), [("exit 3", 1, True), ("true", 0, False)])
def test_a_hook_for_failures_runs_only_then(
    on_engine: Kedge, market: Path, command: str, code: int, shown: bool
) -> None:
    text = head("debug", "") + role("debug_hook", command) + references("debug_hook", min="0")
    on_engine("run", write(on_engine, text), "--marketplace", market, code=code)
    assert ("will sleep for 0 minutes for debugging..." in runtime_log(on_engine)) is shown


def test_an_item_by_its_id_needs_no_entry_in_the_job(equipped: tuple[Kedge, dict[str, str]], market: Path) -> None:
    kedge, stubs = equipped
    index = {"items": [{"id": "2", "name": "MNIST", "type": "data", "path": "mnist_data.yaml"}]}
    write(kedge, json.dumps(index), "market/index.json")
    text = head("by-id", "") + role('"marketplace://prerequisites/itemId/2", "marketplace://data/MNIST"')
    kedge("run", write(kedge, text), "--marketplace", market, "--storage", f"confignfs={market}", **stubs)
    assert runtime_log(kedge).count("wget https://host/x -O /dataset/mnist/x") == 1


def locked(kedge: Kedge, market: Path) -> Path:
    """A job with an item of the marketplace, one in a file and a repository, and its lock file."""
    write(kedge, "name: local\ncallbacks: [{event: taskStarts, commands: [echo local]}]\n", "local.yaml")
    repository = kedge.folder / "repo"
    subprocess.run(["git", "init", "-q", repository], check=True)
    commit(repository)
    git = f"  - {{name: code, type: script, plugin: git, repo_uri: 'file://{repository}', clone_dir: code}}\n"
    text = head("locked", git) + role("install_wget, ./local.yaml, code", "git -C code rev-parse HEAD")
    text += references("install_wget").replace("template_variables: {}", "")
    file = write(kedge, text)
    done = kedge("lock", file, "--marketplace", market)
    assert "job.lock: 1 external prerequisite, 1 file, 1 repository, 1 image" in done.stdout
    return file


def commit(repository: Path) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=repository, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_locked_job_runs_what_was_locked_and_offline(kedge: Kedge, market: Path, stubs: dict[str, str]) -> None:
    file = locked(kedge, market)
    lock = json.loads((kedge.folder / "job.lock").read_text())
    (pin,) = lock["git"].values()
    assert commit(kedge.folder / "repo") != pin["value"]
    market.rename(kedge.folder / "gone")
    done = kedge("run", file, "--offline", **stubs)
    assert pin["value"] in done.stdout
    assert json.loads((kedge.folder / "job.lock").read_text()) == lock


def test_a_locked_job_refuses_what_has_changed(kedge: Kedge, market: Path, stubs: dict[str, str]) -> None:
    file = locked(kedge, market)
    before = (kedge.folder / "job.lock").read_text()
    item = market / "install_wget.yaml"
    item.write_text(item.read_text().replace("apt update", "apt upgrade"))
    write(kedge, "name: local\ncallbacks: [{event: taskStarts, commands: [echo changed]}]\n", "local.yaml")
    refused = kedge("run", file, "--marketplace", market, code=2, **stubs)
    assert (
        "it has changed since job.lock was written; accept the change with --update-lock install_wget" in refused.stderr
    )
    assert '-      commands: ["apt update", "apt install -y wget"]' in refused.stderr
    assert kedge.runs() == []
    kedge("plan", file, "--marketplace", market, "--update-lock", "install_wget")
    assert (kedge.folder / "job.lock").read_text() == before
    accepted = kedge("run", file, "--marketplace", market, "--update-lock", "install_wget", **stubs)
    assert "local.yaml has changed since job.lock was written" in accepted.stderr
    in_order(runtime_log(kedge), "apt upgrade", "changed")
    again = kedge("plan", file, "--marketplace", market)
    assert "has changed" not in again.stderr
    assert (kedge.folder / "job.lock").read_text() != before


def test_the_cache_is_shown_and_pruned(kedge: Kedge, market: Path) -> None:
    file = locked(kedge, market)
    sha256 = json.loads((kedge.folder / "job.lock").read_text())["items"]["marketplace://name/install_wget"]["sha256"]
    shown = kedge("cache").stdout
    assert sha256 in shown
    assert "1 document," in shown
    assert "deleted 0 documents" in kedge("cache", "--prune", "--days", "1").stdout
    assert "deleted 1 document," in kedge("cache", "--prune").stdout
    assert "0 documents, 0 bytes" in kedge("cache").stdout
    assert "it is not in the cache" in kedge("run", file, "--offline", code=4).stderr


def test_the_plan_shows_who_needs_what(kedge: Kedge, market: Path) -> None:
    text = head("graph", "  - {name: both, type: data, require: [mnist, 'marketplace://name/install_wget']}\n")
    file = write(kedge, text + role("both") + references("mnist", dataPath="/a<b"))
    shown = kedge("plan", "--graph", "tree", "--marketplace", market, file).stdout
    assert shown.splitlines() == [
        "taskrole",
        "  both",
        "  ├─ mnist",
        f"  │  └─ mnist  from {market}/mnist.yaml  (dataPath=/a<b)",
        f"  │     └─ install_wget  from {market}/install_wget.yaml",
        "  └─ install_wget  (above)",
    ]
    assert "└─ install_wget  (above)" in kedge("plan", "--marketplace", market, file).stdout
    drawing = kedge("plan", "--graph", "svg", "--marketplace", market, file).stdout
    assert drawing.startswith("<svg xmlns=")
    assert drawing.count("<rect") == 1 + 5
    assert drawing.count("<path") == 5
    assert "/a&lt;b" in drawing
    assert ElementTree.fromstring(drawing).tag == "{http://www.w3.org/2000/svg}svg"
