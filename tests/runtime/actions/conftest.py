"""A step that downloads what a real server has."""

from __future__ import annotations

import pytest
from tests.runtime.actions.downloads import DATA, QUICK

from kedge.contract import Action, Callback, Step


@pytest.fixture
def served(web, tmp_path):
    """Let the server serve one more file, and return its address."""
    web.folder = tmp_path / "served"
    web.folder.mkdir()

    def serve(name, data=DATA):
        (web.folder / name).write_bytes(data)
        return f"{web.url}/{name}"

    return serve


@pytest.fixture
def download(attempt, tmp_path):
    """Run an attempt whose only step downloads, and return its exit status."""

    def prepare(**parameters):
        action = Action("download", {"patience": QUICK, **parameters})
        environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "no_proxy": "*", **attempt.spec.environment}
        steps = (Step("data", (Callback("taskStarts", action=action),)),)
        attempt.spec = attempt.spec._replace(steps=steps, environment=environment)

    def run(**parameters):
        prepare(**parameters)
        return attempt.run("true")

    run.prepare = prepare
    return run
