"""Where prerequisites come from: what each source does, and how it says that it cannot."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kedge.errors import FORBIDDEN, INVALID, NOT_FOUND, UNKNOWN

LARGEST_DOCUMENT = 1 << 20  # bytes

__all__ = [
    "FORBIDDEN", "INVALID", "LARGEST_DOCUMENT", "NOT_FOUND", "UNKNOWN", "FetchedDocument", "Source", "Unavailable",
]  # fmt: skip


class FetchedDocument(NamedTuple):
    """The text of one or more items.

    `identity` is the same for all addresses that mean this document; `origin` is the path or URL it was read from.
    `folder` is where relative paths in it start, None where files may not be named.
    """

    identity: str
    origin: str
    data: bytes
    folder: str | None = None
    version: str | None = None


class Unavailable(Exception):
    """A document that cannot be had; `code` is the protocol's name for the kind of reason (kedge.errors)."""

    def __init__(self, message: str, code: str = INVALID) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Source(Protocol):
    """One kind of place."""

    def fetch(self, place: str) -> FetchedDocument:
        """The document at a place (`ItemAddress.place`). Unavailable says why there is none."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...
