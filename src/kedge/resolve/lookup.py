"""Finds the item that a reference to a prerequisite means, depending on the place of the reference."""

from __future__ import annotations

import os
from typing import NamedTuple

from kedge.resolve import documents
from kedge.resolve.document_store import DocumentStore
from kedge.resolve.sources.base import INVALID, NOT_FOUND, FetchedDocument, Unavailable
from kedge.spec import addresses, yaml
from kedge.spec.addresses import FILE, MARKETPLACE, ItemAddress
from kedge.spec.marks import node_at
from kedge.spec.message_text import bare
from kedge.spec.model import Job, JobFileSource, Path, Prerequisite
from kedge.spec.nodes import Node
from kedge.spec.suggest import did_you_mean, sentence


class ItemPlace(NamedTuple):
    """The place of an item, which decides how its own references are read: the folder that relative paths start in
    (None if it must not refer to files), the document around it (None for the job file), and whether that document is
    from the marketplace."""

    folder: str | None
    document: FetchedDocument | None = None
    marketplace: bool = False


class Template(NamedTuple):
    """An item as found, before its values are filled in.

    `key` is the same for all references to it; `display` is its name in messages. `origin` is the path or URL that it
    was read from, empty for the job file.
    """

    key: str
    display: str
    node: Node
    source: JobFileSource
    path: Path
    place: ItemPlace
    origin: str = ""
    version: str | None = None


class Lookup:
    """Finds the items of one job."""

    def __init__(self, job: Job, store: DocumentStore) -> None:
        self._job = job
        self._store = store
        self._read: dict[str, yaml.YamlDocument] = {}
        self.job_place = ItemPlace(os.path.dirname(job.source.file))
        self._named: dict[str, list[Prerequisite]] = {}
        for item in (*job.prerequisites, *job.references):
            self._named.setdefault(item.name, []).append(item)

    def find(self, reference: str, place: ItemPlace) -> Template:
        """The item that a reference in an item at `place` means. Unavailable, UnreadableDocument: there is none."""
        shown = bare(reference)
        try:
            address = addresses.parse(reference)
        except ValueError:
            raise Unavailable(f"Prerequisite reference {shown} is invalid. {addresses.FORMS}") from None
        if address is not None:
            return self._elsewhere(address, reference, place)
        if reference in self._named:
            return self.of_job(_with_plugin(self._named[reference]))
        if place.marketplace:
            by_name = addresses.by_name(reference)
            return self._elsewhere(ItemAddress(MARKETPLACE, f"{addresses.ANY_TYPE}/{reference}"), by_name, place)
        return self._in_same_document(reference, place)

    def of_job(self, item: Prerequisite) -> Template:
        """An item of the job file."""
        source = self._job.source
        return Template(f"job {item.path}", item.name, node_at(source, item.path), source, item.path, self.job_place)

    def _in_same_document(self, name: str, place: ItemPlace) -> Template:
        if place.document is not None:
            found = self._values(place.document)
            path = documents.named(found, name)
            if path is not None:
                return _template(place.document, found, path, name, place)
        raise Unavailable(f"Prerequisite {bare(name)} does not exist.{sentence(did_you_mean(name, self._named))}")

    def _elsewhere(self, address: ItemAddress, reference: str, place: ItemPlace) -> Template:
        try:
            document = self._store.document(address, place.folder)
        except Unavailable as error:
            raise Unavailable(_why(address, reference, error), error.code) from None
        found = self._values(document)
        path = documents.named(found, address.fragment) if address.fragment else documents.only(found)
        if path is None and address.fragment:
            raise Unavailable(
                f"Prerequisite {bare(reference)} does not exist: {document.origin} has no such item", NOT_FOUND
            )
        if path is None:
            name = document.identity.removeprefix("marketplace://") if address.kind == MARKETPLACE else reference
            raise Unavailable(f"Item {bare(name)} is not a prerequisite.", INVALID)
        around = ItemPlace(document.folder, document, address.kind == MARKETPLACE)
        template = _template(document, found, path, reference, around)
        if path == () and template.version:  # the item is the whole document
            self._store.note_version(address, template.version)
        return template

    def _values(self, document: FetchedDocument) -> yaml.YamlDocument:
        if document.identity not in self._read:
            self._read[document.identity] = documents.read(document)
        return self._read[document.identity]


def _template(
    document: FetchedDocument, found: yaml.YamlDocument, path: Path, display: str, place: ItemPlace
) -> Template:
    key = f"{document.identity} {path}"
    node = node_at(found.source, path)
    version = node.value.get("version") if isinstance(node.value, dict) else None
    return Template(
        key, display, node, found.source, path, place, document.origin, document.version or (version and str(version))
    )


def _with_plugin(items: list[Prerequisite]) -> Prerequisite:
    """Of items with the same name and different types, the one that has a plugin; otherwise the first."""
    return next((item for item in items if item.plugin), items[0])


def _why(address: ItemAddress, reference: str, error: Unavailable) -> str:
    if error.code == NOT_FOUND or (address.kind == FILE and error.message.startswith("there is no file")):
        return f"Prerequisite {bare(reference)} does not exist: {error.message}"
    return f"Prerequisite {bare(reference)}: {error.message}"
