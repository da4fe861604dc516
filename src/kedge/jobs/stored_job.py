"""The job file of a run as a text that runs elsewhere: with the run's parameters and variables, and with the places of
its code, rules and prerequisites as they are there."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kedge.masking import MASKED
from kedge.resolve.code import WORKDIR, is_local
from kedge.resolve.model import RunRecord
from kedge.runs.run_options import RunOptions
from kedge.spec import yaml
from kedge.spec.addresses import FILE, MARKETPLACE, parse
from kedge.spec.edit import edited
from kedge.spec.model import Job, Path, Prerequisite
from kedge.spec.references import OPEN
from kedge.spec.tolerant import mapping
from kedge.spec.yaml_escapes import LATER

Changes = dict[Path, Any]
_KEDGE = ("extras", "kedge")


class PartPlaces(NamedTuple):
    """Where the parts of a job are, as its file refers to them: snapshots of code by name, rule files in order, and
    documents with prerequisites by their old absolute path or their URL. `marketplace` is a folder or a URL, None if it
    stays."""

    code: Mapping[str, str]
    rules: Sequence[str]
    files: Mapping[str, str]
    marketplace: str | None = None


def text(record: RunRecord, job: Job, options: RunOptions, places: PartPlaces) -> str:
    """The job file with these places. InputError: the stored file is damaged."""
    folder = os.path.dirname(record.file)
    changes = {
        **_code(job, options, places),
        **_rules(job, places),
        **references(job.source.text, places.files, folder, "."),
        **_values(job, options),
    }
    if places.marketplace is not None and places.marketplace != job.kedge.marketplace:
        changes[*_KEDGE, "marketplace"] = places.marketplace
    return edited(record.text, changes, record.file)


def absolute(written: str, folder: str) -> str:
    """The path that the user wrote, absolute; `folder` is where relative ones start."""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(written)))


def code_paths(job: Job, options: RunOptions, folder: str, snapshots: Collection[str]) -> dict[str, str]:
    """Where each snapshot of the job's code was, by its name. `snapshots` are the names of those that there are."""
    used = {role.script for role in job.task_roles.values()} if options.workdir is None else set()
    found = {}
    for item in job.prerequisites:
        if item.type == "script" and item.name in used and (item.name in snapshots or _local_uri(item)):
            found[item.name] = absolute(_local_uri(item) or f"/{item.name}", folder)
    workdir = options.workdir or job.kedge.workdir
    if workdir and (options.workdir or WORKDIR in snapshots):
        found[WORKDIR] = absolute(workdir, folder)
    return found


def references(content: str, files: Mapping[str, str], folder: str, new_folder: str) -> Changes:
    """The references to documents that change when the document with this content moves from `folder` to `new_folder`,
    with their new texts; `files` has the new places of documents by their old absolute paths and URLs."""
    changes: Changes = {}
    for path, written in _referring(yaml.read_any(content, "").value, ()):
        try:
            address = parse(written)
        except ValueError:
            continue
        if address is None or address.kind == MARKETPLACE:
            continue
        is_file = address.kind == FILE
        place = files.get(os.path.normpath(os.path.join(folder, address.place)) if is_file else address.place)
        same = os.path.normpath(os.path.join(new_folder, address.place)) if is_file else None
        if place is not None and os.path.normpath(place) != same:
            new = place if os.path.isabs(place) else dotted(os.path.relpath(place, new_folder))
            changes[path] = f"{new}#{address.fragment}" if address.fragment else new
    return changes


def dotted(path: str) -> str:
    """A relative path as one that is recognised as a path: `./x`."""
    return path if path.startswith(("/", "../")) or path == ".." else f"./{path}"


def _referring(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Every string in `require`, and in the `prerequisites` of a role."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    listed = isinstance(value, list) and path[-1:] in (("require",), ("prerequisites",))
    for step, below in steps:
        name = mapping(below).get("name") if path[-1:] == ("require",) else None
        if listed and isinstance(below, str):
            yield (*path, step), below
        elif isinstance(name, str):
            yield (*path, step, "name"), name
        else:
            yield from _referring(below, (*path, step))


def _local_uri(item: Prerequisite) -> str | None:
    """The path of a script, as far as it is known before anything in it is filled in."""
    uri = item.data.get("uri")
    is_path = isinstance(uri, str) and is_local(uri) and OPEN not in uri and not LATER.search(uri)
    return str(uri) if is_path else None


def _code(job: Job, options: RunOptions, places: PartPlaces) -> Changes:
    """Changed places of code. The folder of --workdir, which took precedence, becomes that of every script, too."""
    changes: Changes = {}
    everywhere = places.code.get(WORKDIR) if options.workdir else None
    for item in job.prerequisites:
        uri = _local_uri(item)
        place = everywhere if everywhere and uri else places.code.get(item.name)
        if item.type == "script" and place and not (uri and _is_at(uri, place)):
            changes[*item.path, "uri"] = place
    place = places.code.get(WORKDIR)
    if place and not (job.kedge.workdir and _is_at(job.kedge.workdir, place)):
        changes[*_KEDGE, "workdir"] = place
    return changes


def _rules(job: Job, places: PartPlaces) -> Changes:
    written = job.kedge.rules
    same = len(written) == len(places.rules)
    if same and all(_is_at(old, new) for old, new in zip(written, places.rules, strict=True)):
        return {}
    return {(*_KEDGE, "rules"): list(places.rules)}


def _is_at(written: str, place: str) -> bool:
    """Whether what is written means this place already: the same path, relative to the file or absolute."""
    if os.path.isabs(place):
        return written == place
    return not os.path.isabs(os.path.expanduser(written)) and os.path.normpath(written) == os.path.normpath(place)


def _values(job: Job, options: RunOptions) -> Changes:
    """Parameters and environment variables that were given on the command line; not those that held a secret."""
    changes: Changes = {("parameters", name): text for name, text in options.parameters.items() if MASKED not in text}
    for name, value in options.env.items():
        if MASKED not in value:
            changes[*_KEDGE, "env", name] = value
            roles = (role for role, settings in job.kedge.task_roles.items() if name in settings.env)
            changes |= {(*_KEDGE, "taskRoles", role, "env", name): value for role in roles}
    return changes
