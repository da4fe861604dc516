"""The environment variables that a job sets for its tasks."""

from __future__ import annotations

import pytest

from kedge.contract import ENVIRONMENT_STRING_LIMIT, SecretRef
from kedge.engines.machine import gpus
from kedge.errors import InputError
from kedge.plan.build import build
from kedge.plan.environment import task_environment
from kedge.spec.environment import is_reserved

from .conftest import Folder


def extras(env: dict[str, object], of_role: dict[str, object] | None = None) -> dict[str, object]:
    return {"kedge": {"env": env, "taskRoles": {"w": {"env": of_role or {}}}}}


def test_those_of_the_role_replace_those_of_the_job_and_scalars_keep_their_text(folder: Folder) -> None:
    text = folder.job([], parameters={"x": 1}).replace("x: 1", "x: 1.0")
    text += "extras: {kedge: {env: {A: 0o17, B: yes, C: 1e3, D: ''}, taskRoles: {w: {env: {A: 1.50, E: true}}}}}\n"
    [role] = folder.resolve_text(text).roles
    assert role.env == {"A": ("1.50",), "B": ("yes",), "C": ("1e3",), "D": (), "E": ("true",)}


def test_references_are_rendered_and_secrets_stay_references(folder: Folder) -> None:
    values = {"A": "<% $parameters.x %>/<% $output.name %>", "B": "Bearer <% $secrets.t %>"}
    output = {"name": "models", "type": "output", "uri": "/out"}
    keys = {"parameters": {"x": "y"}, "secrets": {"t": "hunter2hunter2"}, "extras": extras(values)}
    text = folder.job([], prerequisites=[output], **keys).replace(
        "dockerImage: image", "{}\n    output: models".format("dockerImage: image")
    )
    resolved = folder.resolve_text(text)
    tag = "<% $secrets.t %>"
    assert resolved.roles[0].env == {"A": ("y/models",), "B": ("Bearer ", SecretRef("t", tag))}
    assert build(resolved).to_json()["roles"][0]["env"] == {"A": "y/models", "B": f"Bearer {tag}"}
    assert resolved.warnings == ()  # the parameter, the secret and the output are in use


@pytest.mark.parametrize(
    ("env", "where", "why"),
    [
        ({"A": "<% $parameters.none %>"}, "extras.kedge.env.A", "no parameter is named 'none'"),
        ({"A": "<% $data.uri %>"}, "extras.kedge.env.A", "this task role names no data prerequisite"),
        ({"A": "a\0b"}, "extras.kedge.env.A", "must not contain a NUL character"),
        ({"A": "x" * ENVIRONMENT_STRING_LIMIT}, "extras.kedge.env.A", f"has {ENVIRONMENT_STRING_LIMIT + 3} bytes"),
        ({f"A{n}": "x" * 90_000 for n in range(12)}, "extras.kedge.taskRoles.w.env", "bytes together; the limit is"),
    ],
    ids=["no-parameter", "no-data", "nul", "long", "all-long"],
)
def test_what_is_wrong_with_a_value(folder: Folder, env: dict[str, object], where: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as error:
        folder.resolve([], extras=extras(env))
    assert [problem.where for problem in error.value.problems] == [where]


def test_every_variable_that_kedge_sets_is_reserved(folder: Folder) -> None:
    plan = build(folder.resolve([]))
    shared = {**plan.environment, **plan.roles[0].environment}
    assert all(map(is_reserved, {**shared, **task_environment(shared, 0), **gpus.environment([])}))
    assert not is_reserved("PYTHONPATH")
