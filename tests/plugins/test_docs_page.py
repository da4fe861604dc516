"""The examples in docs/plugins.md work."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.lazy_modules import PLUGINS
from kedge.plugins.base import ParameterError, checked
from kedge.resolve.plugin_executable import Executable
from kedge.resolve.plugins import find

from .conftest import resolved

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_job_resolves_to_a_download_and_a_clone() -> None:
    text, _ = blocks("yaml")
    job = resolved(*yaml.safe_load(text)["prerequisites"], secrets={"git_token": "12345678"})
    kinds = [step.callbacks[0].action.kind for step in job.roles[0].steps if step.callbacks[0].action]
    assert kinds == ["download", "git"]
    assert job.roles[0].steps[1].retry.max == 2


def test_the_plugin_passes_its_test() -> None:
    plugin, refusal, test = blocks("python")
    namespace: dict[str, Any] = {}
    exec(plugin, namespace)
    exec(test, namespace)
    namespace["test_my_plugin"]()
    exec("from kedge.plugins.base import ParameterError, Wrong", namespace)
    with pytest.raises(ParameterError, match="must not start"):
        exec(refusal, namespace)


def test_the_request_and_answer_of_an_executable_are_valid(tmp_path: Path) -> None:
    question, answer = (json.loads(block) for block in blocks("json"))
    path = tmp_path / "kedge-plugin-timeline"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nassert sys.stdin.read()\nprint({json.dumps(json.dumps(answer))})\n"
    )
    path.chmod(0o755)
    steps = checked(Executable("timeline", str(path)).steps(question["parameters"]))
    assert [bool(callback.action) for callback in steps.callbacks] == [False, True, False]
    assert [callback.service for callback in steps.callbacks] == [None, None, "files"]
    assert steps.files[0].path == "settings.ini"


def test_every_built_in_plugin_is_listed_with_its_parameters() -> None:
    rows = {
        name: row
        for row in PAGE.splitlines()
        for name in re.findall(r"`([\w.]+)`", row.split("|")[1] if "|" in row else "")
    }
    for name in PLUGINS:
        for parameter in find(name).parameters or () if name != "ssh" else ():
            assert f"`{parameter.name}`" in rows[name]
        assert name in rows
