"""Keys that differ from a known one by a typing mistake, in places where any key may stand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from kedge.errors import Problem
from kedge.spec.lint import texts
from kedge.spec.message_text import MOST_PROBLEMS, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.plugins import handler
from kedge.spec.schema import schema
from kedge.spec.suggest import mistyped
from kedge.spec.tolerant import entries, mapping


def keys(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A warning for each such key. Of a prerequisite that refers to its key by `<% this.key %>`, the key is meant."""
    for path, value, known in _open_mappings(job):
        unknown = [key for key in value if key not in known]
        free = [key for key in known if key not in value]
        for key in islice(unknown, MOST_PROBLEMS):
            meant = mistyped(key, free)
            if meant and f"this.{key}" not in source.text:
                message = f"{quote(key)} is a key that kedge does not know; did you mean {quote(meant)}?"
                yield source.warning((*path, key), message, key=True)


def checksum_without_uri(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A checksum is for what is downloaded, and without a `uri` nothing is."""
    for path, item in texts.prerequisites(job):
        if _lacks_uri(item):
            meant = mistyped("uri", [key for key in item if key != "sha256"])
            hint = f"; {quote(meant)} is not one of its keys; write 'uri'" if meant else ""
            where = (*path, meant or "sha256")
            yield source.problem(where, f"'sha256' needs a 'uri' from which to download{hint}", key=True)._replace(
                suggestion="uri" if meant else None
            )


def _lacks_uri(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "data" and "sha256" in item and "uri" not in item and handler(item) is None


def _open_mappings(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any], Collection[str]]]:
    """Path and value of each mapping that takes any key, and the keys that mean something in it."""
    parts = schema()["$defs"]
    for path, item in texts.prerequisites(job):
        if item.get("type") != "dockerimage":
            shape = "dataPrerequisite" if item.get("type") == "data" else "uriPrerequisite"
            known = parts[shape]["properties"]
            yield path, item, [key for key in known if key != "uri"] if _lacks_uri(item) else known
    options = parts["taskRole"]["properties"]["extraContainerOptions"]["properties"]
    for name, role in mapping(job.get("taskRoles")).items():
        path = ("taskRoles", name, "extraContainerOptions")
        yield path, mapping(mapping(role).get("extraContainerOptions")), options
    for index, deployment in entries(job.get("deployments")):
        yield ("deployments", index), deployment, parts["deployment"]["properties"]
    yield ("defaults",), mapping(job.get("defaults")), schema()["properties"]["defaults"]["properties"]
    yield ("extras",), mapping(job.get("extras")), parts["extras"]["properties"]
