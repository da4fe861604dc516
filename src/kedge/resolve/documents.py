"""Reads the prerequisites in a document."""

from __future__ import annotations

from kedge.errors import InputError, Problem
from kedge.resolve.sources.base import FetchedDocument
from kedge.spec import yaml
from kedge.spec.files import decode
from kedge.spec.model import Path
from kedge.spec.tolerant import entries, mapping


class UnreadableDocument(Exception):
    """A document that is not valid YAML; `problems` have the positions."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


def read(document: FetchedDocument) -> yaml.YamlDocument:
    """The values of a document. UnreadableDocument: it is not valid YAML."""
    try:
        found = yaml.read_any(decode(document.data, document.origin), document.origin)
    except InputError as error:
        raise UnreadableDocument(*(problem for problem in error.problems if isinstance(problem, Problem))) from None
    if found.problems:
        raise UnreadableDocument(*found.problems)
    return found


def named(found: yaml.YamlDocument, name: str) -> Path | None:
    """The path of the only prerequisite with this name in a document; None if there is none or more than one."""
    paths = [path for path, item in _listed(found) if item.get("name") == name]
    return paths[0] if len(paths) == 1 else None


def only(found: yaml.YamlDocument) -> Path | None:
    """The path of the only prerequisite in a document; None if there is none or more than one.

    The document may be the prerequisite itself, a list of one, or a whole job, whose images do not count.
    """
    listed = _listed(found)
    if "prerequisites" in mapping(found.value):
        listed = [(path, item) for path, item in listed if item.get("type") != "dockerimage"]
    return listed[0][0] if len(listed) == 1 else None


def _listed(found: yaml.YamlDocument) -> list[tuple[Path, dict[str, object]]]:
    if isinstance(found.value, list):
        return [((index,), dict(item)) for index, item in entries(found.value)]
    top = mapping(found.value)
    if "prerequisites" in top:
        return [(("prerequisites", index), dict(item)) for index, item in entries(top["prerequisites"])]
    return [((), dict(top))] if top and "taskRoles" not in top else []
