"""Replacing secrets in a stream of bytes, wherever the stream is cut into pieces.

Searching for hundreds of forms must be cheap. So only every `stride`-th byte of the text is searched (the sample).
Wherever a secret begins, the sample holds `count` of its first bytes in a row (a key), starting at one of the first
`stride` offsets in the secret. One matcher searches the sample for all keys of all forms; each match is then compared
in full.
"""

from __future__ import annotations

import sys
import time

from kedge import masking
from kedge.light.types import Any, Iterable, Iterator, NamedTuple

MASKED = masking.MASKED.encode()
AT_ONCE = 1 << 18  # bytes of a text: more take more memory and are not faster
_MIN_KEY, _MAX_KEY = 4, 5  # bytes in a key; shorter keys match too often by chance
_MAX_STRIDE = 8  # beyond this, other costs dominate
_WORTH_LOADING = 1 << 16  # bytes of samples from which the matcher is worth loading
_WORTH_CALLING = 1 << 6  # bytes of one sample from which the matcher is worth calling
_MAX_MATCHES = 64  # matches in one sample, after which a plain loop is faster
_MATCHER_BYTES = 64 << 20  # limit for the matcher's program and automaton
_MAX_KEYS = 1 << 15  # with more keys, compiling the matcher takes too long
_SLOW_SEC = 5e-7  # per byte of a sample: then the automaton exceeds its memory limit, and a plain loop is faster
_TRIAL = 1 << 19  # bytes of samples after which the matcher's speed is judged

Table = dict[bytes, list[tuple[bytes, int]]]


def finder(values: Iterable[str], site: str | None = None) -> Finder | None:
    """A Finder for these secrets in all their forms. None if there is nothing to mask."""
    values = tuple(values)
    if not values:  # as in most jobs: what makes the forms is not loaded
        return None
    from kedge.runtime.logs.secret_forms import maskable

    forms = maskable(values)
    return Finder(forms, site) if forms else None


class Finder:
    """Finds secrets in a text: whole ones, and one that the end of the text may cut off. `site` is a folder of
    installed packages that may hold google-re2; without it, long texts take longer."""

    def __init__(self, secrets: tuple[bytes, ...], site: str | None = None) -> None:
        shortest = min(map(len, secrets))
        self.stride = max(1, min(shortest // _MIN_KEY, _MAX_STRIDE))
        self.count = min(shortest // self.stride, _MAX_KEY)
        self._reach = self.stride * self.count  # the sample is sure to hold a key of a beginning of this many bytes
        self._secrets = sorted(secrets)
        self._table = self._keys()
        self._lengths = self._beginning_lengths()
        self._site = site
        self._seen, self._spent = 0, 0.0  # bytes of samples, seconds of the matcher
        self._matcher: Any = None

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The start and end of each secret, in no order. An end beyond `data` means that `data` cuts the secret off."""
        for sample_at in self._matches(data[:: self.stride]):
            at = sample_at * self.stride
            for secret, offset in self._table[data[at : at + self._key_span() : self.stride]]:
                start = at - offset
                if start >= 0 and data.startswith(secret[: len(data) - start], start):
                    yield start, start + len(secret)
        if data and (start := self._short_beginning(data)) < len(data):
            yield start, len(data) + 1

    def may_hold(self, data: bytearray, length: int) -> bool:
        """Whether the first `length` bytes of `data` may hold a secret or end with the beginning of one. Cheaper than
        `find`, because it copies the samples alone."""
        tail = bytes(data[max(0, length - self._reach) : length])
        if tail and self._short_beginning(tail) < len(tail):
            return True
        for at in range(0, length, AT_ONCE):  # a secret that begins in a piece has its first key in it or right behind
            sample = data[at : min(at + AT_ONCE + self._reach, length) : self.stride]
            if next(self._matches(bytes(sample)), None) is not None:
                return True
        return False

    def _key_span(self) -> int:
        return (self.count - 1) * self.stride + 1

    def _keys(self) -> Table:
        """The keys that a sample can hold, each with its secrets and its offsets in them."""
        table: Table = {}
        for secret in self._secrets:
            for offset in range(self.stride):
                key = secret[offset : offset + self._key_span() : self.stride]
                table.setdefault(key, []).append((secret, offset))
        return table

    def _beginning_lengths(self) -> dict[int, list[int]]:
        """For each byte, the lengths of the beginnings (shorter than `_reach`) that end with it, the longest first."""
        lengths: dict[int, set[int]] = {}
        for secret in self._secrets:
            for place, byte in enumerate(secret[: self._reach - 1]):
                lengths.setdefault(byte, set()).add(place + 1)
        return {byte: sorted(found, reverse=True) for byte, found in lengths.items()}

    def _short_beginning(self, data: bytes) -> int:
        """Where `data` ends with the beginning of a secret that is too short for the sample; else its length."""
        from bisect import bisect_left  # needed with secrets only

        for length in self._lengths.get(data[-1], ()):
            tail = data[-length:]
            near = bisect_left(self._secrets, tail)
            if near < len(self._secrets) and self._secrets[near].startswith(tail):
                return len(data) - len(tail)
        return len(data)

    def _matches(self, sample: bytes) -> Iterator[int]:
        """The positions in the sample where a key of the table begins."""
        position, table, count = 0, self._table, self.count
        if len(sample) >= _WORTH_CALLING and self._has_matcher(sample):
            for _ in range(_MAX_MATCHES):
                match = self._search(sample, position)
                if match < 0:
                    return
                yield match
                position = match + 1
        yield from (at for at in range(position, len(sample) - count + 1) if sample[at : at + count] in table)

    def _search(self, sample: bytes, position: int) -> int:
        """The next position of a match, -1 if there is none."""
        begun = time.thread_time()
        match = self._matcher.search(sample, position)
        self._spent += time.thread_time() - begun
        return match.start() if match else -1

    def _has_matcher(self, sample: bytes) -> bool:
        """Whether to use the matcher. It is made once enough has been searched, and dropped again if it is slow."""
        self._seen += len(sample)
        if self._matcher is None and self._seen >= _WORTH_LOADING:
            self._matcher = _kept_matcher(tuple(self._table), self._site) or False
            self._seen, self._spent = 0, 0.0
        if self._matcher and self._seen >= _TRIAL:
            self._matcher = self._matcher if self._spent < self._seen * _SLOW_SEC else False
            self._seen, self._spent = 0, 0.0
        return bool(self._matcher)


def _kept_matcher(keys: tuple[bytes, ...], site: str | None) -> Any:
    """The matcher that was made last, if it is for the same keys: all streams of a task have the same."""
    if (keys, site) not in _last_matcher:
        _last_matcher.clear()
        _last_matcher[keys, site] = _matcher(keys, site)
    return _last_matcher[keys, site]


_last_matcher: dict[tuple[tuple[bytes, ...], str | None], Any] = {}


def _matcher(keys: tuple[bytes, ...], site: str | None) -> Any:
    """A pattern that matches any of `keys`. None if google-re2 is missing or refuses it, or for too many keys."""
    if len(keys) > _MAX_KEYS:
        return None
    if site and site not in sys.path:
        sys.path.append(site)
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.encoding, options.log_errors, options.max_mem = re2.Options.Encoding.LATIN1, False, _MATCHER_BYTES
    try:
        return re2.compile(b"|".join(b"".join(b"\\x%02x" % byte for byte in key) for key in keys), options)
    except re2.error:
        return None


class Held(NamedTuple):
    """The end of the text so far, held back because it may be the beginning of a secret. Its first `masked` bytes also
    belong to a secret that was already replaced: 0 if that secret ended right before, None if there is none."""

    data: bytes = b""
    masked: int | None = None


class Mask:
    """Masks one stream: each run of bytes that belongs to secrets becomes `******`. The result does not depend on how
    the stream is cut into pieces. A tail that may be the beginning of a secret is held back."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._held = Held()

    def feed(self, data: bytes) -> bytes:
        """Add `data` and return the masked text up to the point that is certain."""
        return self._masked(self._held.data + data if self._held.data else data, final=False)

    def lets_pass(self, data: bytearray, length: int) -> bool:
        """Whether the first `length` bytes of `data` can be passed on as they are, instead of being fed."""
        return self._held == Held() and not self._finder.may_hold(data, length)

    def finish(self) -> bytes:
        """End of the stream: return the masked form of what was held back."""
        return self._masked(self._held.data, final=True)

    def _masked(self, data: bytes, final: bool) -> bytes:
        found = sorted(self._finder.find(data))
        held_from = len(data) if final else min((start for start, end in found if end > len(data)), default=len(data))
        done = self._held.masked
        result: list[bytes] = []
        for start, end in found:
            if start >= held_from or end > len(data):
                continue
            if done is None or start > done:
                result += (data[done or 0 : start], MASKED)
                done = end
            done = max(done, end)
        result.append(data[done or 0 : held_from])
        self._held = Held(data[held_from:], done - held_from if done is not None and done >= held_from else None)
        return b"".join(result)


def masked(data: bytes, finder: Finder | None) -> bytes:
    """Mask a whole text."""
    if not finder:
        return data
    mask = Mask(finder)
    return mask.feed(data) + mask.finish()
