"""Documents in files of this machine."""

from __future__ import annotations

import errno
import os

from kedge import user_files
from kedge.resolve.sources.base import INVALID, MAX_DOCUMENT_BYTES, FetchedDocument, Unavailable


class Files:
    """Places are absolute paths, or paths relative to the working directory."""

    def fetch(self, place: str) -> FetchedDocument:
        return FetchedDocument(os.path.realpath(place), place, read(place, INVALID), folder=os.path.dirname(place))

    def close(self) -> None:
        pass


def read(path: str, missing: str) -> bytes:
    """The bytes of a regular file of at most 1 MiB. Unavailable: with the code `missing` if there is no such file."""
    try:
        return user_files.read(path, MAX_DOCUMENT_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise Unavailable(f"there is no file {path}", missing) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise Unavailable(f"{path} is larger than {MAX_DOCUMENT_BYTES >> 20} MiB") from None
        raise Unavailable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
