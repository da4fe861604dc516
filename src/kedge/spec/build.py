"""Builds a Job from the checked values of a job file and applies all defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kedge.spec.model import (
    EVERY_TASK_SUCCEEDS,
    NEVER,
    SHARED_CODE,
    Auth,
    Completion,
    DeploymentRole,
    Job,
    JobFileSource,
    KedgeExtras,
    KedgeRole,
    Path,
    Prerequisite,
    Resources,
    RuntimePlugin,
    StopSettings,
    TaskRole,
)
from kedge.spec.plugins import RUNTIME_PLUGINS, handler, short_name
from kedge.spec.schema import schema
from kedge.spec.units import seconds

_REFERENCES = "reference_prerequisites"
_ACTED_ON = frozenset(
    {"submitFrom", "gangAllocation", RUNTIME_PLUGINS, "kedge", "slurm", "kubernetes", "storages", _REFERENCES}
)
_KEDGE_NOT_ACTED_ON = ("hold", "network")
_HIVED_ALIASES = {"gpuType": "skuType", "reservationId": "pinnedCellId"}
_ALWAYS_PORTS = ("ssh", "http")
_CREDENTIALS = ("username", "password", "registryuri")


def build(value: Mapping[str, Any], source: JobFileSource) -> Job:
    """The Job that `value` describes. `value` must have passed all checks except the name checks."""
    extras, defaults = _canonical(value.get("extras", {})), value.get("defaults", {})
    secrets, settings = value.get("secrets", {}), _kedge(extras.get("kedge", {}))
    return Job(
        name=value["name"],
        version=_version(value, source),
        contributor=value.get("contributor"),
        description=value.get("description"),
        prerequisites=_prerequisites(value.get("prerequisites", ()), ("prerequisites",)),
        parameters=value.get("parameters", {}),
        secrets=secrets if isinstance(secrets, dict) else {},
        job_retry_count=int(value.get("jobRetryCount", 0)),
        task_roles={name: _task_role(name, role, settings) for name, role in value["taskRoles"].items()},
        deployments={item["name"]: _deployment(item) for item in value.get("deployments", ())},
        active_deployment=defaults.get("deployment"),
        virtual_cluster=defaults.get("virtualCluster", "default"),
        gang_allocation=extras.get("gangAllocation", True),
        runtime_plugins=tuple(_runtime_plugin(i, item) for i, item in enumerate(extras.get(RUNTIME_PLUGINS, ()))),
        extras=extras,
        kedge=settings,
        source=source,
        references=_prerequisites(extras.get(_REFERENCES, ()), ("extras", _REFERENCES)),
        inert=tuple(dict.fromkeys(_inert(value, extras))),
    )


def _version(value: Mapping[str, Any], source: JobFileSource) -> str:
    return source.mark(("version",)).scalar or str(value["version"]) if "version" in value else "latest"


def _prerequisites(items: Iterable[Mapping[str, Any]], above: Path) -> tuple[Prerequisite, ...]:
    return tuple(_prerequisite((*above, index), item) for index, item in enumerate(items))


def _prerequisite(path: Path, item: Mapping[str, Any]) -> Prerequisite:
    kind = item.get("type", "")
    auth = item.get("auth") if kind == "dockerimage" else None
    uri = item.get("uri")
    if kind == "data" and uri is not None:
        uri = (uri,) if isinstance(uri, str) else tuple(uri)
    return Prerequisite(
        name=item["name"],
        type=kind,
        data=item,
        path=path,
        uri=uri,
        auth=None if auth is None else Auth(**{key: auth[key] for key in _CREDENTIALS if key in auth}),
        plugin=handler(item),
        require=tuple(item.get("require", ())),
    )


def _task_role(name: str, role: Mapping[str, Any], settings: KedgeExtras) -> TaskRole:
    container = role.get("extraContainerOptions", {})
    instances = int(role.get("instances", 1))
    shm = container.get("shmMB")
    return TaskRole(
        name=name,
        instances=instances,
        completion=NEVER if settings.every_task_succeeds else _completion(role.get("completion", {}), instances),
        task_retry_count=int(role.get("taskRetryCount", 0)),
        prerequisites=tuple(role.get("prerequisites", ())),
        docker_image=role["dockerImage"],
        data=role.get("data"),
        output=role.get("output"),
        script=role.get("script"),
        shm_mb=None if shm is None else int(shm),
        infiniband=container.get("infiniband", False),
        resources=_resources(role["resourcePerInstance"]),
        commands=tuple(role["commands"]),
    )


def _completion(value: Mapping[str, Any], instances: int) -> Completion:
    """0 and null mean the default, as in OpenPAI's REST server."""
    return Completion(int(value.get("minFailedInstances") or 1), int(value.get("minSucceededInstances") or instances))


def _resources(value: Mapping[str, Any]) -> Resources:
    ports = {label: int(count) for label, count in (value.get("ports") or {}).items()}
    for label in _ALWAYS_PORTS:
        ports.setdefault(label, 1)
    cpu = value["cpu"]
    return Resources(int(cpu) if cpu == int(cpu) else cpu, int(value["memoryMB"]), int(value["gpu"]), ports)


def _deployment(item: Mapping[str, Any]) -> dict[str, DeploymentRole]:
    return {
        name: DeploymentRole(tuple(role.get("preCommands", ())), tuple(role.get("postCommands", ())))
        for name, role in item["taskRoles"].items()
    }


def _runtime_plugin(index: int, item: Mapping[str, Any]) -> RuntimePlugin:
    path: Path = ("extras", RUNTIME_PLUGINS, index)
    roles = item.get("taskroles")
    return RuntimePlugin(
        plugin=short_name(item["plugin"]),
        parameters=item.get("parameters") or {},
        failure_policy=item.get("failurePolicy", "fail").lower(),
        task_roles=None if roles is None else tuple(roles),
        path=path,
        retry=item.get("retry", {}),
        timeout_sec=seconds(item["timeoutSec"]) if "timeoutSec" in item else None,
    )


def _kedge(value: Mapping[str, Any]) -> KedgeExtras:
    retry, default = value.get("retry", {}), KedgeExtras()
    stop = _stop(value.get("stop", {}), default.stop)
    return KedgeExtras(
        stop=stop,
        mask=value.get("mask", default.mask),
        max_transient=int(retry.get("maxTransient", default.max_transient)),
        backoff_sec=seconds(retry.get("backoffSec", default.backoff_sec)),
        keep_unknown_references=value.get("unknownReferences") == "keep",
        workdir=value.get("workdir"),
        rules=tuple(value.get("rules", ())),
        marketplace=value.get("marketplace"),
        every_task_succeeds=value.get("completion") == EVERY_TASK_SUCCEEDS,
        capabilities={role: tuple(names) for role, names in value.get("capabilities", {}).items()},
        env=value.get("env", {}),
        task_roles={name: _kedge_role(role, stop) for name, role in value.get("taskRoles", {}).items()},
        **_limits(value),
        shares_code=value.get("code") == SHARED_CODE,
    )


def _kedge_role(value: Mapping[str, Any], stop: StopSettings) -> KedgeRole:
    return KedgeRole(env=value.get("env", {}), stop=_stop(value.get("stop", {}), stop), **_limits(value))


def _limits(value: Mapping[str, Any]) -> dict[str, float | None]:
    """The time limits of the job or a role, by the names of their fields."""
    names = {"timeLimit": "time_limit", "attemptTimeLimit": "attempt_time_limit", "warnBefore": "warn_before"}
    return {f"{name}_sec": seconds(value[key]) if key in value else None for key, name in names.items()}


def _stop(value: Mapping[str, Any], default: StopSettings) -> StopSettings:
    return StopSettings(
        signal=value.get("signal", default.signal).removeprefix("SIG"),
        target=value.get("target", default.target),
        grace_sec=seconds(value.get("graceSec", default.grace_sec)),
    )


def _canonical(extras: Mapping[str, Any]) -> dict[str, Any]:
    """The extras with HiveD's settings under their current names, and without an empty `storages`."""
    result = {"hivedScheduler" if key == "hivedscheduler" else key: value for key, value in extras.items()}
    if result.get("storages", ()) is None:
        del result["storages"]
    hived = result.get("hivedScheduler")
    if hived and "taskRoles" in hived:
        roles = {name: _renamed(role, _HIVED_ALIASES) for name, role in hived["taskRoles"].items()}
        result["hivedScheduler"] = {**hived, "taskRoles": roles}
    return result


def _renamed(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): item for key, item in value.items()}


def _inert(value: Mapping[str, Any], extras: Mapping[str, Any]) -> Iterator[str]:
    """Keys of the job that have no effect, in the order of the file's sections. Plugins report theirs themselves."""
    for role in value["taskRoles"].values():
        used = ("shmMB", "infiniband")
        yield from (f"extraContainerOptions.{key}" for key in role.get("extraContainerOptions", {}) if key not in used)
    yield from (f"defaults.{key}" for key in value.get("defaults", {}) if key not in ("deployment", "virtualCluster"))
    if others := [key for key in extras if key not in _ACTED_ON]:
        known = schema()["$defs"]["extras"]["properties"]
        yield from (key if key in known else f"{key} (unknown)" for key in others)
    yield from (f"kedge.{key}" for key in _KEDGE_NOT_ACTED_ON if key in extras.get("kedge", {}))
