"""Job files with anything anywhere."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kedge.errors import CannotRun, InputError, Problem, Unreachable
from kedge.jobs.example import example_spec
from kedge.plan.build import build
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.spec.lint.scripts import scripts
from kedge.spec.parse import parse
from kedge.spec.redact import mask_secrets
from kedge.spec.yaml import read

from .values import TEXTS, changes_of, check_error, check_problems, edited, edits, replaced

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
JOB: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "j",
    "type": "job",
    "parameters": {"x": 1, "l": [{"a": "b"}]},
    "secrets": {"s": "secret"},
    "prerequisites": [
        {"name": "i", "type": "dockerimage", "uri": "u:<% $parameters.x %>", "auth": {"password": "<% $secrets.s %>"}},
        {"name": "d", "type": "data", "uri": ["https://127.0.0.1:1/a"], "sha256": "0" * 64, "path": "p"},
        {
            "name": "s",
            "type": "script",
            "plugin": "git",
            "repo_uri": "https://h/x",
            "options": ["--depth 1"],
            "require": ["d", {"name": "o", "template_variables": {"v": 1}}],
            "retry": {"max": 1},
            "timeoutSec": 3,
        },
        {"name": "o", "type": "output", "x": "{{ v }}", "template_variables": [{"name": "v", "type": "integer"}]},
    ],
    "jobRetryCount": 1,
    "taskRoles": {
        "w": {
            "instances": 2,
            "completion": {"minFailedInstances": 1, "minSucceededInstances": -1},
            "taskRetryCount": 1,
            "prerequisites": ["s"],
            "dockerImage": "i",
            "data": "d",
            "extraContainerOptions": {"shmMB": 64, "infiniband": False},
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"x": 1}},
            "commands": ["a <% $parameters.l[0].a %> $PAI_HOST_IP_w_0", "b <% $data.uri[0] %>"],
        },
    },
    "deployments": [{"name": "p", "taskRoles": {"w": {"preCommands": ["if a"], "postCommands": ["fi"]}}}],
    "defaults": {"deployment": "p", "virtualCluster": "v"},
    "extras": {
        "com.microsoft.pai.runtimeplugin": [
            {"plugin": "cmd", "parameters": {"preCommands": ["a"]}, "taskroles": ["w"]}
        ],
        "storages": [{"name": "m", "mountPath": "/m"}],
        "reference_prerequisites": [{"name": "r", "require": ["d"]}],
        "kedge": {"stop": {"graceSec": 1, "signal": "INT"}, "retry": {"maxTransient": 1}, "rules": ["r.toml"]},
    },
}


def survives(text: str, parameters: Mapping[str, str] | None = None) -> None:
    """Do everything with a job that happens before it runs."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/job.yaml"
        problems: Iterable[Problem | str] = ()
        try:
            document = read(text, file)
            list(scripts(document.value, document.source, ()))
            mask_secrets(text)
            inputs = Inputs("me", cache=f"{folder}/cache", offline=True, parameters=parameters or {})
            resolved = resolve(parse(text, file, given=parameters or {}), inputs)
            plan = build(resolved)
            json.dumps(plan.to_json(), allow_nan=False).encode()
            for role in plan.roles:
                json.dumps(example_spec(plan, role.name, 0).to_json()).encode()
            problems = resolved.warnings
        except (InputError, Unreachable) as error:
            check_error(error, text, file)
        except CannotRun as error:
            assert str(error)
        check_problems(problems, text, file)


@given(st.sampled_from(EXAMPLES), edits)
@settings(max_examples=40)
def test_an_example_with_any_edit(path: Path, changes: list[tuple[float, int, str]]) -> None:
    survives(edited(path.read_text(), changes))


@given(edits)
@settings(max_examples=40)
def test_a_job_with_any_edit(changes: list[tuple[float, int, str]]) -> None:
    survives(edited(json.dumps(JOB, indent=1), changes))


@given(changes_of(JOB))
@settings(max_examples=25)
@example([(("taskRoles", "w", "instances"), 10**400)])
@example([(("prerequisites", 2, "options"), ["'"])])
def test_a_job_with_any_node_replaced(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    survives(json.dumps(replaced(JOB, changes), indent=1))


@given(changes_of(JOB))
@settings(max_examples=25)
def test_a_job_with_any_node_replaced_as_dumped_yaml(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    try:
        text = yaml.safe_dump(replaced(JOB, changes), allow_unicode=True, sort_keys=False)
    except (yaml.YAMLError, RecursionError, UnicodeError, ValueError):
        return
    survives(text)


@given(
    st.dictionaries(st.sampled_from(["x", "l", "y", *TEXTS]), st.sampled_from(TEXTS) | st.text(max_size=6), max_size=3)
)
@settings(max_examples=40)
def test_a_job_with_any_parameters(parameters: dict[str, str]) -> None:
    survives(json.dumps(JOB, indent=1), parameters)
