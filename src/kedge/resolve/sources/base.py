"""The interface of the sources that documents with prerequisites come from, and their common error."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kedge.errors import FORBIDDEN, INVALID, NOT_FOUND, UNKNOWN

MAX_DOCUMENT_BYTES = 1 << 20  # bytes

__all__ = [
    "FORBIDDEN", "INVALID", "MAX_DOCUMENT_BYTES", "NOT_FOUND", "UNKNOWN", "FetchedDocument", "Source", "Unavailable",
]  # fmt: skip


class FetchedDocument(NamedTuple):
    """The text of one or more items.

    `identity` is the same for all addresses of this document; `origin` is the path or URL that it was read from.
    `folder` is where relative paths in it start; None if it must not refer to files.
    """

    identity: str
    origin: str
    data: bytes
    folder: str | None = None
    version: str | None = None


class Unavailable(Exception):
    """A document cannot be fetched; `code` is the protocol's code for the reason (see kedge.errors)."""

    def __init__(self, message: str, code: str = INVALID) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Source(Protocol):
    """Fetches documents from one kind of place."""

    def fetch(self, place: str) -> FetchedDocument:
        """The document at a place (`ItemAddress.place`). Unavailable: there is none."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
