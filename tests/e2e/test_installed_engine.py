"""An engine that a package brings: installed as users install it, and used by its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kedge.testing.command import Kedge
from kedge.testing.conformance import BEHAVIOURS

PACKAGE = Path(__file__).parents[1] / "engines" / "example_engine"

HERE = {
    name: BEHAVIOURS[name]
    for name in ("the first failure of a role fails the job", "a stop without grace kills at once")
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the example engine in it."""
    folder = tmp_path_factory.mktemp("site")
    source = folder / "source"  # a build leaves files beside what it builds
    source.mkdir()
    for path in PACKAGE.iterdir():
        if path.is_file():
            (source / path.name).write_bytes(path.read_bytes())
    options = ("--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", folder, source], check=True)
    return folder


@pytest.fixture
def kedge(site: Path, tmp_path: Path) -> Iterator[Kedge]:
    with closing(Kedge(tmp_path, engine="example")) as made:
        made.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        yield made


def test_a_job_runs_on_the_engine_with_an_option_of_its_own(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("nice"), "-o", "nice=7")
    assert "note: all tasks run with niceness 7" in done.stderr
    assert int(kedge.task_log()) == os.nice(0) + 7
    run = kedge.only_run()
    assert json.loads((run / "run.json").read_text())["engine"] == "example"
    kedge("rm", run.name)
    assert kedge.runs() == []


def test_the_settings_hold_options_of_the_engine(kedge: Kedge) -> None:
    """Its options are known from its class; the site's file needs no more."""
    file = kedge.folder / "site.toml"
    kedge.environment["KEDGE_SITE_FILE"] = str(file)
    file.write_text("engine = 'example'\n[engines.example]\nnice = -1\nnyce = 3\n")
    refused = kedge("plan", kedge.job("true"), code=2).stderr
    assert f"{file}:3:8: engines.example.nice: must be at least 0, not -1" in refused
    assert f"{file}:4:1: engines.example.nyce: unknown key 'nyce'; known here: 'allow-fewer-gpus', 'nice'" in refused
    file.write_text("engine = 'example'\n[engines.example]\nnice = 3\n")
    assert f"note: engine example ({file}:1)\nnote: --nice 3 ({file}:3)\n" in kedge("plan", kedge.job("true")).stderr
    assert "engines.example.nice" in kedge("config").stdout
    kedge("run", kedge.job("nice"), KEDGE_ENGINES_EXAMPLE_NICE="5")
    assert int(kedge.task_log()) == os.nice(0) + 5


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-o", "nice=much"), "--nice of the example engine must be a whole number of at least 0, not 'much'"),
        (("-o", "niceness=1"), "the example engine has no option --niceness; did you mean --nice?"),
        (("-o", "nice"), "-o nice: write it as NAME=VALUE"),
        (("--network", "host"), "the example engine has no option --network; it has --allow-fewer-gpus, --nice"),
    ],
)
def test_options_are_checked_by_what_the_engine_declares(kedge: Kedge, args: tuple[str, ...], message: str) -> None:
    assert message in kedge("plan", kedge.job("true"), "--engine", "example", *args, code=2).stderr


@pytest.mark.parametrize("behaviour", HERE.values(), ids=HERE)
def test_it_behaves_as_every_engine_does(kedge: Kedge, behaviour: Callable[[Kedge], None]) -> None:
    behaviour(kedge)


def test_a_run_whose_engine_is_not_installed_any_more(kedge: Kedge) -> None:
    kedge("run", kedge.job("true"))
    del kedge.environment["PYTHONPATH"]
    done = kedge("rm", kedge.only_run().name, code=2)
    assert "uses the engine 'example', which is not installed here" in done.stderr
