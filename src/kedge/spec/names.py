"""Checks that every name in a job file is defined exactly once, and that role names can become host names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kedge.errors import Problem
from kedge.spec import addresses
from kedge.spec.message_text import bare, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.plugins import RUNTIME_PLUGINS, handler
from kedge.spec.suggest import did_you_mean, name_list, sentence
from kedge.spec.tolerant import entries, items, mapping
from kedge.spec.yaml_escapes import LATER

_LONGEST_CONVERTED = 63  # characters of a label in a host name
_ROLE_KEYS = {"dockerImage": "dockerimage", "data": "data", "output": "output", "script": "script"}

Job = Mapping[str, Any]


def _prerequisites(job: Job) -> Iterator[tuple[Path, str, str, Mapping[str, Any]]]:
    """Path, type, name and value of each prerequisite that has a type and a name."""
    for index, item in entries(job.get("prerequisites")):
        if isinstance(item.get("name"), str) and isinstance(item.get("type"), str):
            yield ("prerequisites", index), item["type"], item["name"], item


def _reference_prerequisites(job: Job) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """Path, name and value of each prerequisite that is defined elsewhere and used under a local name."""
    for index, item in entries(mapping(job.get("extras")).get("reference_prerequisites")):
        if isinstance(item.get("name"), str):
            yield ("extras", "reference_prerequisites", index), item["name"], item


def _duplicates(named: Iterable[tuple[Path, str, object]], source: JobFileSource) -> Iterator[Problem]:
    """A problem for each entry (path, start of the message, identity) that repeats the identity of an earlier one."""
    first: dict[object, Path] = {}
    for path, message, identity in named:
        if identity in first:
            line = source.mark((*first[identity], "name")).line
            yield source.problem((*path, "name"), f"{message} is already defined in line {line}")
        first.setdefault(identity, path)


def _duplicate_prerequisites(job: Job, source: JobFileSource) -> Iterator[Problem]:
    own = [
        (path, f"duplicate {kind} prerequisite {quote(name)}; it", (kind, name))
        for path, kind, name, _ in _prerequisites(job)
    ]
    yield from _duplicates(own, source)
    names = {name: (path, "", name) for path, _, name, _ in reversed(list(_prerequisites(job)))}
    references = [
        (path, f"Duplicate reference prerequisites {bare(name)}. It", name)
        for path, name, _ in _reference_prerequisites(job)
    ]
    yield from _duplicates([*names.values(), *references], source)


def _duplicate_deployments(job: Job, source: JobFileSource) -> Iterator[Problem]:
    named = [
        (("deployments", index), f"duplicate deployment {quote(item['name'])}; it", item["name"])
        for index, item in entries(job.get("deployments"))
        if isinstance(item.get("name"), str)
    ]
    return _duplicates(named, source)


def _role_prerequisites(job: Job, source: JobFileSource) -> Iterator[Problem]:
    """`dockerImage`, `data`, `output` and `script` of a role must name a prerequisite of that type."""
    types: dict[str, dict[str, None]] = {}
    for _, kind, name, _ in _prerequisites(job):
        types.setdefault(name, {})[kind] = None
    for role, value in mapping(job.get("taskRoles")).items():
        for key, kind in _ROLE_KEYS.items():
            wanted = mapping(value).get(key)
            if isinstance(wanted, str) and kind not in types.get(wanted, ()):
                yield source.problem(("taskRoles", role, key), _not_of_type(wanted, kind, types))


def _not_of_type(name: str, kind: str, types: Mapping[str, Mapping[str, None]]) -> str:
    message = f"no {kind} prerequisite is named {quote(name)}"
    if name in types:
        return f"{message}; it has the type {' and '.join(map(quote, types[name]))}"
    known = [other for other, kinds in types.items() if kind in kinds]
    return message + (did_you_mean(name, known) or (f"; there are {name_list(known)}" if known else "; there is none"))


def _lists_of_prerequisites(job: Job, source: JobFileSource) -> Iterator[Problem]:
    """Everything that a role or a prerequisite requires must be an address or be defined in the job."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for _, _, name, item in _prerequisites(job):
        named.setdefault(name, []).append(item)
    for _, name, item in _reference_prerequisites(job):
        named.setdefault(name, []).append(item)
    for path, name in _required(job):
        if message := _why_not_usable(name, named):
            yield source.problem(path, message)


def _required(job: Job) -> Iterator[tuple[Path, str]]:
    """Path and text of each entry in the `prerequisites` of roles and the `require` of prerequisites."""
    for role, value in mapping(job.get("taskRoles")).items():
        for index, name in enumerate(items(mapping(value).get("prerequisites"))):
            if isinstance(name, str):
                yield ("taskRoles", role, "prerequisites", index), name
    everything = [(path, item) for path, _, _, item in _prerequisites(job)]
    everything += [(path, item) for path, _, item in _reference_prerequisites(job)]
    for path, item in everything:
        for index, required in enumerate(items(item.get("require"))):
            name = required.get("name") if isinstance(required, dict) else required
            if isinstance(name, str) and not LATER.search(name):
                yield (*path, "require", index, *(("name",) if isinstance(required, dict) else ())), name


def _why_not_usable(name: str, named: Mapping[str, list[Mapping[str, Any]]]) -> str | None:
    """Why a reference does not name exactly one prerequisite; None if it does, or if it is an address."""
    try:
        if addresses.parse(name) is not None:
            return None
    except ValueError:
        return f"Prerequisite reference {bare(name)} is invalid. {addresses.FORMS}"
    if name not in named:
        return f"Prerequisite {bare(name)} does not exist.{sentence(did_you_mean(name, named))}"
    kinds = {_kind(item) for item in named[name] if handler(item)} or {_kind(item) for item in named[name]}
    if len(kinds) > 1:
        return f"{quote(name)} is ambiguous: prerequisites of type {' and '.join(sorted(kinds))}; rename one of them"
    return None


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("type"))


def _default_deployment(job: Job, source: JobFileSource) -> Iterator[Problem]:
    name = mapping(job.get("defaults")).get("deployment")
    known = [str(item.get("name")) for _, item in entries(job.get("deployments"))]
    if isinstance(name, str) and name not in known:
        message = f"no deployment is named {quote(name)}{did_you_mean(name, known)}"
        yield source.problem(("defaults", "deployment"), message)


def _roles(job: Job, source: JobFileSource) -> Iterator[Problem]:
    """Every role name in the file must be one of the job's task roles."""
    roles = mapping(job.get("taskRoles"))
    for path, name, is_key in _named_roles(job):
        if name not in roles:
            message = f"no task role is named {quote(name)}{did_you_mean(name, roles)}"
            yield source.problem(path, message, key=is_key)


def _named_roles(job: Job) -> Iterator[tuple[Path, str, bool]]:
    """Path and name of each mention of a role, and whether it is a key."""
    extras = mapping(job.get("extras"))
    for index, deployment in entries(job.get("deployments")):
        for name in mapping(deployment.get("taskRoles")):
            yield ("deployments", index, "taskRoles", name), name, True
    for index, plugin in entries(extras.get(RUNTIME_PLUGINS)):
        for at, name in enumerate(items(plugin.get("taskroles"))):
            if isinstance(name, str):
                yield ("extras", RUNTIME_PLUGINS, index, "taskroles", at), name, False
    for key in ("capabilities", "taskRoles"):
        for name in mapping(mapping(extras.get("kedge")).get(key)):
            yield ("extras", "kedge", key, name), name, True
    for key in ("hivedScheduler", "hivedscheduler"):
        for name in mapping(mapping(extras.get(key)).get("taskRoles")):
            yield ("extras", key, "taskRoles", name), name, True


def _converted_names(job: Job, source: JobFileSource) -> Iterator[Problem]:
    """Kubernetes objects carry role names in lower case and without '_'; the result must be unique and a host name."""
    first: dict[str, str] = {}
    for role in mapping(job.get("taskRoles")):
        short = role.replace("_", "").lower()
        if message := _not_convertible(role, short, first):
            yield source.problem(("taskRoles", role), message, key=True)
        first.setdefault(short, role)


def _not_convertible(role: str, short: str, first: Mapping[str, str]) -> str | None:
    if not short:
        return "a role name needs a letter or a digit besides '_'"
    if len(short) > _LONGEST_CONVERTED:
        return f"a role name may have at most {_LONGEST_CONVERTED} letters and digits, not {len(short)}"
    if short in first:
        both = f"{quote(first[short])} and {quote(role)}"
        return f"{both} become the same host name, which has no upper case and no '_'; rename one"
    return None


NAME_CHECKS = (
    _duplicate_prerequisites,
    _duplicate_deployments,
    _role_prerequisites,
    _lists_of_prerequisites,
    _default_deployment,
    _roles,
    _converted_names,
)
