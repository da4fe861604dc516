"""A plan is the same after it has been written as JSON and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kedge.contract import Action, Callback, Retry, SecretRef, Step
from kedge.plan.build import build
from kedge.plan.lossless import from_lossless, to_lossless
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.spec.parse import parse

JOB = """
protocolVersion: 2
name: everything
type: job
jobRetryCount: 3
secrets: {token: hunter2-and-more, password: also-hidden}
extras:
  gangAllocation: false
  storages: [{name: data, mountPath: /data}]
  kedge:
    stop: {signal: INT, graceSec: 0.5}
    mask: false
    retry: {maxTransient: 4, backoffSec: 0.5}
    taskRoles: {worker: {stop: {target: command, graceSec: 90s}}}
    env: {PLAIN: 1.0, EMPTY: "", AUTH: "Bearer <% $secrets.token %>"}
prerequisites:
  - {name: image, type: dockerimage, uri: busybox, auth: {username: me, password: <% $secrets.password %>}}
  - {name: model, type: output, uri: "hdfs://10.0.0.1:9000/model"}
  - {name: base, type: script, plugin: cmd, callbacks: [{event: taskStarts, commands: [mkdir a]}]}
  - name: hook
    type: script
    plugin: cmd
    failurePolicy: ignore
    retry: {max: 2, delaySec: 1.5}
    timeoutSec: 7
    require: [base]
    callbacks: [{event: taskFails, commands: ["echo <% $secrets.token %> wörld \u2028"]}]
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    prerequisites: [hook]
    output: model
    completion: {minFailedInstances: -1, minSucceededInstances: 1}
    taskRetryCount: 2
    extraContainerOptions: {shmMB: 64, infiniband: true}
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {mpi: 2}}
    commands: ["<% $secrets.token %>", "echo two"]
  ps:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: [echo none]
"""
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def through_json(plan: Plan) -> Plan:
    return from_lossless(json.loads(json.dumps(to_lossless(plan))))


def test_a_plan_with_every_feature() -> None:
    plan = build(resolve(parse(JOB), Inputs("me")))
    assert plan.roles[0].steps
    assert plan.requirements.entries
    assert plan.roles[0].lines
    assert through_json(plan) == plan
    assert plan.roles[0].outputs == ("model",)
    every = replace(plan, every_task_succeeds=True, shares_code=True)
    assert through_json(every) == every
    assert "hunter2" not in json.dumps(to_lossless(plan))


def test_actions_and_texts_of_any_shape() -> None:
    plan = build(resolve(parse(JOB), Inputs("me")))
    token = SecretRef("token", "<% $secrets.token %>")
    action = Action("git", {"url": {"text": ["https://", token._asdict()]}, "depth": 1, "paths": ["a"]})
    steps = (Step("s", (Callback("taskStarts", action=action),), "fail", Retry(1, 0.5), None, {"A": "b"}),)
    for command in ((), ("a", "b"), (token,), ("<% $secrets.token %>",), ("a", token, "b")):
        made = replace(plan, roles=(replace(plan.roles[0], command=command, steps=steps), *plan.roles[1:]))
        assert through_json(made) == made


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples(path: Path) -> None:
    plan = build(resolve(parse(path.read_text(), str(path)), Inputs("me")))
    assert through_json(plan) == plan
