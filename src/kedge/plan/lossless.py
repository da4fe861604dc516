"""Converts a plan to JSON and back without loss, for the process that runs the job, here or on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.contract import Action, Callback, Retry, Step, StopPolicy, TaskTimeLimit, Text, text_from_json, text_to_json
from kedge.plan.model import Plan, RetryPolicy, RolePlan
from kedge.resolve.model import Mount, RemoteStorage, RequirementEntry, Requirements, VolumeClaim
from kedge.spec.model import EVERY_TASK_SUCCEEDS, SHARED_CODE, Completion, Resources


def to_lossless(plan: Plan) -> dict[str, Any]:
    """The JSON that `from_lossless` reads. In contrast to `Plan.to_json`, a Text with references to secrets is
    {"text": [...]} (see `contract.text_to_json`), roles have `lines`, and passwords in the job file are included, so
    the result must not be stored."""
    data = plan.to_json(_text)
    for role, role_data in zip(plan.roles, data["roles"], strict=True):
        role_data["lines"] = list(role.lines)
        role_data["auth"] = None if role.auth is None else {key: _text(text) for key, text in role.auth.items()}
    return data


def from_lossless(data: Mapping[str, Any]) -> Plan:
    """The inverse of `to_lossless`. KeyError, TypeError, ValueError: the data is not from `to_lossless`."""
    return Plan(
        user=data["user"],
        job=data["job"],
        virtual_cluster=data["virtualCluster"],
        gang=data["gang"],
        retry=RetryPolicy(data["retry"]["job"], data["retry"]["maxTransient"], data["retry"]["backoffSec"]),
        stop=_stop(data["stop"]),
        time_limit=_limit(data["timeLimit"]),
        hold_sec=data["holdOnFailureSec"],
        mask=data["mask"],
        environment=data["environment"],
        roles=tuple(_role(role) for role in data["roles"]),
        code=data["code"],
        rules=tuple(data["rules"]),
        notes=tuple(data["notes"]),
        mounts=tuple(map(_mount, data["storages"])),
        requirements=Requirements(
            tuple(_entry(entry) for entry in data["prerequisites"]),
            {role["name"]: tuple(role["prerequisites"]) for role in data["roles"]},
        ),
        every_task_succeeds=data["completion"] == EVERY_TASK_SUCCEEDS,
        shares_code=data["codeMode"] == SHARED_CODE,
    )


def _text(text: Text) -> Any:
    """A Text as JSON: a plain string if it has no secrets."""
    return text[0] if len(text) == 1 and isinstance(text[0], str) else {"text": text_to_json(text)}


def _text_from(value: Any) -> Text:
    return (value,) if isinstance(value, str) else text_from_json(value["text"])


def _role(data: Mapping[str, Any]) -> RolePlan:
    resources, completion, auth = data["resources"], data["completion"], data["auth"]
    return RolePlan(
        name=data["name"],
        instances=data["instances"],
        image=data["image"],
        auth=None if auth is None else {key: _text_from(value) for key, value in auth.items()},
        resources=Resources(resources["cpu"], resources["memoryMB"], resources["gpu"], resources["ports"]),
        shm_mb=resources["shmMB"],
        infiniband=resources["infiniband"],
        completion=Completion(completion["minFailedInstances"], completion["minSucceededInstances"]),
        task_retry_count=data["taskRetryCount"],
        environment=data["environment"],
        env={name: _text_from(value) for name, value in data["env"].items()},
        command=_text_from(data["command"]),
        steps=tuple(_step(step) for step in data["steps"]),
        code=data["code"],
        outputs=tuple(data["outputs"]),
        pin=data["imagePin"],
        capabilities=tuple(data["capabilities"]),
        lines=tuple(data["lines"]),
        stop=_stop(data["stop"]),
        time_limit=_limit(data["timeLimit"]),
        attempt_time_limit=_limit(data["attemptTimeLimit"]),
        warn_before_sec=data["warnBeforeSec"],
    )


def _limit(data: Mapping[str, Any] | None) -> TaskTimeLimit | None:
    return TaskTimeLimit(data["key"], data["sec"]) if data else None


def _mount(data: Mapping[str, Any]) -> Mount:
    remote = RemoteStorage(**data["remote"]) if data["remote"] else None
    claim = VolumeClaim(**data["claim"]) if data.get("claim") else None  # which older records do not have
    return Mount(data["name"], data["mountPath"], data["readOnly"], data["folder"], remote, claim)


def _stop(data: Mapping[str, Any]) -> StopPolicy:
    return StopPolicy(data["signal"], data["graceSec"], data["target"])


def _step(data: Mapping[str, Any]) -> Step:
    callbacks = tuple(_callback(callback) for callback in data["callbacks"])
    retry = Retry(data["retry"]["max"], data["retry"]["delaySec"])
    return Step(data["name"], callbacks, data["failurePolicy"], retry, data["timeoutSec"], data["environment"])


def _callback(data: Mapping[str, Any]) -> Callback:
    if action := data.get("action"):
        return Callback(data["event"], action=Action(action["kind"], action["parameters"]), service=data.get("service"))
    return Callback(data["event"], _text_from(data["script"]), service=data.get("service"))


def _entry(data: Mapping[str, Any]) -> RequirementEntry:
    facts = {key: value for key, value in data.items() if key != "id"}
    return RequirementEntry(**facts)._replace(needs=tuple(data["needs"]))
