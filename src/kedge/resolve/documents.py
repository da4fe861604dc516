"""From the bytes of a document to the prerequisites in it."""

from __future__ import annotations

from kedge.errors import InputError, Problem
from kedge.resolve.sources.base import FetchedDocument
from kedge.spec import yaml
from kedge.spec.files import decode
from kedge.spec.model import Path
from kedge.spec.tolerant import entries, mapping


class NotRead(Exception):
    """A document that is no YAML; `problems` say where."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


def read(document: FetchedDocument) -> yaml.YamlDocument:
    """The values of a document. NotRead: it is no YAML."""
    try:
        found = yaml.read_any(decode(document.data, document.origin), document.origin)
    except InputError as error:
        raise NotRead(*(problem for problem in error.problems if isinstance(problem, Problem))) from None
    if found.problems:
        raise NotRead(*found.problems)
    return found


def named(found: yaml.YamlDocument, name: str) -> Path | None:
    """Where the only prerequisite of that name stands in a document; None if there is none, or several."""
    paths = [path for path, item in _listed(found) if item.get("name") == name]
    return paths[0] if len(paths) == 1 else None


def only(found: yaml.YamlDocument) -> Path | None:
    """Where the only prerequisite of a document stands; None if there is none, or several.

    The document is that prerequisite, a list of it, or a whole job, of which the images do not count.
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
