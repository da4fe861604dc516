"""Misspelled keys in mappings that accept any key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from kedge.errors import Problem
from kedge.spec.lint import texts
from kedge.spec.message_text import MAX_PROBLEMS, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.plugins import handler
from kedge.spec.schema import schema
from kedge.spec.suggest import mistyped
from kedge.spec.tolerant import entries, mapping


def keys(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A warning for each misspelled key. A key that the file refers to as `<% this.key %>` is intended."""
    for path, value, known in _open_mappings(job):
        unknown = [key for key in value if key not in known]
        free = [key for key in known if key not in value]
        for key in islice(unknown, MAX_PROBLEMS):
            meant = mistyped(key, free)
            if meant and f"this.{key}" not in source.text:
                message = f"unknown key {quote(key)}; did you mean {quote(meant)}?"
                yield source.warning((*path, key), message, key=True)


def checksum_without_uri(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A checksum needs a download, and without a `uri` there is none."""
    for path, item in texts.prerequisites(job):
        if _has_checksum_only(item):
            meant = mistyped("uri", [key for key in item if key != "sha256"])
            hint = f"; replace the unknown key {quote(meant)} with 'uri'" if meant else ""
            where = (*path, meant or "sha256")
            yield source.problem(where, f"'sha256' needs a 'uri' to download from{hint}", key=True)._replace(
                suggestion="uri" if meant else None
            )


def _has_checksum_only(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "data" and "sha256" in item and "uri" not in item and handler(item) is None


def _open_mappings(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any], Collection[str]]]:
    """Path, value and known keys of each mapping that accepts any key."""
    parts = schema()["$defs"]
    for path, item in texts.prerequisites(job):
        if item.get("type") != "dockerimage":
            shape = "dataPrerequisite" if item.get("type") == "data" else "uriPrerequisite"
            known = parts[shape]["properties"]
            yield path, item, [key for key in known if key != "uri"] if _has_checksum_only(item) else known
    options = parts["taskRole"]["properties"]["extraContainerOptions"]["properties"]
    for name, role in mapping(job.get("taskRoles")).items():
        path = ("taskRoles", name, "extraContainerOptions")
        yield path, mapping(mapping(role).get("extraContainerOptions")), options
    for index, deployment in entries(job.get("deployments")):
        yield ("deployments", index), deployment, parts["deployment"]["properties"]
    yield ("defaults",), mapping(job.get("defaults")), schema()["properties"]["defaults"]["properties"]
    yield ("extras",), mapping(job.get("extras")), parts["extras"]["properties"]
