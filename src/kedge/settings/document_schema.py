"""The JSON Schema of one settings file, made from the table of settings and the engines that the file names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kedge.engines import registry
from kedge.errors import KedgeError, Problem
from kedge.lazy_modules import ENGINES
from kedge.settings.table import ANY_NAME, SETTINGS, Setting, engine_settings
from kedge.spec.model import JobFileSource, Path
from kedge.spec.tolerant import mapping

Document = Mapping[str, Any]


def rows(document: Document) -> tuple[Setting, ...]:
    """The settings that a file may have: those of the table, and those of the built-in engines and of the installed
    ones that the file names."""
    named = (*ENGINES, *(name for name in mapping(document.get("engines")) if name not in ENGINES))
    found = ((name, _options(name)) for name in named)
    return (*SETTINGS, *(row for name, options in found for row in engine_settings(name, options or ())))


def schema(settings: Iterable[Setting], document: Document) -> dict[str, Any]:
    """The schema for a file with these contents."""
    root = _table()
    for setting in settings:
        _insert(root, setting.key.split("."), setting)
    for name in map(str, mapping(document.get("engines"))):
        if _options(name) == ():  # an engine without options may have an empty table
            root["properties"]["engines"]["properties"].setdefault(name, _table())
    clusters = root["properties"]["virtual-clusters"]
    for cluster, entry in mapping(document.get("virtual-clusters")).items():
        clusters["properties"][cluster] = _of_cluster(clusters["additionalProperties"], mapping(entry).get("engine"))
    return root


def unknown_engines(document: Document, source: JobFileSource) -> Iterator[Problem]:
    """A problem for each value that names an engine which does not exist or cannot be used."""
    places: list[tuple[Path, object]] = [(("engine",), document.get("engine"))]
    for name, entry in mapping(document.get("virtual-clusters")).items():
        places.append((("virtual-clusters", name, "engine"), mapping(entry).get("engine")))
    for path, engine in places:
        if isinstance(engine, str) and engine:
            try:
                registry.options_of(engine)
            except KedgeError as error:
                yield source.problem(path, str(error))


def site_only_options(engine: object) -> set[str]:
    """The keys of the options of an engine that only the site's file may set."""
    return {option.key for option in _options(engine) or () if option.site_only}


def _options(engine: object) -> Any:
    """The options of an engine, or None if there is no such engine."""
    try:
        return registry.options_of(engine) if isinstance(engine, str) else None
    except KedgeError:
        return None


def _table() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _insert(node: dict[str, Any], steps: list[str], setting: Setting) -> None:
    first, *rest = steps
    if not rest:
        node["properties"][first] = dict(setting.schema)
        if setting.required:
            node.setdefault("required", []).append(first)
    elif first == ANY_NAME:
        if not node["additionalProperties"]:
            node["additionalProperties"] = _table()
        _insert(node["additionalProperties"], rest, setting)
    else:
        _insert(node["properties"].setdefault(first, _table()), rest, setting)


def _of_cluster(general: dict[str, Any], engine: object) -> dict[str, Any]:
    """The schema of one virtual cluster: its options are those of its engine."""
    options = _options(engine)
    if options is None:
        return general
    known = _table()
    for setting in engine_settings("", options):
        _insert(known, [setting.key.rpartition(".")[2]], setting)
    return {**general, "properties": {**general["properties"], "options": known}}
