"""A job file with any value replaced by any other is refused or accepted, and never breaks kedge."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kedge.errors import CannotRun, InputError, Problem
from kedge.plan.build import build
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.spec.lint.scripts import scripts
from kedge.spec.parse import parse
from kedge.spec.yaml import read

RUNTIME_PLUGINS = "com.microsoft.pai.runtimeplugin"
JOB: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "j",
    "type": "job",
    "prerequisites": [
        {"name": "i", "type": "dockerimage", "uri": "u:<% $parameters.n %>", "auth": {"password": "<% $secrets.s %>"}},
        {"name": "d", "type": "data", "uri": ["u"], "sha256": "0" * 64, "path": "p"},
        {
            "name": "s", "type": "script", "require": ["d", {"name": "o", "template_variables": {"v": 1}}],
            "callbacks": [{"event": "taskStarts", "commands": ["a <% this.name %>"]}], "retry": {"max": 1},
            "timeoutSec": 3,
        },
        {"name": "o", "type": "output", "x": "{{ v }}", "template_variables": [{"name": "v", "type": "integer"}]},
    ],
    "parameters": {"n": 1, "l": [{"a": "b"}]},
    "secrets": {"s": "secret"},
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
        }
    },
    "deployments": [{"name": "p", "taskRoles": {"w": {"preCommands": ["if a"], "postCommands": ["fi"]}}}],
    "defaults": {"deployment": "p", "virtualCluster": "v"},
    "extras": {
        "gangAllocation": False,
        RUNTIME_PLUGINS: [{"plugin": "cmd", "parameters": {"preCommands": ["a"]}, "taskroles": ["w"]}],
        "storages": [{"name": "m", "mountPath": "/m"}],
        "reference_prerequisites": [{"name": "r", "require": ["d"]}],
        "hivedScheduler": {"taskRoles": {"w": {"skuType": "k", "affinityGroupName": "g"}}},
        "kedge": {"stop": {"graceSec": 1}, "retry": {"maxTransient": 1}, "mask": True},
    },
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, below in steps for place in places(below, (*path, step)))]


TEXTS = [
    "", "a", "w", "d", "<% $parameters.n %>", "<% $params.n %>", "<% $parameters.n", "<% $secrets.s %>", "<% $x[0] %>",
    "{{ v }}", "${{ parameters.n }}", "$parameters.n", "<% this.x %>", "4GB", "10m", "${PAI_RESOURCE_v}", "./x.yaml",
    "fi", "\ufeff", "\x85", "\0", "a\nb", "x" * 300, "$PAI_PORT_LIST_w_9_x", "marketplace://name/x", "https://", "../",
]  # fmt: skip
JUNK = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from([None, True, 0, -1, 5, 29500, 10**30, 0.5, float("1e300"), [], {}, [None], [[]], [{}], {"": None}]),
    st.dictionaries(
        st.sampled_from(["url", "uri", "name", "nmae", "type", "0", "w"]), st.sampled_from(TEXTS), max_size=2
    ),
    st.lists(st.sampled_from(TEXTS), max_size=3),
)
DELETED = object()


def put(job: Any, path: tuple[Any, ...], value: Any) -> None:
    try:
        for step in path[:-1]:
            job = job[step]
        if value is DELETED:
            del job[path[-1]]
        else:
            job[path[-1]] = value
    except (KeyError, IndexError, TypeError):
        pass  # an earlier change has removed this place


@given(st.lists(st.tuples(st.sampled_from(places(JOB)[1:]), JUNK | st.just(DELETED)), min_size=1, max_size=4))
@example([(("prerequisites", 3, "template_variables", 0, "name"), [])])
@example([(("extras", "reference_prerequisites"), "<% this.x %>")])
@example([(("prerequisites",), "{{ v }}")])
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_change_of_a_job_is_refused_or_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    monkeypatch.chdir(tmp_path)
    job = copy.deepcopy(JOB)
    for path, value in changes:
        put(job, path, value)
    text = json.dumps(job, indent=1)
    try:
        document = read(text)
        list(scripts(document.value, document.source, ()))
        resolved = resolve(parse(text), Inputs("me", cache=str(tmp_path / "cache"), hosts=("127.0.0.1",)))
    except (InputError, CannotRun) as error:
        problems = getattr(error, "problems", ())
        assert problems
        assert any(isinstance(problem, str) or problem.severity == "error" for problem in problems)
    else:
        json.dumps(build(resolved).to_json())
        problems = resolved.warnings
    for problem in problems:
        if isinstance(problem, Problem):
            json.dumps(problem.to_json())
            assert "\n" not in problem.message or "has changed" in problem.message
