"""Replacing secret values in a stream of bytes, wherever the pieces of the stream happen to be cut."""

from __future__ import annotations

from collections.abc import Iterable

SHORTEST = 8  # bytes; shorter values turn up by chance
MASKED = b"******"


def maskable(values: Iterable[str]) -> tuple[bytes, ...]:
    """The values that are masked, longest first."""
    texts = {value.encode("utf-8", "surrogateescape") for value in values}
    return tuple(sorted((text for text in texts if len(text) >= SHORTEST), key=lambda text: (-len(text), text)))


class Mask:
    """Masks one stream. At each place the longest secret wins; the result does not depend on the cuts.

    `secrets` as from `maskable`, not empty. A tail that may be the beginning of a secret is held back.
    """

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self._secrets = secrets
        self._reach = max(map(len, secrets)) - 1
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The masked form of what can be told so far."""
        data = self._held + data
        done, result = 0, []
        while True:
            doubtful = self._beginning(data, done)
            start, end = self._next(data, done, doubtful)
            result.append(data[done:start])
            if start == doubtful:
                self._held = data[start:]
                return b"".join(result)
            result.append(MASKED)
            done = end

    def finish(self) -> bytes:
        """What was held back, now that nothing follows."""
        data, self._held = self._held, b""
        done, result = 0, []
        while True:
            start, end = self._next(data, done, len(data))
            result.append(data[done:start])
            if start == len(data):
                return b"".join(result)
            result.append(MASKED)
            done = end

    def _next(self, data: bytes, done: int, limit: int) -> tuple[int, int]:
        """Start and end of the first secret that starts before `limit`; (limit, limit) if there is none."""
        found = (limit, limit)
        for secret in self._secrets:  # longest first, so that it keeps a place it shares
            start = data.find(secret, done, min(len(data), found[0] - 1 + len(secret)))
            if 0 <= start < found[0]:
                found = (start, start + len(secret))
        return found

    def _beginning(self, data: bytes, done: int) -> int:
        """Where the tail begins that is a proper beginning of some secret; the end of `data` if there is none."""
        first = len(data)
        for secret in self._secrets:
            start = data.find(secret[:1], max(done, len(data) - len(secret) + 1), first)
            while start >= 0:
                if secret.startswith(data[start:]):
                    first = start
                    break
                start = data.find(secret[:1], start + 1, first)
        return first
