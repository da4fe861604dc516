"""Numbers and empty values that OpenPAI accepts but that have no effect, or one that is probably not intended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kedge.errors import Problem
from kedge.image_names import parse, without_tag
from kedge.spec.lint import texts
from kedge.spec.message_text import quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.reference_syntax import OPEN
from kedge.spec.schema import schema
from kedge.spec.suggest import did_you_mean, name_list
from kedge.spec.tolerant import entries, mapping

_NEVER = {
    "minFailedInstances": "failed tasks never fail the job",
    "minSucceededInstances": "the job runs until all tasks have ended",
}
_RUNTIME_MB = 8  # measured
_WELL_KNOWN_PORTS = frozenset({22, 80, 443})


def completion(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A threshold above the role's number of tasks is never reached. OpenPAI accepts it, so this is a warning."""
    for name, role in mapping(job.get("taskRoles")).items():
        count = mapping(role).get("instances", 1)
        for key, effect in _NEVER.items():
            wanted: Any = mapping(mapping(role).get("completion")).get(key)
            if _is_number(wanted) and _is_number(count) and wanted > count:
                tasks = "1 task" if count == 1 else f"{count:g} tasks"
                reason = f"{wanted:g} is never reached, as the role has {tasks}: {effect}"
                message = f"{reason}; write at most {count:g}, or -1 for never"
                yield source.warning(("taskRoles", name, "completion", key), message, suggestion=f"{count:g}")


def task_retries(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Tasks of a gang are not retried individually."""
    if mapping(job.get("extras")).get("gangAllocation") is False:
        return
    for name, role in mapping(job.get("taskRoles")).items():
        wanted: Any = mapping(role).get("taskRetryCount")
        if _is_number(wanted) and wanted > 0:
            message = "has no effect without 'extras.gangAllocation: false'; 'jobRetryCount' retries all tasks"
            yield source.warning(("taskRoles", name, "taskRetryCount"), message, key=True)


def empty(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Empty `ports:` and `storages:`."""
    for name, role in mapping(job.get("taskRoles")).items():
        path: Path = ("taskRoles", name, "resourcePerInstance", "ports")
        resources = mapping(mapping(role).get("resourcePerInstance"))
        if "ports" in resources and resources["ports"] is None:
            yield source.warning(path, "is empty and has no effect; remove it, or add ports", key=True)
    extras = mapping(job.get("extras"))
    if "storages" in extras and extras["storages"] is None:
        message = "is empty and has no effect; remove it, or write '[]' for your default storages"
        yield source.warning(("extras", "storages"), message, key=True)


def image_names(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Names of images that no container engine accepts. Without containers nothing reads them."""
    for index, item in entries(job.get("prerequisites")):
        uri = item.get("uri")
        if item.get("type") != "dockerimage" or not isinstance(uri, str) or OPEN in uri:
            continue
        try:
            parse(uri)
        except ValueError as error:
            repository = without_tag(uri.strip())
            lower = f"{repository.lower()}{uri.strip().removeprefix(repository)}"
            better = lower if _is_image(lower) else None
            reason = f"did you mean {quote(better)}?" if better else str(error)
            message = f"{quote(uri)} is not the name of an image: {reason}"
            yield source.warning(("prerequisites", index, "uri"), message, suggestion=better)


def ignored(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Unknown keys of `auth` and of storages, and storages without a name."""
    for path, value, known in _with_ignored_keys(job):
        for key in value:
            if key not in known:
                hint = did_you_mean(key, [name for name in known if name not in value])
                message = f"unknown key {quote(key)} is ignored{hint or f'; known here: {name_list(known)}'}"
                yield source.warning((*path, key), message, key=True)
    for path, value in _storages(job):
        if not value.get("name"):
            yield source.warning(path, "is ignored, as it has no name; write '- {name: NAME}'")


def _with_ignored_keys(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any], Collection[str]]]:
    """Path, value and known keys of each mapping whose other keys are ignored."""
    parts = schema()["$defs"]
    for index, item in entries(job.get("prerequisites")):
        if item.get("type") == "dockerimage":
            auth = parts["dockerImage"]["properties"]["auth"]["properties"]
            yield ("prerequisites", index, "auth"), mapping(item.get("auth")), auth
    for path, value in _storages(job):
        yield path, value, parts["storages"]["items"]["properties"]


def _storages(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The entries of every list of storages."""
    lists: list[tuple[Path, Any]] = [(("extras", "storages"), mapping(job.get("extras")).get("storages"))]
    lists += [((*path, "requireStorages"), item.get("requireStorages")) for path, item in texts.prerequisites(job)]
    yield from (((*path, number), entry) for path, listed in lists for number, entry in entries(listed))


def memory(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Memory limits that are too small to start a container, and a /dev/shm larger than the memory limit."""
    for name, role in mapping(job.get("taskRoles")).items():
        limit: Any = mapping(mapping(role).get("resourcePerInstance")).get("memoryMB")
        shm: Any = mapping(mapping(role).get("extraContainerOptions")).get("shmMB")
        if not _is_number(limit):
            continue
        if limit < 2 * _RUNTIME_MB:
            verdict = "too little to start a task" if limit < _RUNTIME_MB else "very little"
            message = f"{limit} MB is {verdict}: the runtime alone needs about {_RUNTIME_MB}"
            yield source.warning(("taskRoles", name, "resourcePerInstance", "memoryMB"), message)
        if _is_number(shm) and shm > limit:
            message = (
                f"{shm} MB is more than the role's memoryMB of {limit}; files in /dev/shm count as memory"
                ", so the task is killed before /dev/shm is full"
            )
            yield source.warning(("taskRoles", name, "extraContainerOptions", "shmMB"), message)


def port_counts(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """The value is how many ports to reserve; 22, 80 and 443 are more likely port numbers."""
    for name, role in mapping(job.get("taskRoles")).items():
        ports = mapping(mapping(mapping(role).get("resourcePerInstance")).get("ports"))
        for label, count in ports.items():
            if _is_number(count) and count in _WELL_KNOWN_PORTS:
                path = ("taskRoles", name, "resourcePerInstance", "ports", label)
                message = f"this reserves {count:g} ports; for one port write 1, and kedge tells the task its number"
                yield source.warning(path, message, suggestion="1")


def _is_image(name: str) -> bool:
    try:
        parse(name)
    except ValueError:
        return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
