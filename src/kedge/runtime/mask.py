"""Replacing secret values in a stream of bytes, wherever the pieces of the stream happen to be cut."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SHORTEST = 8  # bytes; shorter values turn up by chance
MASKED = b"******"
_SHORTEST_ANCHOR = 4  # bytes; shorter ones are found too often to help

_ALWAYS_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
# What is left as it is besides: by urllib's quote_plus and quote, JavaScript's encodeURIComponent, Java, PHP.
_PLAIN = (b"~", b"~/", b"~!*'()", b"*", b"")
_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")


def maskable(values: Iterable[str]) -> tuple[bytes, ...]:
    """What is masked, longest first: each value, its forms in URLs, and its base64 wherever in a text it stands."""
    texts = {value.encode("utf-8", "surrogateescape") for value in values}
    forms = {form for text in texts if len(text) >= SHORTEST for form in _forms(text)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _forms(text: bytes) -> Iterator[bytes]:
    yield text
    for plain in _PLAIN:
        for hexadecimal in ("%%%02X", "%%%02x"):
            quoted = b"".join(_quoted(byte, plain, hexadecimal) for byte in text)
            yield from (quoted, quoted.replace(b"%20", b"+"))
    for before in range(3):
        encoded = _base64(text, before)
        yield from (encoded, encoded.translate(_URL_ALPHABET))


def _quoted(byte: int, plain: bytes, hexadecimal: str) -> bytes:
    return bytes([byte]) if byte in _ALWAYS_PLAIN or byte in plain else (hexadecimal % byte).encode()


def _base64(text: bytes, before: int) -> bytes:
    """The digits that only `text` decides when `before` bytes (modulo 3) precede it: each stands for six bits."""
    encoded = binascii.b2a_base64(bytes(before) + text, newline=False)
    return encoded[-(-before * 8 // 6) : (before + len(text)) * 8 // 6]


class Mask:
    """Masks one stream. At each place the longest secret wins; the result does not depend on the cuts.

    `secrets` as from `maskable`, not empty. A tail that may be the beginning of a secret is held back.
    """

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self._groups = _groups(secrets)
        self._secrets = secrets
        self._bytes = frozenset(b"".join(secrets))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The masked form of what can be told so far."""
        return self._masked(self._held + data if self._held else data, final=False)

    def finish(self) -> bytes:
        """What was held back, now that nothing follows."""
        return self._masked(self._held, final=True)

    def _masked(self, data: bytes, final: bool) -> bytes:
        done, result = 0, []
        likely = [secret for anchor, group in self._groups if anchor in data for secret in group]
        hits = [Hit(start, -len(secret), secret) for secret in likely if (start := data.find(secret)) >= 0]
        while True:
            doubtful = len(data) if final else self._beginning(data, done)
            hit = min(hits, default=None)
            if hit is None or hit.start >= doubtful:
                self._held = data[doubtful:]
                result.append(data[done:doubtful])
                return b"".join(result)
            result += (data[done : hit.start], MASKED)
            done = hit.start + len(hit.secret)
            hits = [later for each in hits if (later := each.from_(data, done))]

    def _beginning(self, data: bytes, done: int) -> int:
        """Where the tail begins that is a proper beginning of some secret; the end of `data` if there is none."""
        first = len(data)
        if not data or data[-1] not in self._bytes:
            return first
        for secret in self._secrets:
            start = data.find(secret[:1], max(done, len(data) - len(secret) + 1), first)
            while start >= 0:
                if secret.startswith(data[start:]):
                    first = start
                    break
                start = data.find(secret[:1], start + 1, first)
        return first


class Hit(NamedTuple):
    """A place where a secret stands. The smallest of several is to be masked first."""

    start: int
    minus_length: int
    secret: bytes

    def from_(self, data: bytes, done: int) -> Hit | None:
        """The same secret from `done` on."""
        if self.start >= done:
            return self
        start = data.find(self.secret, done)
        return self._replace(start=start) if start >= 0 else None


def _groups(secrets: tuple[bytes, ...]) -> list[tuple[bytes, list[bytes]]]:
    """The secrets by a part that they share: where that is not found, none of them has to be looked for. The forms of
    one value share its longest run of plain characters."""
    groups: list[tuple[bytes, list[bytes]]] = []
    for secret in reversed(secrets):  # shortest first: a value comes before its forms in URLs
        group = next((group for anchor, group in groups if anchor in secret), None)
        if group is None:
            group = []
            groups.append((_anchor(secret), group))
        group.append(secret)
    return groups


def _anchor(secret: bytes) -> bytes:
    plain = bytes(byte if chr(byte).isalnum() and byte < 128 else 0 for byte in secret)  # the same in both alphabets
    longest = max(plain.split(b"\0"), key=len)
    return longest if len(longest) >= _SHORTEST_ANCHOR else secret


def masked(data: bytes, secrets: tuple[bytes, ...]) -> bytes:
    """All of a text at once."""
    if not secrets:
        return data
    mask = Mask(secrets)
    return mask.feed(data) + mask.finish()
