"""The statuses of a framework's roles, which FrameworkController compresses if they are large."""

from __future__ import annotations

import binascii
import zlib

from kedge.light import json
from kedge.light.types import Any, Mapping

PLAIN = "taskRoleStatuses"
PACKED = "taskRoleStatusesCompressed"
_GZIP = 31  # zlib: only gzip
_LARGEST = 256 << 20  # bytes: about 1000 times what 10,000 tasks need


class DamagedStatuses(ValueError):
    """The compressed statuses cannot be read; the message starts with their name."""


def of_attempt(attempt: Mapping[str, Any]) -> Any:
    """The statuses in `status.attemptStatus`, as FrameworkController wrote them; an empty list without any.
    DamagedStatuses."""
    if plain := attempt.get(PLAIN):
        return plain
    packed = attempt.get(PACKED)
    return _unpacked(packed) if packed else []


def _unpacked(packed: Any) -> Any:
    try:
        unpacking = zlib.decompressobj(_GZIP)
        plain = unpacking.decompress(binascii.a2b_base64(packed), _LARGEST)
        if not unpacking.eof:
            raise DamagedStatuses(f"{PACKED} is cut off or larger than {_LARGEST >> 20} MiB")
        return json.loads(plain)
    except (ValueError, TypeError, zlib.error, RecursionError) as error:
        raise (
            error if isinstance(error, DamagedStatuses) else DamagedStatuses(f"{PACKED} is damaged: {error}")
        ) from None
